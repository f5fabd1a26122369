"""What the benchmark scripts share: running programs so that none is left behind, and tables of medians."""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile

import bench_machine

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = os.path.join(ROOT, "build", "bin")
LAUNCH = os.path.join(ROOT, "tools", "launch.py")
STOP_GRACE = 10  # seconds between SIGTERM and SIGKILL; a launcher takes 5 to end its job
NAMES = {"lenet": "`lenet` (20/50)", "gluon_lenet": "`gluon_lenet` (6/16)", "resnet20": "`resnet20`",
         "text_lstm": "`text_lstm`", "text_gru": "`text_gru`", "text_cnn": "`text_cnn`",
         "lstm_200": "`lstm_200`", "gru_200": "`gru_200`", "rnn_200": "`rnn_200`"}
# Images of one repeat, which takes half a second to a few.
IMAGES = {"lenet": 6400, "gluon_lenet": 32000, "resnet20": 1280, "text_lstm": 3200, "text_gru": 3200, "text_cnn": 3200,
          "lstm_200": 1920, "gru_200": 2560, "rnn_200": 6400}


class Skipped(Exception):
    """This table cannot be made here; the text says why."""


def stop(process):
    process.terminate()
    try:
        process.communicate(timeout=STOP_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def run(*command, **environment):
    """What it writes to stdout. It ends this program where it fails, and ends with it where that is stopped."""
    command = [str(part) for part in command]
    try:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=os.environ | environment)
    except OSError as error:
        sys.exit(f"{script()}: {command[0]} does not start: {error.strerror}")
    try:
        out, err = process.communicate()
    except BaseException:
        stop(process)
        raise
    if process.returncode != 0:
        settings = "".join(f"{name}={value} " for name, value in environment.items())
        sys.exit(f"{script()}: {settings}{' '.join(command)} ended with {process.returncode}:\n{out}{err}")
    return out


def script():
    return os.path.basename(sys.argv[0])


def started(main):
    """Runs `main`; Ctrl-C, SIGTERM and a reader that goes end it with a line, without a traceback."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{script()}: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"is '{text}'; a number from 1 on is expected")
    return int(text)


def thread_counts(text):
    counts = [int(count) if count.isdecimal() else 0 for count in text.split(",")]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"is '{text}'; numbers from 1 on are expected, with commas between")
    return counts


def names_of(known):
    """For argparse: some of `known`, a dict, by their names and in its order."""
    def named(text):
        wanted = text.split(",")
        if unknown := sorted(set(wanted) - set(known)):
            raise argparse.ArgumentTypeError(f"names {', '.join(map(repr, unknown))}; there are {', '.join(known)}")
        return [value for name, value in known.items() if name in wanted]
    return named


def table_parser(description, tables):
    """With the flags that every benchmark has. A table is a function of the parsed arguments that prints it."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="tables:\n" + "\n".join(f"  {each.__name__:<18}{each.__doc__}" for each in tables))
    parser.add_argument("--only", type=names_of({each.__name__: each for each in tables}), default=list(tables),
                        metavar="TABLE,...", help="those of the tables below")
    parser.add_argument("--pairs", type=positive, default=5, help="measurements of each figure; medians are printed (default 5)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: shows that everything runs")
    return parser


def print_tables(args):
    print(f"Machine:\n\n{bench_machine.describe()}\n", flush=True)
    for make in args.only:
        print(f"### {make.__doc__} (`--only {make.__name__}`)\n", flush=True)
        try:
            make(args)
        except Skipped as why:
            print(f"(skipped: {why})")
        print(flush=True)


def program(name):
    return os.path.join(PROGRAMS, name)


def require_programs(*names):
    for name in names:
        if not os.path.exists(program(name)):
            sys.exit(f"{script()}: {program(name)} is missing: make programs")


def objects(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def written(flag, *command, **environment):
    """What the command writes to the file that `flag` names."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "result")
        run(*command, flag, file, **environment)
        with open(file, encoding="utf-8") as text:
            return text.read()


def launched(servers, *command):
    """What worker 0 of a job of two workers writes to its --json."""
    return written("--json", LAUNCH, "-n", 2, "-s", servers, *command)


def steps_of(network, batch_size):
    return max(3, IMAGES[network] // batch_size)


def train_bench(network, batch_size, threads, *more, **environment):
    return objects(run(program("train_bench"), "--network", network, "--batch-size", batch_size, "--threads", threads,
                       "--steps", steps_of(network, batch_size), "--repeats", 1, *more, **environment))[0]


def step_times(network, *more):
    """Microseconds of a step on one thread: of all of it, and between its operations."""
    text = run(program("train_bench"), "--network", network, "--steps", steps_of(network, 64), "--profile", *more)
    return tuple(float(re.search(rf"^\| {what} \| [^|]* \| ([0-9.]+) \|", text, re.MULTILINE).group(1))
                 for what in ("step", "between operations"))


def in_turns(count, *measures):
    """What each returned, called in turns `count` times: one list for each."""
    return list(zip(*([measure() for measure in measures] for _ in range(count))))


def rates(count, *measures):
    """Images per second of each, measured in turns; they must train one network."""
    results = in_turns(count, *measures)
    parameters = {one.get("parameters") for each in results for one in each}
    if len(parameters) != 1:
        sys.exit(f"{script()}: different networks, of {' and '.join(map(str, parameters))} parameters: {results}")
    return [[one["images_per_sec"] for one in each] for each in results]


def ratio(left, right):
    """The median of one for the other, turn by turn."""
    return statistics.median(a / b for a, b in zip(left, right))


def figure(values, places=0):
    return f"{statistics.median(values):,.{places}f}"


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
