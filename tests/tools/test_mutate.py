"""tools/mutate.py draws what it says it draws, and leaves the sources as they were."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import mutate  # noqa: E402


class Mutate(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.file = pathlib.Path(scratch.name) / "part.cc"

    def drawn(self, line):
        self.file.write_text(line + "\n")
        return {mutation.after for mutation in mutate.mutations_of(self.file)}

    def test_comparisons_turn_terms_go_and_bounds_move(self):
        self.assertEqual(self.drawn("return a < b;"), {"return a <= b;", "return a > b;"})
        self.assertEqual(self.drawn("x = n + 1;"), {"x = n;", "x = n + 2;", "x = n - 1;"})
        self.assertEqual(self.drawn("if (a && f(b || c)) return;"),
                         {"if (a || f(b || c)) return;", "if (a && f(b && c)) return;", "if (a) return;",
                          "if (a && f(b)) return;"})

    def test_barriers_of_kernels_go(self):
        self.assertEqual(self.drawn("    __syncthreads();  // the tile is read"), {"// the tile is read"})

    def test_words_and_checks_are_left_alone(self):
        for line in ('log << " < ";', "// a < b", "SLUICE_CHECK(a < b);", "std::vector<int> v;",
                     'LOG(ERROR) << StrCat(a + b);'):
            self.assertEqual(self.drawn(line), set(), line)

    def test_numbers_are_not_cut(self):
        self.assertEqual(self.drawn("return a + 15;"), {"return a - 15;"})

    def test_a_comment_behind_the_code_stays(self):
        self.assertIn("return a <= b;  // a < b", self.drawn("return a < b;  // a < b"))

    def test_the_source_is_restored_whatever_the_verdict(self):
        text = "bool Less(int a, int b) {\n  return a < b;\n}"
        self.file.write_text(text)
        seen = []

        class Judge:
            def verdict(judge):
                seen.append(self.file.read_text())
                raise KeyboardInterrupt

        for mutation in list(mutate.mutations_of(self.file)):
            with self.assertRaises(KeyboardInterrupt):
                mutate.try_one(mutation, Judge())
            self.assertEqual(self.file.read_text(), text)
        self.assertEqual([one.split("return ")[1][:6] for one in seen], ["a <= b", "a > b;"])

    def test_a_command_that_takes_too_long_is_ended(self):
        self.assertIsNone(mutate.run(["sleep", "60"], 0.05))
        self.assertEqual(mutate.run(["false"], 60), 1)

    def test_one_shard_that_fails_ends_all(self):
        command = ["sh", "-c", '[ "$GTEST_TOTAL_SHARDS" = 3 ] || exit 9; [ "$GTEST_SHARD_INDEX" = 1 ] && exit 7; exec sleep 60']
        self.assertEqual(mutate.run(command, 50, mutate.shards(3)), 7)
        self.assertEqual(mutate.run(["true"], 50, mutate.shards(3)), 0)

    def test_each_folder_has_its_unit_tests(self):
        for folder in ("worker", "server", "kvstore", "compression", "optimizer", "data"):
            self.assertTrue(mutate.unit_tests_of(ROOT / "src" / folder), folder)


if __name__ == "__main__":
    unittest.main()
