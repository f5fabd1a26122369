"""tools/scale_model.py against what is known in closed form."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import scale_fit  # noqa: E402
import scale_model  # noqa: E402
import step_model  # noqa: E402

MB, RATE = 1e6, 1e9


def job(workers, servers, **more):
    return scale_model.Job(workers, servers, RATE, **({"latency": 0, "message": 0, "sum_rate": 1e15} | more))


class Network(unittest.TestCase):
    """As BytePS (OSDI 2020) has them: n machines with GPUs, k with CPUs alone."""

    def test_separate_servers(self):
        for n, k in ((8, 8), (8, 4), (8, 1), (4, 8)):
            self.assertAlmostEqual(scale_model.network_seconds(job(n, k), [MB]), max(MB / RATE, n * MB / k / RATE))

    def test_colocated_servers_are_as_all_reduce(self):
        for n in (2, 8, 100):
            size = 100 * MB  # on all servers alike
            self.assertAlmostEqual(scale_model.network_seconds(job(n, n, colocated=True), [size]), 2 * (n - 1) * size / n / RATE)

    def test_compression_of_pushes_frees_one_direction_of_two(self):
        self.assertEqual(scale_model.network_seconds(job(4, 4, push_share=1 / 16), [MB]), MB / RATE)
        self.assertEqual(scale_model.network_seconds(job(4, 4, push_share=1 / 2, pull_share=1 / 2), [MB]), MB / 2 / RATE)
        self.assertEqual(scale_model.network_seconds(job(4, 4, colocated=True, push_share=0), [MB]), 0.75 * MB / RATE)


class Others(unittest.TestCase):
    def test_the_slowest_resource_counts(self):
        self.assertAlmostEqual(scale_model.busiest_seconds(job(4, 2, sum_rate=1e7), [MB], False), (4 + 4) * MB / 2 / 1e7)
        # 2 servers, each 2 messages of 256 KiB, 3 messages each; a server has twice as many workers as a worker has servers.
        self.assertAlmostEqual(scale_model.busiest_seconds(job(4, 2, message=1), [MB], False), 2 * 3 * 2 * 2)

    def test_small_keys_apart_are_a_message_each(self):
        self.assertEqual(scale_model.message_seconds(job(1, 1, message=1), [8.0] * 10, True), 30)
        self.assertEqual(scale_model.message_seconds(job(1, 1, message=1), [8.0] * 10, False), 3)

    def test_keys_are_cut_into_as_few_slices_as_balance_lets_them(self):
        mib = float(1 << 20)
        self.assertEqual(scale_model.placed(2, (8.0, 16.0, 8.0)), ([1, 1, 1], 16.0))
        self.assertEqual(scale_model.placed(4, (mib,)), ([4], mib / 4))
        self.assertEqual(scale_model.placed(100, (mib,)), ([32], mib / 32))  # parts of 32 KiB
        self.assertEqual(scale_model.placed(2, (15 * mib, mib)), ([2, 1], 8.5 * mib))  # an eighth of a share of 8 MiB

    def test_parameters_are_the_published_ones(self):
        for layers, millions in ((scale_model.RESNET_50, 25.5), (scale_model.RESNET_152, 60.0), (scale_model.VGG_19, 143.7)):
            self.assertAlmostEqual(sum(size for size, _ in layers) / 4e6, millions, delta=0.1)

    def test_a_fast_network_costs_nothing_and_a_slow_one_all(self):
        network = scale_model.Network(scale_model.RESNET_50, 0.2)
        self.assertAlmostEqual(scale_model.efficiency(network, scale_model.Job(4, 4, 1e13, message=0, latency=0), True), 1, 2)
        slow = scale_model.Job(4, 4, 1e6)
        most = scale_model.most_bytes(slow, [size for size, _ in network.layers])
        self.assertLess(most, 1.06 * network.size / 4)
        self.assertAlmostEqual(scale_model.efficiency(network, slow, True), 0.2 / (4 * most / 1e6), 4)


class Fit(unittest.TestCase):
    def test_constants_come_back(self):
        features = [(1, 5), (2, 1), (3, 7), (10, 0)]
        values = [0.5 * a + 3 * b for a, b in features]
        fitted = scale_fit.least_squares(features, values)
        for each, known in zip(fitted, (0.5, 3)):
            self.assertAlmostEqual(each, known)
        self.assertAlmostEqual(scale_fit.error(features, values, fitted), 0)

    def test_relative_errors_count(self):
        # One constant for 1 and 200: a minimises (a / 1 - 1)^2 + (100 a / 200 - 1)^2.
        fitted, = scale_fit.least_squares([(1,), (100,)], [1, 200])
        self.assertAlmostEqual(fitted, 1.5 / 1.25)
        self.assertAlmostEqual(scale_fit.error([(1,), (100,)], [1, 200], [fitted]), ((0.2**2 + 0.4**2) / 2) ** 0.5)

    def test_measurements_that_tell_nothing_apart_are_refused(self):
        with self.assertRaises(ValueError):
            scale_fit.least_squares([(1, 0), (2, 0), (3, 0)], [1, 2, 3])

    def test_what_a_round_is_made_of(self):
        self.assertEqual(scale_fit.of_links(job(4, 2), [MB]), (2 * MB / RATE, 3 / RATE))
        # A push and a value, each with two ends, and for every worker but the last an acknowledgement.
        self.assertEqual(scale_fit.of_cores(1, 2, [4]), (2 * 2, 2 * 2 * 4))
        self.assertEqual(scale_fit.of_cores(3, 2, [4, 4]), (2 * 2 * 8, 2 * 2 * 3 * 8))
        self.assertEqual(scale_fit.of_cores(1, 2, [1 << 20]), (2 * 4 * 2, 4 << 20))


class Step(unittest.TestCase):
    def test_values_of_16_bits_come_back_sooner(self):
        self.assertEqual(step_model.exchange([1000], [0.0], 1 / 2, 100, 0, part_bytes=1000), [15])
        self.assertEqual(step_model.exchange([1000], [0.0], 1 / 2, 100, 0, part_bytes=1000, pull_share=1 / 2), [10])

    def test_without_urgency_the_first_written_goes_first(self):
        # The last layer is written first and large: the first one's weights come behind it.
        sizes, ready = [100, 1000], [1.0, 0.0]
        self.assertEqual(step_model.exchange(sizes, ready, 1, 100, 0, part_bytes=1000, by_urgency=False), [21, 20])
        self.assertLess(step_model.exchange(sizes, ready, 1, 100, 0, part_bytes=100)[0], 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
