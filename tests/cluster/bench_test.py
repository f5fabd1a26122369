"""tools/bench_train.py --quick and tools/bench_stores.py --quick make their tables, and tools/profile_step.py its; what they
hold is noise, and that they hold numbers is what is looked at.

Usage: bench_test.py BIN_DIR
"""
import contextlib
import io
import os
import pathlib
import re
import shutil
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "cluster")]
import bench_alone  # noqa: E402
import bench_beside_pytorch  # noqa: E402
import bench_kv  # noqa: E402
import bench_network  # noqa: E402
import bench_run  # noqa: E402
import bench_scale  # noqa: E402
import bench_stores  # noqa: E402
import bench_train  # noqa: E402
import labs  # noqa: E402
import profile_messages  # noqa: E402
import profile_step  # noqa: E402

BIN = None
# Rows of each table with one number of threads; the second ones stand beside PyTorch.
OURS = {"trainer": 3, "one_pass": 3, "binding": 2, "rounds": 2, "job": 1, "update": 3, "allocations": 10, "overlap": 8}
BY_ARITHMETIC = {"0": {"bfloat16": 1, "kernels": 0}, "0,1": {"bfloat16": 2, "kernels": 11}}
BESIDE_PYTORCH = {"lenet": 2, "texts": 3, "recurrent_layers": 3, "dist": 2}

# For who changes these tools, or makes the pages of figures anew.
ALL_TABLES = os.environ.get("SLUICE_ALL_TABLES") == "1"
in_all_tables = unittest.skipUnless(ALL_TABLES, "takes minutes of a quiet machine: SLUICE_ALL_TABLES=1 runs it")


def has_torch():
    try:
        bench_beside_pytorch.require_torch()
    except bench_run.Skipped as why:
        print(why)
        return False
    return True


class Bench(unittest.TestCase):
    def setUp(self):
        for name, value in (("PROGRAMS", str(BIN)), ("IMAGES", dict(bench_run.IMAGES))):  # main changes the second
            patch = mock.patch.object(bench_run, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def tables(self, *names, script=bench_train, flags=("--threads", "1")):
        """What each printed, by name."""
        out = io.StringIO()
        arguments = [script.__name__, "--quick", "--pairs", "1", "--only", ",".join(names), *flags]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(out):
            script.main()
        head, *parts = out.getvalue().split("\n### ")
        self.assertTrue(head.startswith("Machine:\n\n- "), head)
        self.assertEqual(len(parts), len(names), out.getvalue())
        by_name = {re.search(r" \(`--only (\w+)`\)$", part.splitlines()[0]).group(1): part for part in parts}
        self.assertEqual(set(by_name), set(names))
        return by_name

    def assert_table(self, text, rows):
        lines = [line for line in text.splitlines() if line.startswith("|")]
        self.assertEqual(len(lines), 2 + rows, text)
        self.assertEqual({line.count("|") for line in lines}, {lines[0].count("|")}, text)
        for line in lines[2:]:
            float(line.split("|")[-2].replace(",", "").removesuffix(" %"))

    def test_pushing_and_pulling(self):
        flags = ("--transports", "tcp,ipc", "--topologies", "2x2", "--sizes", "4K,1M")
        by_name = self.tables("matrix", "many_keys", "calls", "closing", "rows", script=bench_stores, flags=flags)
        tables = [[line.split("|")[1:-1] for line in text.splitlines()] for text in re.findall(r"(?:^\|.*\n)+", by_name["matrix"], re.MULTILINE)]
        self.assertEqual([len(table) for table in tables], [2 + 2, 2 + 4] * 2, by_name["matrix"])  # raw, then the store's, by transport
        for table in tables[1::2]:
            for workers_and_servers, size, mode, *figures in table[2:]:
                self.assertEqual(workers_and_servers.strip(), "2x2")
                self.assertGreaterEqual(min(float(figure.replace(",", "")) for figure in figures), 0)
                if size.strip() == "1 MiB":  # into and out of sockets, half of a push_pull landed, 8 KiB of a frame (128 to 512) in batches on both sides
                    self.assertAlmostEqual(float(figures[-1]), 2.08 if mode.strip() == "push" else 2.58, delta=0.07)
        self.assert_table(by_name["many_keys"], 4)
        self.assert_table(by_name["calls"], 2)
        self.assert_table(by_name["closing"], 4)
        self.assert_table(by_name["rows"], 2)

    def test_beside_a_parameter_server(self):
        peer = """peer=echo '{{"gbit_per_s": {keys}, "cpu_s_per_gb": 1}}'"""
        text = self.tables("parameter_servers", script=bench_stores, flags=("--transports", "shm", "--peer", peer))["parameter_servers"]
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| peer | shm")]
        self.assertEqual([row[2:4] for row in rows], [["ipc", "4 KiB x 40"], ["ipc", "4 KiB x 160"], ["ipc", "64 KiB"]], text)
        self.assertEqual(rows[0][5], "40.0")  # keys, as told
        for row in rows:
            self.assertGreater(min(float(figure) for figure in (row[4], row[6], row[9], row[11])), 0)

    @in_all_tables
    @unittest.skipUnless(shutil.which("valgrind") and shutil.which("strace"), "needs valgrind and strace")
    def test_what_a_part_costs(self):
        rows, parts_of_key, absent = profile_messages.instructions("shm", profile_messages.LOADS["1 MiB"])
        self.assertEqual(parts_of_key, 4)
        self.assertEqual(absent, set())  # what one stage calls and another counts is found by its functions' names, too
        stages = {(role, stage): cost for role, stage, cost in rows}
        self.assertGreater(min(stages.values()), 10, stages)  # every stage is found by its functions' names
        self.assertLess(max(cost for (_, stage), cost in stages.items() if "sum" not in stage and "copy" not in stage), 20_000, stages)
        calls = profile_messages.system_calls("shm", profile_messages.LOADS["1 MiB"], parts_of_key)
        self.assertLess(0, min(calls.values()))
        self.assertEqual(profile_messages.instructions("shm", profile_messages.LOADS["40 keys of 4 KiB, one call"])[1], 1)  # in batches

    def test_a_transport_that_is_not_there_is_left_out(self):
        with mock.patch.object(bench_kv, "missing", lambda name: "a reason"):
            text = self.tables("matrix", script=bench_stores, flags=("--transports", "shm"))["matrix"]
        self.assertIn("(without shm: a reason)", text)
        self.assertNotIn("\n|", text)

    @in_all_tables
    def test_tables_of_our_own(self):
        for name, text in self.tables(*OURS).items():
            with self.subTest(table=name):
                self.assert_table(text, OURS[name])

    def test_tables_by_arithmetic(self):
        rows = BY_ARITHMETIC[",".join(bench_alone.bfloat16_arithmetic())]
        for name, text in self.tables(*rows).items():
            with self.subTest(table=name):
                if rows[name] > 0:
                    self.assert_table(text, rows[name])
                else:
                    self.assertIn("(skipped: ", text)

    @in_all_tables
    def test_profiles(self):
        text = self.tables("profile")["profile"]
        for network in bench_alone.STOCK:
            self.assertIn(f"{bench_run.NAMES[network]}:\n\n```\nLimits: ", text)
        self.assertEqual(text.count("\nstep  "), len(bench_alone.STOCK))

    @in_all_tables
    def test_tables_beside_pytorch(self):
        if not has_torch():
            self.skipTest("no PyTorch")
        for name, text in self.tables(*BESIDE_PYTORCH).items():
            with self.subTest(table=name):
                self.assert_table(text, BESIDE_PYTORCH[name])

    def on_hosts(self, tool, *arguments):
        """What it prints."""
        out = io.StringIO()
        with mock.patch.object(sys, "argv", [f"{tool.__name__}.py", *arguments]), contextlib.redirect_stdout(out):
            try:
                tool.main()
            except SystemExit as why:
                if "needs root" in str(why) or "is missing" in str(why) or "did not come up" in str(why):
                    labs.missing(str(why))
                raise
        return out.getvalue()

    def test_rounds_on_hosts(self):
        text = self.on_hosts(bench_scale, "--repeats", "1", "--mbit", "1000", "--shapes", "2x1")
        self.assertRegex(text, r"\| 1,000 Mbit/s \| 2 x 1 \| 73\.6 \| [\d.]+ \| [\d.]+ \|")

    def test_a_network(self):
        text = self.on_hosts(bench_network, "--pairs", "1", "--steps", "10")
        self.assertEqual(len([line for line in text.splitlines() if line.startswith("| w")]), 5, text)
        self.assertIn("| with overlap, 2bit | 107,848 | 1/16.0 | 1,724,320 | ", text)
        self.assertIn("| with overlap, 2bit, weights fp16 | 107,848 | 1/16.0 | 862,160 | ", text)
        self.assertIn("| with overlap, fp16 both ways | 862,160 | 1/2.0 | 862,160 | ", text)
        self.assertEqual(len(re.findall(r"^fc1\.weight +\|.*F", text, re.MULTILINE)), 2, text)

    # What few there are come with the barrier at the end, and with a pool that grows, which it does when others keep the cores
    # busy: then it is looked at again.
    def test_a_warm_step_takes_no_memory(self):
        for network, store in (("lenet", "local"), ("lenet", "dist_sync"), ("resnet20", "dist_sync")):
            with self.subTest(network=network, store=store):
                train = (bench_run.program("train_bench"), "--network", network, "--batch-size", 8, "--steps", 100,
                         "--repeats", 1, "--kv-store", store, "--count-allocations")
                seen = []
                while len(seen) < 4 and all(calls["arrays"] + calls["sluice"] >= 1 for calls in seen):
                    text = bench_run.launched(1, *train) if store == "dist_sync" else bench_run.run(*train)
                    seen.append(bench_run.objects(text)[0]["allocations_per_step"])
                self.assertLess(seen[-1]["arrays"] + seen[-1]["sluice"], 1, seen)

    # Every operation that takes time says what it has to do, whoever computes it.
    def test_a_step_by_operation(self):
        for network, operations in (("lenet", ["Conv2D dW 20x12x12-50, 5x5", "Dense 800-500", "MaxPool2D 20x24x24, 2x2/2", "sgd 400000"]),
                                    ("resnet20", ["Conv2D dX 16x32x32-16, 3x3 (6)", "BatchNorm dX 8192x16 (7)"])):
            out = io.StringIO()
            arguments = ["profile_step.py", "--network", network, "--batch", "8", "--steps", "5", "--repeats", "1"]
            with mock.patch.object(profile_step, "LEAST_SHARE", 0), mock.patch.object(sys, "argv", arguments), \
                    contextlib.redirect_stdout(out):
                profile_step.main()
            text = out.getvalue()
            for operation in operations:
                found = re.search(rf"^{re.escape(operation)} +(.*)$", text, re.MULTILINE)
                self.assertIsNotNone(found, f"{operation}:\n{text}")
                us, _, _, size, *_ = found.group(1).split()
                self.assertGreater(min(float(each.replace(",", "")) for each in (us, size)), 0, found.group(0))
            self.assertRegex(text, r"Operations explain \d+\.\d% of the step")
            reorders = re.search(r"A step: (\S+) reorders inside oneDNN", text)
            self.assertGreater(float(reorders.group(1)), 0, text)
            self.assertRegex(text, r"by thread: .*cpu\(0\) ")

    def test_without_pytorch_a_line_says_so(self):
        with mock.patch.object(bench_beside_pytorch, "PYTHON", "/no/python3"):
            for text in self.tables("lenet", "resnet", "dist").values():
                self.assertIn("(skipped: no PyTorch for /no/python3: ", text)
                self.assertNotIn("\n|", text)

    def test_without_mnist_a_line_says_so(self):
        with mock.patch.dict(os.environ, {"SLUICE_MNIST": ""}):
            self.assertIn("(skipped: SLUICE_MNIST names no folder", self.tables("accuracy")["accuracy"])


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
