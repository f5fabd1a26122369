"""tools/check_style.py finds what it is there to find."""
import os
import pathlib
import shutil
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_style  # noqa: E402

HAS_FORMATTER = shutil.which(check_style.FORMATTER) is not None


def body(lines):
    return "\n".join(f"  Call({i});" for i in range(lines))


class CheckStyle(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        (self.root / "src").mkdir()
        shutil.copy(ROOT / ".clang-format", self.root)

    def found(self, text, name="src/a.cc"):
        (self.root / name).write_text(text)
        with mock.patch.object(check_style, "unformatted", lambda root: []):
            return check_style.findings(self.root)

    def test_the_project_is_clean(self):
        if not HAS_FORMATTER and os.environ.get("SLUICE_LABS") != "required":
            with mock.patch.object(check_style, "unformatted", lambda root: []):
                self.assertEqual(check_style.findings(ROOT), [])
            self.skipTest(f"there is no {check_style.FORMATTER}: formatting is not looked at")
        self.assertEqual(check_style.findings(ROOT), [])

    def test_long_functions_are_found(self):
        for head, tail in (("void F() {", "}"), ("void F() {  // why", "}"), ("A::A(int a)\n    : a_(a) {", "}"), ("class C {\n  void F() {", "  }\n};")):
            with self.subTest(head=head):
                self.assertEqual(self.found(f"{head}\n{body(60)}\n{tail}\n"), [])
                self.assertIn("a function of 61 lines; at most 60", self.found(f"{head}\n{body(61)}\n{tail}\n")[0])

    def test_long_functions_of_tests_are_found(self):
        (self.root / "tests/unit").mkdir(parents=True)
        for head, tail in (("TEST(Store, Pushes) {", "}"), ("TEST_P(Store, Pushes) {\n  Job().Run([&](KVStore& kv) {", "  });\n}")):
            with self.subTest(head=head):
                self.assertEqual(self.found(f"{head}\n{body(58)}\n{tail}\n", "tests/unit/a_test.cc"), [])
                planted = self.found(f"{head}\n{body(61)}\n{tail}\n", "tests/unit/a_test.cc")
                self.assertRegex(planted[0], r"^tests/unit/a_test.cc:1: a function of \d+ lines; at most 60")

    def test_long_functions_with_wrapped_heads_are_found(self):
        parameters = "int F(int a,\n      int b) {"
        initialisers = "A::A(int a,\n     int b)\n    : a_(a),\n      b_(Sum(a,\n             b)) {"
        method = "class C {\n  int F(const std::function<void(int)>& a,  // why\n        int b) const override {"
        condition = "int F() {\n  if (a &&\n      (b || c)) {"
        block = "  if (a) {\n    Call();\n  }\n"
        for head, line, tail in ((parameters, 1, "}"), (initialisers, 1, "}"), (method, 2, "  }\n};"), (condition, 2, "  }\n}")):
            with self.subTest(head=head):
                inner = textwrap.indent(block, "  " * (line - 1))  # its brace ends no function
                self.assertEqual(self.found(f"{head}\n{inner}{body(54)}\n{tail}\n"), [])
                planted = self.found(f"// What it is.\n{head}\n{inner}{body(90)}\n{tail}\n")
                self.assertIn(f"src/a.cc:{line + 1}: a function of 93 lines; at most 60", "\n".join(planted))

    def test_lambdas_in_wrapped_calls_end_with_their_own_brace(self):
        call = "  Launch(\n      a,\n      [a = Sum(1,\n               2)](Kernels& k) {\n        k.Run();\n      });"
        self.assertEqual(self.found(f"void F() {{\n{call}\n{body(54)}\n}}\n"), [])

    def test_classes_with_wrapped_bases_may_be_long(self):
        self.assertEqual(self.found(f"// What it is.\nclass A\n    : public B {{\n{body(100)}\n}};\n"), [])

    def test_classes_namespaces_and_tables_may_be_long(self):
        for head, tail in (("namespace {", "}  // namespace"), ("class C {", "};"), ("enum class E {", "};"), ("const int kTable[] = {", "};")):
            with self.subTest(head=head):
                self.assertEqual(self.found(f"// What it is.\n{head}\n{body(100)}\n{tail}\n"), [])

    def test_comments_are_looked_at(self):
        for text in ("int b;  // Of the other.", "int b;  // of the other", "/* Of the other. */"):
            self.assertIn("src/a.cc:2: a comment begins with 'Of'", self.found(f"int a;\n{text}\n")[0])
        self.assertEqual(self.found("// What becomes\n// of it.\nint a;\n"), [])
        self.assertIn("a comment of 111 columns", self.found("// " + "x" * 108 + "\n")[0])
        self.assertEqual(self.found("// Often, and " + "x" * 90 + "\n"), [])

    def test_comments_of_scripts_are_looked_at(self):
        for name in ("a.py", "a.sh", "a.cmake", "CMakeLists.txt"):
            with self.subTest(name):
                self.assertEqual(self.found("# Often.\n", name), [])
                for of in ("Of", "of"):
                    self.assertIn(f"{name}:2: a comment begins with 'Of'", self.found(f"\na = 1  # {of} the other.\n", name)[0])
                (self.root / name).unlink()

    def test_texts_of_flags_are_looked_at(self):
        for head in ('DEFINE_int64(seed, 0, ', 'DEFINE_string(\n    kind, "a",\n    ', "DEFINE_double(gc, 1'000, "):
            with self.subTest(head):
                self.assertEqual(self.found(f'{head}"Often.");\n'), [])
                for of in ("Of", "of"):
                    self.assertIn(f"src/a.cc:{head.count(chr(10)) + 1}: a flag's text begins with 'Of'", self.found(f'{head}"{of} it.");\n')[0])
        self.assertIn("a.py:1: a flag's text begins with 'Of'", self.found('add("--a", help="of it")\n', "a.py")[0])

    def test_docstrings_are_looked_at(self):
        for head in ("", "class A:\n  ", "def f():\n  ", "async def f():\n  "):
            with self.subTest(head):
                self.assertEqual(self.found(f'{head}"""Often."""\na = "# Of", """Of"""\n', "a.py"), [])
                self.assertIn(f"a.py:{len(head.splitlines()) or 1}: a docstring begins with 'Of'", self.found(f'{head}"""\n  Of it."""\n', "a.py")[0])

    def test_a_long_file_opens_with_a_comment(self):
        self.assertEqual(self.found("int a;\n" * 100), [])
        self.assertEqual(self.found("int a;\n" * 101, "src/a.h"), [])
        (self.root / "src/a.h").unlink()
        self.assertIn("src/a.cc:1: a file of 101 lines opens with a comment", self.found("int a;\n" * 101)[0])

    def test_wide_lines_of_documents_are_found(self):
        self.assertEqual(self.found("x" * 120 + "\n", "a.md"), [])
        self.assertEqual(self.found("short\n" + "x" * 121 + "\n", "a.md"), ["a.md:2: a line of 121 characters; at most 120"])

    @unittest.skipUnless(HAS_FORMATTER, f"there is no {check_style.FORMATTER}")
    def test_what_is_not_formatted_is_found(self):
        (self.root / "src/a.cc").write_text("int  a;\n")
        self.assertEqual(check_style.unformatted(self.root), ["src/a.cc:1: is not formatted; `make format` does it"])
        (self.root / "src/a.cc").write_text("int a;\n")
        self.assertEqual(check_style.unformatted(self.root), [])

    def test_without_the_formatter_it_says_so_and_make_ci_fails(self):
        with mock.patch.object(check_style.shutil, "which", lambda name: None), mock.patch("builtins.print") as said:
            with mock.patch.dict(os.environ, {"SLUICE_LABS": ""}):
                self.assertEqual(check_style.unformatted(self.root), [])
            with mock.patch.dict(os.environ, {"SLUICE_LABS": "required"}):
                self.assertIn("formatting is not looked at", check_style.unformatted(self.root)[0])
        self.assertIn("formatting is not looked at", said.call_args[0][0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
