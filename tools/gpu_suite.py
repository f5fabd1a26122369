#!/usr/bin/env python3
"""Everything that needs a GPU, in one run on a machine that has one (docs/gpu.md).

  tools/gpu_suite.py bundle FILE.tar.xz   here: programs, tests, scripts and libraries, for a machine without our packages
  tools/gpu_suite.py run --report DIR     there, in the unpacked folder: at most --seconds, most important steps first

`run` writes DIR/report.md, a line as soon as a step has ended, and what each step printed beside it. A step that fails stops
nothing; the exit code is 1 if one failed. CUDA's libraries are looked for in the loader's places and in the folders of the Python
packages nvidia-*. Nothing here changes clocks, modes or partitions of the GPU.
"""
import argparse
import glob
import importlib.util
import json
import os
import random
import shutil
import site
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_run

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(HERE)
PROGRAMS = ("train_mnist", "train_bench", "update_bench", "kv_bench", "word_lm", "sluice_server", "sluice_scheduler")
TESTS = ("gpu_contract_tests",)
LIBRARIES = ("libcublasLt.so.13", "libcudnn.so.9", "libnccl.so.2")
MOST_PACKED = 48 << 20  # bytes
SPEEDS = (("lenet", 64), ("gluon_lenet", 64), ("lenet", 1024), ("gluon_lenet", 1024), ("lstm_200", 64))
TF32_SPEEDS = (("lenet", 1024), ("gluon_lenet", 1024))  # measured with TF32 as well
STORES = ("local", "device", "nccl", "dist_sync", "dist_device_sync")


# --- bundle ---

def pack(folder):
    """Fills the folder with what is bundled."""
    subprocess.run([os.path.join(HERE, "pack_programs.sh"), os.path.join(folder, "build"), *PROGRAMS],
                   check=True, stdout=subprocess.DEVNULL)
    os.makedirs(os.path.join(folder, "build", "tests"))
    for name in TESTS:
        subprocess.run(["strip", "-o", os.path.join(folder, "build", "tests", name), program(name)], check=True)
        copy_libraries(program(name), os.path.join(folder, "build", "lib"))
    shutil.copytree(HERE, os.path.join(folder, "tools"), ignore=shutil.ignore_patterns("__pycache__"))


def bundle(args):
    bench_run.require_programs(*PROGRAMS)
    if missing := [name for name in TESTS if not os.path.exists(program(name))]:
        sys.exit(f"gpu_suite.py: build/tests has no {', '.join(missing)}: make build, with CUDA")
    with tempfile.TemporaryDirectory() as folder:
        inside = os.path.join(folder, "sluice-gpu")
        pack(inside)
        with tarfile.open(args.file, "w:xz", preset=9) as archive:
            archive.add(inside, "sluice-gpu")
    size = os.path.getsize(args.file)
    print(f"{args.file}: {size / 1e6:.1f} MB")
    if size > MOST_PACKED:
        sys.exit(f"gpu_suite.py: the bundle has {size} bytes; at most {MOST_PACKED} are meant")


def copy_libraries(path_of_program, folder):
    """What the program needs that is neither the system's C library nor in the folder already."""
    system = ("libc.", "libm.", "libdl.", "librt.", "libpthread.", "libstdc++.", "libgcc_s.", "linux-vdso", "ld-linux")
    for line in subprocess.run(["ldd", path_of_program], check=True, capture_output=True, text=True).stdout.splitlines():
        name, _, rest = line.strip().partition(" => ")
        path = rest.split(" (")[0]
        if path.startswith("/") and not name.startswith(system) and not os.path.exists(os.path.join(folder, name)):
            subprocess.run(["strip", "--strip-unneeded", "-o", os.path.join(folder, name), os.path.realpath(path)], check=True)


# --- run ---

def library_folders():
    """Folders that may have NVIDIA's libraries: those of Python's packages, and the toolkit's."""
    packages = [os.path.join(each, "nvidia") for each in (*site.getsitepackages(), site.getusersitepackages())]
    spec = importlib.util.find_spec("nvidia")  # wherever this Python finds them
    packages += list(spec.submodule_search_locations or ()) if spec else []
    found = [folder for each in packages for folder in glob.glob(os.path.join(each, "*", "lib"))]
    return [*found, *glob.glob("/usr/local/cuda*/lib64"), *glob.glob("/usr/local/cuda*/targets/x86_64-linux/lib")]


class Suite:
    def __init__(self, args):
        self.folder = os.path.realpath(args.report)
        os.makedirs(self.folder, exist_ok=True)
        self.ends = time.monotonic() + args.seconds
        self.failed, self.not_run = [], []
        self.report = open(os.path.join(self.folder, "report.md"), "w", encoding="utf-8")
        self.environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(
            [os.path.join(ROOT, "build", "lib"), *library_folders(), os.environ.get("LD_LIBRARY_PATH", "")]).strip(os.pathsep)}

    def write(self, line):
        print(line, flush=True)
        self.report.write(line + "\n")
        self.report.flush()

    def command(self, name, seconds, *command, **environment):
        """What the command printed, or None where it failed or time is over; the text lies in NAME.txt."""
        left = self.ends - time.monotonic()
        if left < 5:
            raise OutOfTime
        path = os.path.join(self.folder, f"{name}.txt")
        began = time.monotonic()
        with open(path, "w", encoding="utf-8") as out:
            try:
                code = subprocess.run([str(part) for part in command], cwd=ROOT, env={**self.environment, **environment},
                                      stdout=out, stderr=subprocess.STDOUT, timeout=min(seconds, left), check=False).returncode
            except (OSError, subprocess.TimeoutExpired) as error:
                if isinstance(error, subprocess.TimeoutExpired) and left < seconds:
                    raise OutOfTime from error
                code = f"{type(error).__name__} after {time.monotonic() - began:.0f} s"
        with open(path, encoding="utf-8", errors="replace") as text:
            printed = text.read()
        if code != 0:
            raise Failed(f"{' '.join(map(str, command[:4]))} ...: {code}: {end_of(printed, 3)}")
        return printed

    def step(self, title, body):
        began = time.monotonic()
        try:
            result = body()
            self.write(f"- **{title}** ({time.monotonic() - began:.0f} s): {result}")
        except OutOfTime:
            self.not_run.append(title)
            self.write(f"- **{title}**: not run, time is over")
        except Exception as why:  # whatever a step meets, the others are run
            self.failed.append(title)
            said = why if isinstance(why, Failed) else f"{type(why).__name__}: {why}"
            self.write(f"- **{title}** ({time.monotonic() - began:.0f} s): FAILED: {said}")


class OutOfTime(Exception):
    pass


class Failed(Exception):
    pass


def end_of(text, lines=1):
    """The last lines, as one."""
    ends = [line.strip() for line in text.splitlines() if line.strip()][-lines:]
    return " ".join(ends)[-300:] if ends else "nothing printed"


def program(name):
    return os.path.join(ROOT, "build", "tests" if name in TESTS else "bin", name)


def facts(suite):
    gpu = suite.command("nvidia_smi", 20, "nvidia-smi", "--format=csv,noheader",
                        "--query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max").strip()
    find = "import ctypes,sys\nfor name in sys.argv[1:]: ctypes.CDLL(name)\n"
    suite.command("libraries", 60, sys.executable, "-c", find, *LIBRARIES)
    return f"{gpu}; {', '.join(LIBRARIES)} load; {os.uname().release}, {os.cpu_count()} cores"


def contract(suite, name, *flags):
    text = suite.command(name, 90, program("gpu_contract_tests"), "--gtest_brief=1", *flags,
                         SLUICE_CARD_DESCRIPTION=os.path.join(suite.folder, "card.json"))
    if "SKIPPED" in text:
        raise Failed("tests were skipped: the card was not used")
    return end_of(text)


# --- Equal training ---

def read_weights(path):
    """The float32 tensors of a safetensors file by name (https://github.com/huggingface/safetensors, "Format")."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        if tensor["dtype"] == "F32":
            tensors[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return tensors


def train(suite, name, store, gpus):
    weights = os.path.join(suite.folder, f"{name}.safetensors")
    command = [program("train_mnist"), "--network", "lenet_avg", "--kv-store", store, "--num-epochs", 1, "--num-examples", 2560,
               "--batch-size", 64, "--lr", 0.05, "--save-params", weights, *(("--gpus", gpus) if gpus else ())]
    if store.startswith("dist"):
        command = [os.path.join(HERE, "launch.py"), "-n", 1, "-s", 1, *command]
    suite.command(name, 60, *command)
    return read_weights(weights)


def equality(suite, store, reference):
    worst = {}
    for gpus in ("0", "0,0"):
        weights = train(suite, f"train_{store}_{gpus.replace(',', '_')}", store, gpus)
        differences = [abs(a - b) for name, values in reference.items() for a, b in zip(values, weights[name], strict=True)]
        if not all(difference <= 1e-4 for difference in differences):  # NaN is not
            raise Failed(f"--gpus {gpus}: a weight differs by {max(differences):.2g} from the CPU's")
        worst[gpus] = max(differences)
    return ", ".join(f"--gpus {gpus}: at most {value:.1e} from the CPU's" for gpus, value in worst.items())


# --- Speed ---

def ours(suite, network, batch, tf32):
    name = f"ours_{network}_{batch}{'_tf32' if tf32 else ''}"
    path = os.path.join(suite.folder, f"{name}.json")
    suite.command(name, 60, program("train_bench"), "--network", network, "--batch-size", batch, "--gpu", 0, "--kv-store", "device",
                  "--steps", 100, "--repeats", 5, "--json", path, SLUICE_TF32_ARITHMETIC="1" if tf32 else "0")
    with open(path, encoding="utf-8") as text:
        return json.load(text)["images_per_sec"]


def pytorch(suite, figures, speeds, tf32):
    """Images/s by (network, batch, whether it is a graph, whether in TF32): one process for all, since it takes seconds to start."""
    name = f"pytorch{'_tf32' if tf32 else ''}"
    path = os.path.join(suite.folder, f"{name}.json")
    if os.path.exists(path):  # an earlier run's
        os.remove(path)
    jobs = ",".join(f"{network}:{batch}{graph}" for network, batch in speeds for graph in ("", ":graph"))
    before = len(figures)
    try:
        suite.command(name, 150, sys.executable, os.path.join(HERE, "bench_pytorch.py"), "--jobs", jobs, "--device", "cuda",
                      "--layout", "contiguous", "--steps", 100, "--tf32", "yes" if tf32 else "no", "--json", path)
    finally:  # what was measured before it failed counts
        if os.path.exists(path):
            with open(path, encoding="utf-8") as text:
                for line in map(json.loads, text):
                    figures[line["network"], line["batch_size"], line["graph"], tf32] = line["images_per_sec"]
    if len(figures) == before:
        raise Failed(f"{sys.executable} has no PyTorch ({name}.txt)")
    return f"{len(figures) - before} of {2 * len(speeds)} figures"


def speed(suite, figures, network, batch, tf32=False):
    mine = ours(suite, network, batch, tf32)

    def beside(graph):
        theirs = figures.get((network, batch, graph, tf32))
        return f"{theirs:,.0f} ({mine / theirs:.2f})" if theirs else "no figure"
    which = "TF32; PyTorch with TF32" if tf32 else "strict float32; PyTorch with TF32 off"
    return f"{mine:,.0f} images/s, {which}: eager {beside(False)}, as a CUDA graph {beside(True)}"


def language_model(suite):
    """Two LSTM layers of 200 on words drawn by Zipf's law, beside PyTorch, whose layers are cuDNN's."""
    texts = os.path.join(suite.folder, "texts")
    os.makedirs(texts, exist_ok=True)
    chance = random.Random(1)
    words = [f"w{i}" for i in range(10_000)]
    weights = [1 / (i + 1) for i in range(len(words))]
    for name, count in (("train", 100_000), ("test", 5_000)):
        drawn = words + chance.choices(words, weights, k=count)
        with open(os.path.join(texts, f"{name}.txt"), "w", encoding="utf-8") as text:
            text.writelines(" ".join(drawn[i : i + 20]) + "\n" for i in range(0, len(drawn), 20))
    said = end_of(suite.command("language_model", 60, sys.executable, os.path.join(HERE, "bench_lm.py"), "--data-dir", texts, "--gpu", 0,
                                "--repeats", 3))
    if "words/s" not in said:
        raise Failed(said)
    return said


def copies(suite):
    path = os.path.join(suite.folder, "copies.json")
    suite.command("copies", 30, sys.executable, os.path.join(HERE, "gpu_copies.py"), "--json", path)
    with open(path, encoding="utf-8") as text:
        figures = json.load(text)
    return (f"{figures['up_gb_per_sec']:.1f} GB/s up, {figures['down_gb_per_sec']:.1f} down, {figures['both_gb_per_sec']:.1f} both at once: "
            f"102.4 MB each way take {2 * figures['bytes'] / figures['both_gb_per_sec'] / 1e6:.2f} ms")


def updates(suite, name, *flags):
    path = os.path.join(suite.folder, f"{name}.json")
    suite.command(name, 60, program("update_bench"), "--gpu", 0, "--json", path, *flags)
    with open(path, encoding="utf-8") as text:
        figures = json.load(text)
    return (f"{figures['arrays']} arrays, {figures['elements'] / 1e6:.1f} M elements: {1 / figures['ratio']:.2f} times as long as a copy of "
            f"as many bytes ({figures['plain_gb_per_sec']:,.0f} GB/s), the pulled weights included")


def round_trip(suite, name, gpu):
    """Seconds from the push of 102.4 MB until the new weight is there; worker and server are on this host."""
    path = os.path.join(suite.folder, f"{name}.json")
    suite.command(name, 60, os.path.join(HERE, "launch.py"), "-n", 1, "-s", 1, program("kv_bench"), "--kv-store", "dist_sync", "--optimizer", "sgd",
                  "--modes", "push_pull", "--bytes", 102400000, "--keys", 1, "--gpu", gpu, "--no-raw", "--json", path)
    with open(path, encoding="utf-8") as text:
        return json.loads(text.readline())["p50_us"] / 1e6


def round_trips(suite):
    first, host, second = (round_trip(suite, f"round_trip_{i}", gpu) for i, gpu in enumerate((0, -1, 0)))
    card = (first + second) / 2
    return f"102.4 MB from the card to a server of this host, SGD there, and back: {card * 1e3:.1f} ms; from memory of the host {host * 1e3:.1f} ms ({card / host:.2f})"


def run(args):
    suite = Suite(args)
    suite.write(f"# GPU suite, {time.strftime('%Y-%m-%d')}\n")
    suite.step("facts", lambda: facts(suite))
    suite.step("contract of devices", lambda: contract(suite, "contract"))
    references = {}

    def reference():
        references["cpu"] = train(suite, "train_cpu", "local", "")
        return "trained for 40 steps"
    suite.step("lenet_avg on a CPU", reference)
    for store in STORES if references else ():
        suite.step(f"lenet_avg with {store}", lambda store=store: equality(suite, store, references["cpu"]))
    figures = {}
    suite.step("PyTorch", lambda: pytorch(suite, figures, SPEEDS, False))
    for network, batch in SPEEDS:
        suite.step(f"{network}, batch {batch}", lambda network=network, batch=batch: speed(suite, figures, network, batch))
    suite.step("update of one array", lambda: updates(suite, "update_one", "--elements", 52_400_000))
    suite.step("update of many arrays", lambda: updates(suite, "update_many", "--shapes", "resnet50"))
    suite.step("sum of two contexts, update and broadcast", lambda: updates(suite, "update_two", "--shapes", "resnet50", "--contexts", 2))
    suite.step("copies over PCIe", lambda: copies(suite))
    suite.step("round trip", lambda: round_trips(suite))
    suite.step("language model", lambda: language_model(suite))
    suite.step("PyTorch in TF32", lambda: pytorch(suite, figures, TF32_SPEEDS, True))
    for network, batch in TF32_SPEEDS:
        suite.step(f"{network}, batch {batch}, TF32", lambda network=network, batch=batch: speed(suite, figures, network, batch, True))
    sanitizer = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)

    # racecheck looks at kernels that share memory; memcheck at those with edges and gathers as well
    shared = "*Softmax*:*Sum*:*Embedding*:*LayerNorm*:*BatchNorm*"
    kernels = {"memcheck": f"{shared}:*Pool*:*Reorder*:*Activation*:*Dropout*:*RowLoss*", "racecheck": shared}

    def sanitized(tool):
        if not sanitizer:
            raise Failed("there is no compute-sanitizer; it comes with the toolkit")
        return end_of(suite.command(tool, 60, sanitizer, "--tool", tool, "--error-exitcode", 9, program("gpu_contract_tests"),
                                    "--gtest_brief=1", f"--gtest_filter={kernels[tool]}"))
    for tool in ("memcheck", "racecheck"):
        suite.step(f"compute-sanitizer {tool}", lambda tool=tool: sanitized(tool))
    suite.step("contract once more", lambda: contract(suite, "contract_again", "--gtest_shuffle"))
    for what, steps in (("failed", suite.failed), ("were not run", suite.not_run)):
        suite.write(f"\n{len(steps)} steps {what}{': ' if steps else ''}{', '.join(steps)}")
    sys.exit(1 if suite.failed or suite.not_run else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True, metavar="bundle|run")
    packing = parts.add_parser("bundle", help="pack what a machine with a GPU needs")
    packing.add_argument("file", metavar="FILE.tar.xz")
    packing.set_defaults(do=bundle)
    running = parts.add_parser("run", help="run every step")
    running.add_argument("--report", metavar="DIR", required=True, help="the folder for report.md and what the steps print")
    running.add_argument("--seconds", type=bench_run.positive, default=360, help="for all steps together (default 360)")
    running.set_defaults(do=run)
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    bench_run.started(main)
