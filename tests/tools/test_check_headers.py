"""tools/check_headers.py finds what it is there to find."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_commits  # noqa: E402
import check_headers  # noqa: E402

WORDS = "struct Words {\n  std::string first;\n};\n"


class CheckHeaders(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name).resolve()

    def write(self, **files):
        for name, text in files.items():
            path = self.root / name.replace("__", "/").replace("_cc", ".cc").replace("_h", ".h")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#pragma once\n" * (path.suffix == ".h") + text)

    def found(self, **files):
        self.write(**files)
        return check_headers.findings(self.root)

    def chains(self, **files):
        self.write(**files)
        return sorted(check_headers.Headers(self.root).chains())

    def test_a_header_that_does_not_include_what_it_needs_is_found(self):
        self.assertEqual(self.found(src__a_h="#include <string>\n" + WORDS), [])
        found = self.found(src__a_h=WORDS)
        self.assertEqual(len(found), 1)
        self.assertRegex(found[0], "^src/a.h:3: .*does the header include what it needs")

    def test_public_headers_are_left_to_the_build(self):
        self.assertEqual(self.chains(include__sluice__a_h=WORDS, src__b_h='#include "sluice/a.h"\n'), [["src/b.h"]])

    def test_a_header_in_a_chain_is_found(self):
        found = self.found(src__a_h=WORDS, src__b_h='#include <string>\n#include "a.h"\nstruct B { Words words; };\n')
        self.assertRegex(found[0], "^src/a.h:3: .*Compiled alone: src/a.h, src/b.h$")

    def test_a_chain_shows_no_header_more_than_it_includes(self):
        text = '#include "a.h"\n'
        self.assertEqual(self.chains(src__a_h="", src__b_h=text, src__c_h=text), [["src/a.h", "src/b.h"], ["src/c.h"]])
        self.assertEqual(self.chains(src__c_h='#include "b.h"\n'), [["src/a.h", "src/b.h", "src/c.h"]])

    def test_what_the_build_compiles_first_is_not_compiled_again(self):
        files = {"src__a_h": "", "src__b_h": '#include "a.h"\n#include <string>\n', "src__c_h": ""}
        self.assertEqual(self.chains(**files, bench__b_cc='// What it is.\n#include "b.h"\n#include "c.h"\n'), [["src/c.h"]])
        self.assertEqual(self.chains(bench__b_cc='#include <string>\n#include "b.h"\n'), [["src/a.h", "src/b.h"], ["src/c.h"]])

    def test_the_last_changed_come_first(self):
        self.write(src__a_h="", src__b_h='#include "a.h"\n', src__c_h='#include "a.h"\n', src__d_h=WORDS)
        headers = check_headers.Headers(self.root)
        for changed, first in ((["src/d.h"], ["src/d.h"]), (["README.md", "src/c.h", "src/d.h"], ["src/c.h"]), (["src/a.h"], ["src/a.h", "src/b.h"])):
            self.assertEqual(check_headers.last_changed_first(headers, sorted(headers.chains()), changed)[0], first)
        with mock.patch.object(check_commits, "changed", lambda root: ["src/a.h"]), mock.patch("builtins.print") as said:
            self.assertEqual(check_headers.findings(self.root, most=2), [])
            self.assertIn("1 of 3 compilations were left", said.call_args[0][0])
            self.assertEqual(len(check_headers.findings(self.root, most=3)), 1)

    def test_every_header_of_the_project_is_compiled_first_somewhere(self):
        headers = check_headers.Headers(ROOT)
        chains = list(headers.chains())
        self.assertEqual(sorted([*headers.first_in_the_build(), *sum(chains, [])]), headers.names)
        self.assertGreater(len(headers.names), 100)
        for chain in chains:
            for name, later in zip(chain, chain[1:]):
                self.assertIn(name, headers.closure(later))


if __name__ == "__main__":
    unittest.main(verbosity=2)
