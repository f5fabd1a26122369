"""A table of ten million rows on two servers: what a step names is what it costs, and never the table.

Usage: rows_test.py BIN_DIR
"""
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import unwrapped  # noqa: E402
from launch_test import launch  # noqa: E402

BIN = None
MIB = 1 << 20
ROWS, COLUMNS, IDS, STEPS, WORKERS, SERVERS = 10_000_000, 64, 100_000, 3, 2, 2
ROW_BYTES = 4 * COLUMNS
DENSE = ROWS * ROW_BYTES  # 2.56 GB
# BASE holds a program that has done nothing yet, with its libraries and threads; messages under way; what the allocator keeps.
BASE = 96 * MIB


class Rows(unittest.TestCase):
    def run_table(self, distribution):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder, "report.json")
            done = launch("-n", WORKERS, "-s", SERVERS, BIN / "embedding_table", "--kv-store=dist_sync", f"--rows={ROWS}", f"--columns={COLUMNS}",
                          f"--ids={IDS}", f"--num-steps={STEPS}", f"--distribution={distribution}", "--check", f"--json={report}")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"{IDS} rows checked, all values right", done.stdout)
            return json.loads(report.read_text())

    def assert_no_dense_table(self, result):
        """Per server: each id of each step a row of its own, with 32 bytes to find it by; and its share of what both workers push
        and pull in a step, four times: as it comes, while the round closes, on its way back, and once more in pools of memory."""
        made = WORKERS * STEPS * IDS * (ROW_BYTES + 32) // SERVERS
        under_way = 4 * WORKERS * IDS * (ROW_BYTES + 8) // SERVERS
        bound = made + under_way + BASE
        self.assertLess(bound, DENSE // SERVERS // 3)
        self.assertEqual(set(result["server_max_rss_bytes"]), {f"server {rank}" for rank in range(SERVERS)})
        for server, peak in result["server_max_rss_bytes"].items():
            print(f"  {server} took {peak / MIB:.0f} MiB of {bound / MIB:.0f}", file=sys.stderr)
            self.assertLess(peak, bound, server)

    def test_a_step_costs_what_it_names(self):
        for distribution in ("uniform", "zipf"):
            with self.subTest(distribution):
                result = self.run_table(distribution)
                self.assertEqual(result["table_bytes"], DENSE)
                self.assertEqual(result["loss"], sorted(result["loss"], reverse=True))
                self.assertLessEqual(result["pushed_bytes"], IDS * (ROW_BYTES + 8))
                self.assertLessEqual(result["pulled_bytes"], IDS * ROW_BYTES)
                self.assert_no_dense_table(result)

    def test_flags_that_do_not_fit_are_refused(self):
        for flag, word in (("--distribution=normal", "zipf or uniform"), ("--ids=0", "--ids is 0")):
            with self.subTest(flag):
                done = launch("-n", 1, "-s", 1, BIN / "embedding_table", "--kv-store=dist_sync", flag)
                self.assertEqual(done.returncode, 2)
                self.assertIn(word, unwrapped(done.stdout))
        done = launch("-n", 1, "-s", 1, BIN / "embedding_table", "--kv-store=dist_async", "--check")
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
