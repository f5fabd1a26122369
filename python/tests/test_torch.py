"""sluice.torch beside plain PyTorch in one process."""
import unittest

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


class Training(unittest.TestCase):
    def check(self, kind, optimizer, options=None, workers=2, **how):
        expected, absent = job.train(kind, optimizer, 40, 0, 1, make=lambda model, plain: plain, **(options or {}))
        for found, found_absent in run(job.distributed, kind, optimizer, 40, options or {}, workers=workers, **how):
            self.assertEqual(found_absent, absent)
            for a, b in zip(found, expected):
                numpy.testing.assert_allclose(a, b, atol=1e-5)

    def test_workers_and_transports(self):
        for workers, transport in ((1, "tcp"), (2, "tcp"), (4, "shm")):
            with self.subTest(workers=workers, transport=transport):
                self.check("mlp", "sgd", workers=workers, env={"SLUICE_TRANSPORT": transport})

    def test_optimizers(self):
        for optimizer in ("adamw", "adagrad"):
            with self.subTest(optimizer):
                self.check("mlp", optimizer)

    def test_convolutions(self):
        self.check("lenet", "adam")

    def test_parameters_that_steps_do_not_reach(self):
        self.check("partial", "adam")

    def test_accumulation_and_clipping_and_scaling(self):
        for options in ({"passes": 4}, {"clip": 0.1}, {"scaled": True}, {"passes": 2, "clip": 0.1}):
            with self.subTest(options):
                self.check("mlp", "adam", options)

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
            self.assertEqual((found["mean"], found["sum"]), ([0.5] * 3, [1.0] * 3))
            self.assertEqual(found["named"], [[0.5 + i] * 2 for i in range(3)])
            self.assertEqual((found["integers"], found["scalar"]), ([0, 7], 2.5))
            self.assertEqual((found["rate"], found["step"]), (0.1, 1.0))
        self.assertEqual(sorted(results[0]["shares"] + results[1]["shares"]), list(range(10)))

    def test_a_worker_that_fails(self):
        with self.assertRaisesRegex(ValueError, "no data"):
            run(job.fails_in_backward)


class Refused(unittest.TestCase):
    def test_a_backward_that_was_cut_off(self):
        import sluice.torch as st

        class Fails(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return x.clone()

            @staticmethod
            def backward(context, gradient):
                raise ArithmeticError("cut off")
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
        with self.assertRaises(ArithmeticError):
            model[1](Fails.apply(model[0](torch.ones(1, 2)))).sum().backward()
        with self.assertRaisesRegex(RuntimeError, "cut off by an exception"):
            model(torch.ones(1, 2)).sum().backward()

    def test_wrong_arguments(self):
        import sluice.torch as st
        model = torch.nn.Linear(2, 2)
        plain = torch.optim.SGD(model.parameters(), 0.1)
        for text, call in (("op is", lambda: st.DistributedOptimizer(plain, op="max")),
                           ("lacks parameter 0.1", lambda: st.DistributedOptimizer(plain, [("w", model.weight)])),
                           ("two parameters", lambda: st.DistributedOptimizer(plain, [("w", model.weight), ("w", model.bias)])),
                           ("at least 1", lambda: st.DistributedOptimizer(plain, backward_passes_per_step=0)),
                           ("come from worker 0", lambda: st.broadcast(torch.ones(1), root_rank=1))):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                call()


if __name__ == "__main__":
    unittest.main()
