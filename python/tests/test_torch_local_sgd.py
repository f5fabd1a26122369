"""LocalSGD and DiLoCo beside simulations in float64; shared weights for readers."""
import unittest

import numpy
import sluice

try:
    import torch  # noqa: F401
    import torch_local_sgd_job as job
    from torch_job import several
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

LIMIT = 120  # seconds
ROUNDS = 3
STEPS = ROUNDS * job.EVERY
WHOLE = [job.EVERY] * 4  # the model has four parameters: weight, bias, weight, bias


class Local(unittest.TestCase):
    def check(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            for a, b in zip(one, other):
                numpy.testing.assert_allclose(a, b, atol=1e-5)

    def test_the_mean_of_the_parameters(self):
        self.check(sluice.run(job.on_servers, ("LocalSGD", STEPS, {}), workers=3, servers=2, timeout=LIMIT),
                   job.simulated(3, STEPS, 1.0, 0.0, WHOLE))

    def test_an_outer_optimizer_on_one_host(self):
        self.check(sluice.run(job.on_servers, ("DiLoCo", STEPS, {}), workers=4, servers=2, timeout=LIMIT, env={"SLUICE_TRANSPORT": "shm"}),
                   job.simulated(4, STEPS, 0.7, 0.9, WHOLE))

    def test_an_outer_optimizer_with_fragments_and_async_and_compressed(self):
        halves = [3, 6, 6, 6]  # the first parameter has 32 of the 67 elements
        calls = [(job.on_servers, ("DiLoCo", STEPS, {})), (job.on_servers, ("DiLoCo", STEPS + 1, {"fragments": 2})),
                 (job.on_servers, ("DiLoCo", STEPS + 1, {"fragments": 2, "delay": 2, "alpha": 0.25})), (job.in_turns, (STEPS,)),
                 (job.on_servers, ("DiLoCo", STEPS, {"compression": sluice.Compression("fp16")}))]
        whole, parts, later, turns, compressed = zip(*sluice.run(several, (calls,), workers=2, servers=2, timeout=LIMIT))
        exact = job.simulated(2, STEPS, 0.7, 0.9, WHOLE)
        self.check(whole, exact)
        self.check(parts, job.simulated(2, STEPS + 1, 0.7, 0.9, halves))
        self.check(later, job.simulated(2, STEPS + 1, 0.7, 0.9, halves, delay=2, alpha=0.25))
        self.check(turns, job.simulated_in_turns(2, STEPS))
        apart = [abs(a - b).max() for one, other in zip(compressed, exact) for a, b in zip(one, other)]
        self.assertLess(max(apart), 2e-3)
        self.assertGreater(max(apart), 2e-5)  # float16 has rounded

    def test_wrong_arguments(self):
        import sluice.torch as st
        model = job.model_of()
        for text, call in (("sync_every is 0", lambda: st.DiLoCo(model, 0)),
                           ("fragments is 5; it is from 1 to 4", lambda: st.DiLoCo(model, 10, fragments=5)),
                           ("delay is 6; it is from 0 to 5", lambda: st.DiLoCo(model, 6, delay=6)),
                           ("alpha is 2", lambda: st.LocalSGD(model, 6, alpha=2)),
                           ("no parameter", lambda: st.DiLoCo([], 6))):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                call()


    def test_no_fragment_is_empty(self):
        from sluice.torch.local_sgd import _fragments_of
        for sizes in ((1, 1, 188, 110, 1), (300, 1, 1), (1, 1, 300), (1,) * 7):
            parameters = [(str(i), torch.nn.Parameter(torch.zeros(size))) for i, size in enumerate(sizes)]
            for count in range(1, len(sizes) + 1):
                fragments = _fragments_of(parameters, count, 10)
                self.assertTrue(all(fragment.names for fragment in fragments), (sizes, count))
                self.assertEqual([name for fragment in fragments for name in fragment.names], [str(i) for i in range(len(sizes))])


class Readers(unittest.TestCase):
    def test_a_publish_that_was_interrupted(self):
        import sluice.torch as st
        writer = st.publish(torch.nn.Linear(2, 2), "interrupted")
        self.assertEqual(writer.publish(), 1)
        writer._version.fill_(3)  # it has begun to write
        self.assertEqual(writer.publish(), 2)
        self.assertEqual(int(writer._version), 4)

    def test_a_reader_sees_whole_versions(self):
        writer, reader = sluice.run(job.publishes, timeout=LIMIT)
        self.assertEqual(writer, 3)
        self.assertEqual(reader[-1], 3)
        self.assertEqual(reader, sorted(reader))


if __name__ == "__main__":
    unittest.main()
