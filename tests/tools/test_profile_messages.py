"""tools/profile_messages.py: callgrind's files as callgrind describes them."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import profile_messages  # noqa: E402

# Two calls of a::Outer by main, each of which calls b::Inner thrice; names are written once, positions relative.
FILE = """# callgrind format
version: 1
positions: line
events: Ir

ob=(1) /usr/lib/program
fl=(1) ???
fn=(1) main
0 10
cfn=(2) a::Outer(int)
calls=2 0
0 700
+3 5

fn=(2)
0 100
cob=(2) /usr/lib/libinner.so.5
cfn=(3) b::Inner()
calls=6 0
0 600

ob=(2)
fn=(3)
0 600
"""


class Profile(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(FILE)
            file.flush()
            self.profile = profile_messages.Profile(file.name)

    def test_a_function_costs_what_it_calls(self):
        self.assertEqual(self.profile.cost(("a::Outer(",), ()), 700)
        self.assertEqual(self.profile.cost(("b::Inner(",), ()), 600)

    def test_calls_that_are_stages_of_their_own_are_left_out(self):
        self.assertEqual(self.profile.cost(("a::Outer(",), (("a::Outer(", "b::Inner("),)), 100)
        self.assertEqual(self.profile.cost(("a::Outer(",), (("main", "a::Outer("),)), 0)

    def test_functions_of_one_stage_that_call_each_other_count_once(self):
        self.assertEqual(self.profile.cost(("a::Outer(", "b::Inner("), ()), 700)

    def test_calls_are_counted(self):
        self.assertEqual(self.profile.times(("b::Inner(",)), 6)

    def test_libraries_cost_what_they_do_themselves(self):
        self.assertEqual(self.profile.own["libinner.so.5"], 600)
        self.assertEqual(self.profile.own["program"], 115)

    def test_what_is_nowhere_costs_nothing(self):
        self.assertEqual(self.profile.cost(("c::None(",), ()), 0)


if __name__ == "__main__":
    unittest.main()
