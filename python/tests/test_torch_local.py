"""LocalSGD and DiLoCo beside simulations in float64; shared weights for readers."""
import unittest

import numpy
import sluice

try:
    import torch  # noqa: F401
    import torch_local_job as job
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

    def run_job(self, *args, workers=2, **more):
        return sluice.run(job.on_servers, args, workers=workers, servers=2, timeout=LIMIT, **more)

    def test_the_mean_of_the_parameters(self):
        self.check(self.run_job("LocalSGD", STEPS, {}, workers=3), job.simulated(3, STEPS, 1.0, 0.0, WHOLE))

    def test_an_outer_optimizer(self):
        for workers, transport in ((2, "tcp"), (4, "shm")):
            with self.subTest(workers=workers, transport=transport):
                self.check(self.run_job("DiLoCo", STEPS, {}, workers=workers, env={"SLUICE_TRANSPORT": transport}),
                           job.simulated(workers, STEPS, 0.7, 0.9, WHOLE))

    def test_fragments_that_come_later(self):
        halves = [3, 6, 6, 6]  # the first parameter has 32 of the 67 elements
        for options, delay, alpha in (({"fragments": 2}, 0, 0.0), ({"fragments": 2, "delay": 2, "alpha": 0.25}, 2, 0.25)):
            with self.subTest(options):
                self.check(self.run_job("DiLoCo", STEPS + 1, options), job.simulated(2, STEPS + 1, 0.7, 0.9, halves, delay, alpha))

    def test_async_in_a_given_order(self):
        self.check(sluice.run(job.in_turns, (STEPS,), workers=2, servers=2, timeout=LIMIT), job.simulated_in_turns(2, STEPS))

    def test_compressed(self):
        exact = job.simulated(2, STEPS, 0.7, 0.9, WHOLE)
        apart = [abs(a - b).max() for one, other in zip(self.run_job("DiLoCo", STEPS, {"compression": sluice.Compression("fp16")}), exact)
                 for a, b in zip(one, other)]
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
        from sluice.torch.local import _fragments_of
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
