"""Language models whose layers are spread over devices: bad maps and texts, kill -9 and --resume, a job of workers, and
what --trace shows.

Usage: language_test.py BIN_DIR
"""
import json
import math
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import unwrapped  # noqa: E402
from safetensors_file import load, worst_difference  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = None
SMALL = ["--num-layers=2", "--num-hidden=16", "--num-embed=12", "--num-examples=400", "--num-test-examples=100", "--batch-size=16",
         "--disp-batches=0"]
MAP = "embed=cpu(0),layer0=cpu(0),layer1=cpu(1),decode=cpu(1)"


class Language(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def command(self, program, *flags, workers=0):
        command = [str(BIN / program), *SMALL, *map(str, flags)]
        if workers:
            command = [sys.executable, str(ROOT / "tools/launch.py"), "-n", str(workers), "-s", "2", *command, "--kv-store=dist_sync"]
        return command

    def run_program(self, program, *flags, **options):
        return subprocess.run(self.command(program, *flags, **options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=120)

    def train(self, program, *flags, **options):
        done = self.run_program(program, *flags, **options)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def parameters(self, program, *flags, **options):
        path = self.folder / "saved.safetensors"
        self.train(program, *flags, f"--save-params={path}", **options)
        return load(path)

    def assert_refused(self, words, program, *flags):
        done = self.run_program(program, *flags)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(words, unwrapped(done.stdout))

    def test_bad_maps(self):
        lstm = "model_parallel_lstm"
        self.assert_refused("no layer is of it", lstm, "--group2ctx=" + MAP + ",layer9=cpu(0)")
        self.assert_refused("no context for the group 'decode'", lstm, "--group2ctx=embed=cpu(0),layer0=cpu(0),layer1=cpu(1)")
        self.assert_refused("gpu(63)", lstm, "--group2ctx=" + MAP.replace("cpu(1)", "gpu(63)"))
        self.assert_refused("names no group", lstm, "--group2ctx=cpu(0)")
        self.assert_refused("'tpu(0)' of the group 'embed'", lstm, "--group2ctx=embed=tpu(0)")
        self.assert_refused("leave --num-devices and --gpus out", lstm, "--group2ctx=" + MAP, "--num-devices=2")
        self.assert_refused("shares parameter 'embed.weight'", lstm, "--group2ctx=" + MAP, "--tied", "--num-hidden=12")
        self.assert_refused("needs --group2ctx", "word_lm", "--micro-batches=3")
        self.assert_refused("needs --group2ctx auto", "word_lm", "--device-memory=100")

    def test_a_plan_within_the_memory(self):
        auto = ["--group2ctx=auto", "--num-devices=2", "--num-hidden=64", "--num-steps=2"]
        self.assert_refused("no cut is within the memory (cpu(0) 100 KiB, cpu(1) 100 KiB)", "model_parallel_lstm", *auto, "--device-memory=0.09765625")
        self.assert_refused("has 3 numbers for 2 devices", "model_parallel_lstm", *auto, "--device-memory=1,2,3")
        self.assert_refused("takes positive numbers", "model_parallel_lstm", *auto, "--device-memory=-1")
        self.train("model_parallel_lstm", *auto, "--device-memory=4000,2000")

    def test_a_tied_decoder_lies_with_its_embedding(self):
        tied = ["--tied", "--num-hidden=12", "--num-steps=2"]
        self.assert_refused("in a map in place of auto", "model_parallel_lstm", *tied)
        self.train("model_parallel_lstm", *tied, "--group2ctx=embed=cpu(0),layer0=cpu(1),layer1=cpu(1),decode=cpu(0)")

    def test_texts(self):
        lstm, data = "model_parallel_lstm", f"--data-dir={self.folder}"
        counts = ["--num-examples=-1", "--num-test-examples=-1", "--num-epochs=1"]
        self.assert_refused("has no train.txt", lstm, data)
        (self.folder / "train.txt").write_text("")
        (self.folder / "test.txt").write_text("a b c\n" * 20)
        self.assert_refused("has no token", lstm, data, *counts)
        (self.folder / "train.txt").write_bytes(b"a b c\xff\n" * 50 + b"a " * 70 + b"\n")
        out = unwrapped(self.train(lstm, data, *counts))
        self.assertIn("not all UTF-8: 50 bytes were read as U+FFFD", out)
        self.assertIn("1 too long", out)
        self.assertIn("20 of them unknown", out)  # "c" of the test set, without the byte
        (self.folder / "valid.txt").write_text("a b\n" * 20)
        report = self.folder / "report.json"
        out = self.train("word_lm", data, *counts, "--steps=5", "--batch-size=2", f"--json={report}")
        perplexity, found = float(re.search(r"final test perplexity (\S+)", out).group(1)), json.loads(report.read_text())
        self.assertAlmostEqual(found["test_perplexity"], perplexity, delta=1e-3)
        # Pieces of five words: the loss of a piece is five times the mean over words.
        self.assertAlmostEqual(found["test_loss"], 5 * math.log(found["test_perplexity"]), delta=1e-4)
        self.assert_refused("takes ascending numbers", lstm, data, *counts, "--buckets=8,4")
        self.assert_refused("takes ascending numbers", lstm, data, *counts, "--buckets=99999999")
        self.assert_refused("is rollover", lstm, data, *counts, "--last-batch=rollover")
        self.assert_refused("none of the 51 sentences fits", lstm, data, *counts, "--buckets=2,3")
        self.assert_refused("would read the text out of order", "word_lm", data, *counts, "--shuffle")
        self.assertIn("characters", self.train(lstm, data, *counts, "--unit=characters", "--buckets=4"))

    def test_a_job_trains_as_one_worker(self):
        start = self.folder / "start.safetensors"
        same = ["--num-steps=30", "--clip-global-norm=0", "--lr-plateau=0", "--lr=0.05"]
        self.train("model_parallel_lstm", "--num-steps=0", f"--save-params={start}")
        one = self.parameters("model_parallel_lstm", *same, f"--load-params={start}", "--group2ctx=", "--num-devices=1")
        for flags, workers in ((["--num-devices=1"], 0), ([], 0), (["--num-devices=4", "--micro-batches=5"], 0),
                               (["--micro-batches=0"], 0), (["--batch-size=8"], 2)):
            with self.subTest(flags=flags, workers=workers):
                found = self.parameters("model_parallel_lstm", *same, f"--load-params={start}", *flags, workers=workers)
                apart, name = worst_difference(found, one)
                self.assertLess(apart, 1e-5, name)

    def kill_within_an_epoch(self, program, *flags, **options):
        killed = subprocess.Popen(self.command(program, *flags, **options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True)
        deadline = time.monotonic() + 60
        while not [file for file in self.folder.glob("run-*-*.safetensors") if re.search(r"run-\d+-\d+\.safetensors$", file.name)]:
            self.assertLess(time.monotonic(), deadline, "no checkpoint was written within 60 s")
            time.sleep(0.005)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait(timeout=10)
        while any(str(self.folder) in text for text in self.command_lines()):  # launch.py's guard ends what it has started
            self.assertLess(time.monotonic(), deadline + 60, "the killed job still runs after 60 s")
            time.sleep(0.005)

    @staticmethod
    def command_lines():
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                yield file.read_text(errors="replace")
            except OSError:  # it has ended
                continue

    def assert_resumes_after_kill_9(self, program, *flags, **options):
        whole = self.parameters(program, *flags, **options)
        saving = [*flags, f"--model-prefix={self.folder}/run", "--save-steps=7", "--resume"]
        self.kill_within_an_epoch(program, *saving, **options)
        resumed = self.parameters(program, *saving, **options)
        for name, array in whole.items():
            self.assertEqual(array.tobytes(), resumed[name].tobytes(), name)

    def test_kill_9_and_resume(self):
        self.assert_resumes_after_kill_9("model_parallel_lstm", "--num-epochs=3", f"--group2ctx={MAP}", "--lr=0.05")

    # The layers go on with the states that they carried.
    def test_kill_9_and_resume_with_carried_states(self):
        self.assert_resumes_after_kill_9("word_lm", "--num-epochs=3", "--lr=0.05", "--steps=5", "--batch-size=4", f"--group2ctx={MAP}")

    def test_a_job_resumes_with_the_states_of_each_worker(self):
        flags = ["--num-epochs=2", "--lr=0.05", "--steps=5", "--batch-size=4"]
        self.assert_resumes_after_kill_9("word_lm", *flags, workers=2)
        states = sorted(file.name for file in self.folder.glob("run-*.carried-*.safetensors"))
        self.assertEqual({re.search(r"carried-(\d+)", name).group(1) for name in states}, {"0", "1"}, states)

    # The states of a batch are found wherever they were written: by two workers, and read by one with the batch of both.
    def test_one_worker_goes_on_with_the_states_of_two(self):
        flags = ["--lr=0.05", "--steps=5", "--lr-plateau=0", "--dropout=0"]
        saving = [f"--model-prefix={self.folder}/run", "--save-steps=7", "--resume"]
        self.train("word_lm", *flags, *saving, "--num-steps=10", "--batch-size=4", workers=2)
        one = [*flags, *saving, "--num-steps=14", "--batch-size=8"]
        go_on = self.parameters("word_lm", *one)
        whole = self.parameters("word_lm", *flags, "--num-steps=14", "--batch-size=8")
        apart, name = worst_difference(go_on, whole)
        self.assertLess(apart, 1e-5, name)
        # A run that is over leaves them as they are; without them it says what is missing.
        self.train("word_lm", *one)
        for file in self.folder.glob("run-*-000014.carried-*.safetensors"):
            file.unlink()
        self.assertIn("layers that carry states begin with zeros", unwrapped(self.train("word_lm", *one, "--num-steps=16")))

    def test_a_run_goes_on_with_its_buckets_alone(self):
        saving = [f"--model-prefix={self.folder}/run", "--save-steps=7", "--resume", f"--group2ctx={MAP}"]
        self.train("model_parallel_lstm", *saving, "--num-steps=7")
        done = self.run_program("model_parallel_lstm", *saving, "--num-steps=14", "--buckets=20,60")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("its 'buckets' is another", unwrapped(done.stdout))
        self.train("model_parallel_lstm", *saving, "--num-steps=14")

    # A sentence has six words, each the one after the word before in a ring of 20, and begins anywhere: of its seven steps six
    # are certain.
    def test_the_perplexity_is_that_of_the_language(self):
        draw = random.Random(7)
        for name, count in (("train", 2000), ("test", 300)):
            begins = [draw.randrange(20) for _ in range(count)]
            (self.folder / f"{name}.txt").write_text("".join(" ".join(f"w{(begin + i) % 20}" for i in range(6)) + "\n" for begin in begins))
        least = math.exp(math.log(20) / 7)
        for program, steps in (("model_parallel_lstm", []), ("word_lm", ["--steps=20"])):
            for network in ("lstm", "gru"):
                out = self.train(program, f"--data-dir={self.folder}", "--num-examples=-1", "--num-test-examples=-1", "--num-epochs=6",
                                 "--optimizer=adam", "--lr=0.01", "--dropout=0", "--num-hidden=32", f"--network={network}", *steps)
                perplexity = float(re.search(r"final test perplexity (\S+)", out).group(1))
                self.assertLess(perplexity, 1.1 * least, out)
                self.assertGreater(perplexity, 0.97 * least, out)

    def test_the_trace_shows_devices_at_work_at_the_same_time(self):
        pipelined, in_turn = (self.share_of_both(micro_batches) for micro_batches in (4, 0))
        print(f"both contexts work for {pipelined:.2f} of the time of the one with less work, one after the other for {in_turn:.2f}", flush=True)
        self.assertGreater(pipelined, 2 * in_turn)

    def share_of_both(self, micro_batches):
        trace = self.folder / "step.json"
        self.train("model_parallel_lstm", f"--group2ctx={MAP}", "--num-steps=8", "--num-hidden=200", f"--micro-batches={micro_batches}",
                   f"--trace={trace}")
        events = json.loads(trace.read_text())["traceEvents"]
        names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        busy = {"cpu(0)": [], "cpu(1)": []}
        for event in events:
            track = names.get(event.get("tid"))
            if event["ph"] == "X" and track in busy and not event["name"].startswith("wait"):
                busy[track].append((event["ts"], event["ts"] + event["dur"]))
        self.assertGreater(min(map(len, busy.values())), 100)
        both = sum(max(0.0, min(end, other_end) - max(begin, other_begin))
                   for begin, end in busy["cpu(0)"] for other_begin, other_end in busy["cpu(1)"]
                   if begin < other_end and other_begin < end)
        alone = min(sum(end - begin for begin, end in spans) for spans in busy.values())
        return both / alone

    def test_traces_of_a_job_name_keys(self):
        trace = self.folder / "step.json"
        self.train("word_lm", "--num-steps=5", f"--trace={trace}", "--batch-size=4", workers=2)
        for rank, path in enumerate((trace, self.folder / "step.worker1.json")):
            events = json.loads(path.read_text())["traceEvents"]
            tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
            self.assertIn("key embed.weight (odd rounds)", tracks)
            self.assertEqual(events[0]["args"]["name"], f"worker {rank}")
            stages = {event["name"].split(",")[0] for event in events if event["ph"] == "X"}
            self.assertLessEqual({"reduce", "push", "deliver"}, stages)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
