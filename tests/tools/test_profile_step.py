"""tools/profile_step.py: its arithmetic on a profile made by hand, and its reading of oneDNN's log."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import profile_step  # noqa: E402


def operation(what, shape, us, flops, size, calls=1):
    return {"what": what, "shape": shape, "calls": calls, "us": us, "flops": flops, "bytes": size}


# At 100 GFLOP/s, 50 GB/s in the cache and 10 GB/s in memory.
PROFILE = {
    "network": "lenet", "batch_size": 64, "threads": 1, "steps": 2, "step_us": 10_000.0, "gflops": 100.0, "memory_gbytes": 10.0,
    "cache_gbytes": 50.0, "sleeps": {"cpu(0)": 0.5, "train_bench": 1.0},
    "operations": [
        operation("Conv2D backward (weights)", "64x20x12x12 to 50, 5x5", 4000.0, 200e6, 1e6),
        operation("MaxPool2D", "64x20x24x24 to 20, 2x2 by 2", 3000.0, 1e6, 10e6),
        operation("sgd", "500", 1000.0, 1e6, 1e6, calls=2),
        operation("fill", "64", 10.0, 0, 256),
        operation("labels to float32", "", 6.0, 0, 0),
    ],
}
LIMITS = profile_step.Limits(PROFILE, 1 << 20)

LOG = """\
onednn_verbose,info,oneDNN v2.6.3
onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 dst_f32:p:blocked:Acdb64a:f0,,,50x20x5x5,0.0400391
onednn_verbose,exec,cpu,convolution,brgconv:avx512_core,forward_training,src_f32::blocked:acdb:f0,,alg:convolution_direct,mb64_ic20,2.9
onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32:p:blocked:Acdb16a:f0 dst_f32::blocked:abcd:f0,,,20x1x5x5,0.00390625
dnnl_verbose,exec,cpu,reorder,jit:uni,undef,src_f32:p:blocked:Acdb16a:f0 dst_f32::blocked:abcd:f0,,,20x1x5x5,1e-3
"""


class ProfileStep(unittest.TestCase):
    def test_names_are_short_and_without_the_batch(self):
        names = [profile_step.label(each, 64) for each in PROFILE["operations"]]
        self.assertEqual(names, ["Conv2D dW 20x12x12-50, 5x5", "MaxPool2D 20x24x24, 2x2/2", "sgd 500 (2)", "fill 64", "labels to float32"])
        self.assertEqual(profile_step.label(operation("Dense", "64x64 to 64", 1, 0, 0), 64), "Dense 64-64")
        self.assertEqual(profile_step.label(operation("Conv2D", "64x16x8x8 to 16, 3x3", 1, 0, 0), 64), "Conv2D 16x8x8-16, 3x3")

    def test_limits_are_the_slower_of_products_and_bytes(self):
        least = [LIMITS.microseconds(each) for each in PROFILE["operations"]]
        self.assertAlmostEqual(least[0], 2000)  # 200 MFLOP at 100 GFLOP/s
        self.assertAlmostEqual(least[1], 1000)  # 10 MB of memory
        self.assertAlmostEqual(least[2], 20)  # 1 MB within the cache
        self.assertEqual(least[4], 0)
        many = operation("+", "", 1, 0, 4e6, calls=4)  # each of 1 MB
        self.assertAlmostEqual(LIMITS.microseconds(many), 80)

    def test_rows_add_up_to_the_step(self):
        rows = profile_step.rows(PROFILE, LIMITS)
        self.assertEqual([name for name, *_ in rows][3:], ["2 others", "between operations", "step"])
        *parts, (_, step, least) = rows
        self.assertAlmostEqual(sum(each["us"] for _, each, _ in parts), step["us"])
        for key in ("flops", "bytes"):
            self.assertAlmostEqual(sum(each[key] for _, each, _ in parts), step[key])
        self.assertAlmostEqual(sum(each for *_, each in parts), least)
        self.assertAlmostEqual(rows[4][1]["us"], 10_000 - 8_016)

    def test_table(self):
        lines = profile_step.table(PROFILE, LIMITS).splitlines()
        self.assertEqual([line for line in lines if len(line) > 80], [])
        self.assertEqual(lines[0].split(), [word for name in profile_step.HEAD for word in name.split()])
        self.assertEqual(lines[1].split()[-7:], ["4,000", "40.0%", "200.0", "1.0", "50.0", "0.2", "50%"])
        self.assertEqual(lines[2].split()[-7:], ["3,000", "30.0%", "1.0", "10.0", "0.3", "3.3", "33%"])
        self.assertEqual(lines[-1].split(), ["step", "10,000", "100.0%", "202.0", "12.0", "20.2", "1.2", "30%"])

    def test_what_takes_longest_beyond_its_limit(self):
        self.assertEqual(profile_step.beyond(PROFILE, LIMITS, 2), [("Conv2D dW 20x12x12-50, 5x5", 2000.0), ("MaxPool2D 20x24x24, 2x2/2", 2000.0)])

    def test_reorders_of_a_step_are_what_more_steps_bring(self):
        count, us = profile_step.reorders(LOG)
        self.assertEqual(count, 3)
        self.assertAlmostEqual(us, 40.0391 + 3.90625 + 1)
        warm_up = LOG * 3
        few, many = (warm_up + LOG * steps for steps in profile_step.LOG_STEPS)
        count, us = profile_step.reorders_per_step([few, many])
        self.assertEqual(count, 3)
        self.assertAlmostEqual(us, 44.94535)
        self.assertEqual(profile_step.reorders_per_step(["", ""]), (0, 0))

    def test_report(self):
        text = profile_step.report(PROFILE, LIMITS, [LOG * 5, LOG * 10], {"arrays": 0, "sluice": 0.02, "onednn": 64, "others": 0})
        for part in ("Limits: 100 GFLOP/s", "50 GB/s up to 1 MiB", "10.0 GB/s beyond", "Operations explain 80.2% of the step.",
                     "3 reorders inside oneDNN (45 us)", "sluice 0.02, onednn 64", "cpu(0) 0.5, train_bench 1"):
            self.assertIn(part, text)
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
