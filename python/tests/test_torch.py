"""sluice.torch beside plain PyTorch in one process."""
import tempfile
import unittest
from unittest import mock

import numpy
import sluice

try:
    import torch
    import torch_job as job
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

LIMIT = 120  # seconds


def run(fn, *args, **options):
    return sluice.run(fn, args, timeout=LIMIT, **options)


def plain(kind, optimizer, **options):
    """What one process without Sluice trains: (parameters, which gradients are None)."""
    return job.train(kind, optimizer, job.STEPS, 0, 1, make=lambda model, optimizer: optimizer, **options)


class Training(unittest.TestCase):
    """Trainings of one number of workers share a job, since every process takes seconds to begin."""

    def check(self, on_workers=(), on_servers=(), **how):
        calls = [(job.distributed, case) for case in on_workers] + [(job.on_servers, case) for case in on_servers]
        for results in run(job.several, calls, servers=2, **how):
            for (fn, (kind, optimizer, options)), found in zip(calls, results):
                with self.subTest(fn=fn.__name__, kind=kind, optimizer=optimizer, options=options):
                    kept = {name: value for name, value in options.items() if name not in ("overlap", "store")}
                    expected, absent = plain(kind, optimizer, **kept)
                    if fn is job.distributed:
                        found, found_absent = found
                        self.assertEqual(found_absent, absent)
                    for a, b in zip(found, expected):
                        numpy.testing.assert_allclose(a, b, atol=1e-5)

    def test_one_worker(self):
        self.check([("mlp", "sgd", {})], [("mlp", "sgd", {}), ("mlp", "adam", {"store": "dist_async"})], workers=1)

    def test_two_workers(self):
        self.check([("mlp", "sgd", {}), ("mlp", "adamw", {}), ("mlp", "adagrad", {}), ("lenet", "adam", {}), ("partial", "adam", {}),
                    *(("mlp", "adam", options) for options in ({"passes": 4}, {"clip": 0.1}, {"scaled": True}, {"passes": 2, "clip": 0.1}))],
                   # An attention layer takes the parameters of one whose forward it does not call.
                   [("mlp", "adam", {"overlap": True}), ("mlp", "adamw", {"passes": 2}), ("mlp", "nesterov", {}), ("attention", "adam", {"overlap": True}),
                    ("weight_norm", "sgd", {"overlap": True})])

    def test_workers_on_one_host(self):
        self.check([("mlp", "sgd", {})], [("mlp", "adagrad", {"overlap": True}), ("mlp", "rmsprop", {})], workers=4, env={"SLUICE_TRANSPORT": "shm"})

    def test_parameters_that_the_program_writes_and_steps_of_fewer_passes(self):
        for results in run(job.several, [(job.written, (False,)), (job.written, (True,))]):
            for on_servers, (weight, refused) in zip((False, True), results):
                self.assertEqual(weight, 5 - (4 + 2 + 4))
                self.assertEqual("set_parameters" in refused, on_servers)

    def test_groups_and_schedules_on_servers(self):
        for found, expected in run(job.in_groups):
            for a, b in zip(found, expected):
                numpy.testing.assert_allclose(a, b, atol=1e-5)

    def test_data_that_ends_at_different_steps(self):
        batches = (4, 0, 2)
        expected = job.uneven_in_one_process(batches)
        for found in run(job.uneven, batches, workers=len(batches)):
            for a, b in zip(found, expected):
                numpy.testing.assert_allclose(a, b, atol=1e-5)

    def test_several_optimizers_and_a_table_where_data_ends(self):
        for weights, rows in run(job.uneven_with_others):
            self.assertEqual(weights, [[[-2.0, -2.0]], [[-2.0, -2.0]]])
            self.assertEqual(rows, [[-1.0, -1.0], [-1.0, -1.0], [0.0, 0.0]])  # 2 backward, averaged over all workers

    def test_branches_and_short_steps_and_joined_optimizers(self):
        for (first, second), joined in run(job.several, [(job.branches, ()), (job.joined_optimizers, ())]):
            self.assertEqual(first, [-2.0, -0.5])
            numpy.testing.assert_allclose(second, [-3.0, -0.5], atol=1e-6)  # the average, clipped to 1, on both workers
            numpy.testing.assert_allclose(joined, [0.729, 0.729, -2.5], atol=1e-6)

    def test_pytorchs_own_wrapper(self):
        with tempfile.TemporaryDirectory() as folder:
            for through_servers, through_gloo in run(job.hooked, folder):
                for a, b in zip(through_servers, through_gloo):
                    numpy.testing.assert_allclose(a, b, atol=1e-6)

    def test_wrapped_modules(self):
        results = run(job.wrapped)
        weight = results[0][0]
        torch.manual_seed(10)
        plain = torch.nn.Linear(6, 5)
        gradient = numpy.zeros((5, 6))
        x, y = job.data_of("mlp", 0)
        for rank in range(2):
            for part in range(2):
                plain.zero_grad()
                torch.nn.functional.cross_entropy(plain(x[rank::2][part::2]), y[rank::2][part::2]).backward()
                gradient += plain.weight.grad.numpy() / 2
        for found, found_gradient in results:
            numpy.testing.assert_array_equal(found, weight)
            numpy.testing.assert_array_equal(found, plain.weight.detach().numpy())
            numpy.testing.assert_allclose(found_gradient, gradient, atol=1e-6)


class Values(unittest.TestCase):
    def test_shared_values(self):
        results = run(job.values)
        for found in results:
            self.assertEqual(found["object"], {"a": [1, 0], "b": "text"})
            self.assertEqual((found["arrays"], found["many"]), ([list(range(i)) for i in range(4)], [i + 0.5 for i in range(20)]))
            self.assertEqual((found["mean"], found["sum"]), ([0.5] * 3, [1.0] * 3))
            self.assertEqual(found["named"], [[0.5 + i] * 2 for i in range(3)])
            self.assertEqual(found["async"], [[1.0 + 2 * i] * 2 for i in range(3)])
            self.assertEqual((found["integers"], found["scalar"]), ([0, 7], 2.5))
            self.assertEqual((found["rate"], found["step"]), (0.1, 1.0))
        self.assertEqual(sorted(results[0]["shares"] + results[1]["shares"]), list(range(10)))

    def test_a_worker_that_fails(self):
        with self.assertRaisesRegex(ValueError, "no data"):
            run(job.fails_in_backward)


class Refused(unittest.TestCase):
    def test_a_backward_that_was_cut_off(self):
        import sluice.torch as st
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
        with self.assertRaises(ArithmeticError):
            model[1](job.Fails.apply(model[0](torch.ones(1, 2)))).sum().backward()
        with self.assertRaisesRegex(RuntimeError, "cut off by an exception"):
            model(torch.ones(1, 2)).sum().backward()

    def test_what_fails_in_pytorchs_own_wrapper_leaves_backward(self):
        import sluice.torch as st
        import torch.distributed
        store = mock.Mock(num_workers=1)
        store.pushpull_async.return_value.wait.side_effect = sluice.errors.Unavailable("worker 7 is dead")
        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=0, world_size=1)
            self.addCleanup(torch.distributed.destroy_process_group)
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
            model.register_comm_hook(None, st.comm_hook(store))
            with self.assertRaisesRegex(RuntimeError, "worker 7 is dead"):
                model(torch.ones(1, 2)).sum().backward()

    def test_wrong_arguments(self):
        import sluice.torch as st
        model = torch.nn.Linear(2, 2)
        plain = torch.optim.SGD(model.parameters(), 0.1)
        for text, call in (("op is", lambda: st.DistributedOptimizer(plain, op="max")),
                           ("lacks parameter 0.1", lambda: st.DistributedOptimizer(plain, [("w", model.weight)])),
                           ("two parameters", lambda: st.DistributedOptimizer(plain, [("w", model.weight), ("w", model.bias)])),
                           ("at least 1", lambda: st.DistributedOptimizer(plain, backward_passes_per_step=0)),
                           ("update is 'both'", lambda: st.DistributedOptimizer(plain, update="both")),
                           ("servers have no Adamax", lambda: st.DistributedOptimizer(torch.optim.Adamax(model.parameters()), update="server")),
                           ("dampening of SGD is 0.5", lambda: st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1, 0.9, dampening=0.5),
                                                                                       update="server")),
                           ("differ in betas", lambda: st.DistributedOptimizer(torch.optim.Adam([{"params": [model.weight], "betas": (0.5, 0.9)},
                                                                                                 {"params": [model.bias]}]), update="server")),
                           ("join takes DistributedOptimizers", lambda: st.join([plain])),
                           ("join\\(\\) needs update", lambda: st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), update="server").join()),
                           ("need a synchronous store", lambda: st.DistributedOptimizer(plain, store="dist_async")),
                           ("overlap_forward needs", lambda: st.DistributedOptimizer(plain, overlap_forward=model)),
                           ("come from worker 0", lambda: st.broadcast(torch.ones(1), root_rank=1))):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                call()


if __name__ == "__main__":
    unittest.main()
