"""tools/check_names.py finds what it is there to find."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_names  # noqa: E402


class CheckNames(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def found(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        found = check_names.findings(self.root)
        path.unlink()
        return found

    def test_the_project_is_clean(self):
        self.assertEqual(check_names.findings(ROOT), [])

    def test_planted_names_are_found(self):
        for name, text, finding in (("src/a.h", "class PartFlow {", "src/a.h:1: 'PartFlow': the term is PartSequencer"),
                                    ("docs/a.md", "x\nsee `WhyInvalid`", "docs/a.md:2: 'WhyInvalid': the term is InvalidReason"),
                                    ("proto/a.proto", "uint64 min_round = 1;", "proto/a.proto:1: 'min_round': the term is min_version")):
            with self.subTest(text=text):
                self.assertEqual(self.found(name, text), [finding])

    def test_planted_names_are_found_in_longer_names_and_in_file_names(self):
        for text, name in (("void BuryTheSilentOnes();", "BuryTheSilent"), ("uint64_t max_asked_version = 0;", "asked_version"),
                           ("class ZmqHandOver {", "HandOver"), ("bool on_rest_ = false;", "OnRest"), ("TEST(A, WhyInvalidWith) {", "WhyInvalid"),
                           ("struct ReadyExecutorImpl {", "ReadyExecutor")):
            with self.subTest(text=text):
                self.assertIn(f"'{name}': the term is ", self.found("src/a.h", text)[0])
        self.assertIn("the file's name has 'SideBySide'", self.found("src/transport/shm/side_by_side.cc")[0])

    def test_planted_metaphors_are_found_in_text_and_in_file_names(self):
        self.assertIn("the term is peer", self.found("src/a.cc", "// Guests may come back.")[0])
        self.assertIn("the file's name has 'stranger'", self.found("tests/a_stranger_test.cc")[0])
        self.assertIn("the file's name has 'door'", self.found("src/transport/shm/door.h")[0])
        self.assertIn("'lent': the term is leased", self.found("docs/a.md", "Memory that is lent.")[0])

    def test_planted_metaphors_are_found_in_parts_of_identifiers(self):
        for text, word in (("class Bundle {", "Bundle"), ("class ZmqGuests {", "Guests"), ("TEST(A, TheHTTPDoorsOpen) {", "Doors"),
                           ("int max_loan_bytes_;", "loan"), ("const int kWishes = 1;", "Wishes"), ("BOARD_BYTES = 8", "BOARD")):
            with self.subTest(text=text):
                self.assertIn(f"'{word}': the term is", self.found("src/a.h", text)[0])

    def test_plurals_of_names_are_found(self):
        for text, name in (("uint64_t min_rounds = 0;", "min_round"), ("int HostsWishedRanks();", "wished_rank"), ("void FindHeirs();", "FindHeir")):
            with self.subTest(text=text):
                self.assertTrue(any(f"'{name}': the term is" in line for line in self.found("src/a.h", text)), self.found("src/a.h", text))

    def test_ordinary_words_are_found_as_names_of_functions_and_types(self):
        for text, name in (("void Hear(Time now);", "Hear"), ("  Help ();", "Help"), ("class Ended {", "Ended"), ("using Places = int;", "Places"),
                           ("loop.Give(call);", "Give"), ("bool IsValid() const;", "IsValid"), ("sender_.Refuse(", "Refuse"), ("void Refuse(", "Refuse")):
            with self.subTest(text=text):
                self.assertEqual(self.found("src/a.h", text), [f"src/a.h:1: '{name}': the term is {check_names.NAMES[name]}"])
        self.assertEqual(self.found("src/a.h", '// Give (and take) it a name. Help (always).\nText("Tell (me)"); Helper(); IsValidName();'), [])
        self.assertEqual(self.found("docs/a.md", "Give (and take)."), [])

    def test_parts_of_words_are_none(self):
        self.assertEqual(self.found("src/a.cc", "// A talon, heirloom, silent, doorstep, keyboard, WhyInvalidated, kLandscape."), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
