"""Which lines of a job's processes the terminal shows: tools/launcher/echo.py."""
import pathlib
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from launcher import echo  # noqa: E402

FLAG = [b"train_mnist: error: flag --lr got 'abc'; it takes a finite number;", b"  --help lists every flag"]


class Echo(unittest.TestCase):
    def setUp(self):
        self.shown, self.last_words = [], echo.LastWords()

    def process(self, name):
        return echo.Echo(lambda lines: self.shown.extend((name, line) for line in lines), self.last_words)

    def say(self, process, *lines):
        for line in lines:
            process.take(line)

    def test_ordinary_lines_are_shown_at_once(self):
        lines = [b"lenet on synthetic digits", b"", b"  indented", b"10:11:05.710 WARNING: a store of type 'local' joins no job: every", b"  worker trains alone"]
        self.say(self.process("worker 0"), *lines)
        self.assertEqual([line for _, line in self.shown], lines)

    def test_what_a_process_was_told_is_left_out_and_so_is_the_rest_of_that_message(self):
        for first in (b"10:11:05.710 ERROR: told by the scheduler: the job stops: worker 0 (host vm, pid", b"train_mnist: error: told by the scheduler: barrier: worker 0 (host vm, pid",
                      b"10:11:05.710 WARNING: refused a node, which is told why: the server on"):
            with self.subTest(first):
                self.shown.clear()
                process = self.process("server 0")
                self.say(process, b"before", first, b"  18897) failed: no file", b"  or directory", b"after", b"  indented")
                self.assertEqual([line for _, line in self.shown], [b"before", b"after", b"  indented"])
                self.assertTrue(process.was_told)
                self.assertFalse(process.said_the_same)

    def test_an_error_that_several_end_with_is_shown_once_however_their_lines_mix(self):
        first, second = self.process("worker 0"), self.process("worker 1")
        self.say(first, FLAG[0])
        self.say(second, FLAG[0])
        self.say(second, FLAG[1])
        self.say(first, FLAG[1])
        second.end(failed=True)
        first.end(failed=True)
        self.assertEqual(self.shown, [("worker 1", line) for line in FLAG])
        self.assertEqual((first.said_the_same, second.said_the_same), (True, False))

    def test_times_do_not_make_two_errors_of_one(self):
        for name, stamp in (("server 0", b"10:11:05.710 "), ("server 1", b"10:11:05.802 ")):
            process = self.process(name)
            self.say(process, stamp + b"ERROR: the job stops: no room")
            process.end(failed=True)
        self.assertEqual([name for name, _ in self.shown], ["server 0"])

    def test_nor_do_the_names_of_programs_and_where_their_lines_break(self):
        server, worker = self.process("server 0"), self.process("worker 0")
        self.say(server, b"sluice_server: error: PS_HEARTBEAT_TIMEOUT is", b"  'abc'; it must be a number")
        self.say(worker, b"train_mnist: error: PS_HEARTBEAT_TIMEOUT is 'abc';", b"  it must be a number")
        server.end(failed=True)
        worker.end(failed=True)
        self.assertEqual([name for name, _ in self.shown], ["server 0", "server 0"])
        self.assertTrue(worker.said_the_same)
        self.assertEqual(server.last_error, worker.last_error)

    def test_another_error_that_begins_alike_is_shown_whole(self):
        for name, last in (("worker 0", b"  a"), ("worker 1", b"  b")):
            process = self.process(name)
            self.say(process, b"x: error: of a file", last)
            process.end(failed=True)
        self.assertEqual([line for _, line in self.shown], [b"x: error: of a file", b"  a", b"x: error: of a file", b"  b"])

    def test_an_error_that_a_process_survives_is_shown_and_repeats_are_too(self):
        for name in ("worker 0", "worker 1"):
            process = self.process(name)
            self.say(process, *FLAG, b"goes on")
            process.end(failed=False)
        self.assertEqual(len(self.shown), 6)

    def test_an_error_is_shown_though_its_process_neither_ends_nor_says_more(self):
        shown = threading.Event()
        process = echo.Echo(lambda _: shown.set(), self.last_words)
        self.say(process, FLAG[0])
        self.assertTrue(shown.wait(60))
        self.say(process, FLAG[1])
        process.end(failed=True)


if __name__ == "__main__":
    unittest.main(verbosity=1)
