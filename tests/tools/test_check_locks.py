"""tools/check_locks.py finds what it is there to find."""
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_locks  # noqa: E402

COUNTER = """#include "base/mutex.h"
struct Counter {
  void Add() { %s++count; }
  sluice::Mutex mutex;
  int count SLUICE_GUARDED_BY(mutex) = 0;
};
"""


class CheckLocks(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        (self.root / "src/base").mkdir(parents=True)
        for header in ("fork.h", "mutex.h"):
            shutil.copy(ROOT / "src/base" / header, self.root / "src/base")

    def found(self, text, name="src/a.cc"):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)
        return check_locks.findings(self.root)

    def needs_compiler(self):
        if shutil.which(check_locks.COMPILER) is None and os.environ.get("SLUICE_LABS") != "required":
            self.skipTest(f"there is no {check_locks.COMPILER}: locks are not analysed")

    def test_data_that_is_used_without_its_lock_is_found(self):
        self.needs_compiler()
        self.assertEqual(self.found(COUNTER % "const sluice::MutexLock lock(mutex); "), [])
        found = self.found(COUNTER % "")
        self.assertEqual(len(found), 1)
        self.assertIn("src/a.cc:3:", found[0])
        self.assertIn("requires holding mutex 'mutex'", found[0])

    def test_a_function_that_needs_the_lock_is_not_called_without_it(self):
        self.needs_compiler()
        text = "void Grow() SLUICE_REQUIRES(mutex);\nvoid F() { %sGrow(); }\n"
        head = '#include "base/mutex.h"\nsluice::Mutex mutex;\nint a SLUICE_GUARDED_BY(mutex);\n'
        self.assertEqual(self.found(head + text % "const sluice::MutexLock lock(mutex); "), [])
        self.assertIn("src/a.cc:5:", self.found(head + text % "")[0])

    def test_a_file_that_does_not_compile_is_found(self):
        self.needs_compiler()
        self.assertIn("error", self.found(COUNTER % "nonsense; ")[0])

    def test_a_mutex_that_is_not_analysed_is_found(self):
        self.assertIn("src/a.cc:2: std::mutex is not analysed", self.found("#include <mutex>\nstd::mutex a;\n")[0])
        self.assertEqual(self.found("// In place of std::mutex.\n"), [])

    def test_tools_that_measure_and_examples_are_looked_at(self):
        for name in ("bench/a.cc", "examples/common/a.cc"):
            with self.subTest(name):
                self.assertIn(f"{name}:1: std::lock_guard is not analysed", self.found("std::lock_guard lock(mutex);\n", name)[0])
                (self.root / name).unlink()
        self.needs_compiler()
        for name in ("bench/a.cc", "examples/common/a.cc"):
            with self.subTest(name):
                self.assertEqual(self.found(COUNTER % "const sluice::MutexLock lock(mutex); ", name), [])
                self.assertIn(f"{name}:3:", self.found(COUNTER % "", name)[0])
                (self.root / name).unlink()

    def test_who_includes_a_header_with_guarded_data_is_looked_at(self):
        self.needs_compiler()
        for folder in ("src", "bench", "examples"):
            with self.subTest(folder):
                self.assertEqual(self.found(COUNTER % "", f"{folder}/counter.h"), [])  # a header alone is not compiled
                self.assertIn(f"{folder}/counter.h:3:", "\n".join(self.found('#include "counter.h"\n', f"{folder}/a.cc")))
                (self.root / folder / "a.cc").unlink()
                (self.root / folder / "counter.h").unlink()

    def test_exceptions_exist(self):
        files = [*check_locks.sources(ROOT, "*.h"), *check_locks.sources(ROOT, "*.cc")]
        self.assertEqual([name for name in check_locks.MAY_USE_STD if name not in files], [])


if __name__ == "__main__":
    unittest.main()
