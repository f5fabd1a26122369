"""The examples in the comments of public headers compile, against the public headers alone.

An example is a run of comment lines that are indented by three blanks and have code in them. `...` stands for what a program has
there: a statement of it is left out, and a value of it is any.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
COMPILER = [os.environ.get("CXX", "g++"), "-std=c++20", f"-I{INCLUDE}", "-fsyntax-only", "-x", "c++", "-"]

# What is there before each example, by header: a program's own variables. A header without an entry has none.
VARIABLES = """
  sluice::NDArray x, labels, predictions, loss, weight, weight2, bias, bias2, gradient;
  sluice::nn::Sequential net;
  int64_t batch_size = 1;
"""
BEFORE = {
    "autograd.h": VARIABLES + "uint64_t seed = 1, step = 0; std::vector<sluice::NDArray> parts; std::vector<int64_t> first;",
    "callback.h": "sluice::FitOptions options;",
    "clip.h": VARIABLES + "sluice::OptimizerConfig config; std::shared_ptr<sluice::KVStore> store;",
    "kvstore.h": VARIABLES,
    "metric.h": "std::vector<sluice::NDArray> labels, predictions;",
    "nn.h": "sluice::NDArray x;",
    "nn/layer.h": "sluice::nn::Sequential embedding; sluice::nn::Dense decoder(10);",
    "pipeline.h": VARIABLES.replace("Sequential net", "PlacedSequential net(sluice::nn::Mlp(), {})") + "std::shared_ptr<sluice::KVStore> store;",
    "placement_plan.h": "sluice::NDArray x, labels; const auto Network = [] { return sluice::nn::Mlp(); };",
    "ops.h": VARIABLES.replace("loss, ", ""),
    "trainer.h": VARIABLES,
    "transforms.h": "std::string folder;",
}
# The second example of a header may need others than the first.
BEFORE_LATER = {"autograd.h": "uint64_t seed = 1, step = 0; std::vector<sluice::NDArray> parts, labels, losses; std::vector<int64_t> first;"
                              "sluice::nn::Sequential net; const sluice::nn::L2Loss loss;"}
PRELUDE = """#include <gflags/gflags.h>
#include <iostream>
#include "sluice/sluice.h"
using namespace sluice;
"""

FORMULAS = {"optimizer.h", "compression.h"}  # what is indented there is no code

EXAMPLE = re.compile(r"^ *//   ( *\S.*)$")
CODE = re.compile(r"[;{}]\s*(//.*)?$")


def examples(text):
    """The code of each example."""
    found, lines = [], []
    for line in [*text.split("\n"), ""]:
        match = EXAMPLE.match(line)
        if match:
            lines.append(match[1])
            continue
        code = [re.sub(r"\s*//.*$", "", one) for one in lines]
        if any(CODE.search(one) for one in lines) and any(re.search(r"\w\(", one) for one in code):
            found.append("\n".join(code))
        lines = []
    return found


def program(header, number, code):
    code = re.sub(r"(\w+) = \.\.\.;", r"\1;", code)
    code = re.sub(r"^\s*\.\.\.$|(?<=;) \.\.\.$", "", code, flags=re.MULTILINE)
    if "int main(" in code:
        return PRELUDE + code.replace("return sluice::RunProgram(argc, argv, [&] {", "return sluice::RunProgram(argc, argv, [&] {") + \
            ("\n    });\n}\n" if code.count("{") > code.count("}") else "\n")
    if code.startswith("DEFINE_"):  # a flag
        return f"{PRELUDE}{code}\n"
    before = BEFORE_LATER.get(header, BEFORE.get(header, "")) if number else BEFORE.get(header, "")
    return f"{PRELUDE}void Example() {{\n{before}\n{code}\n}}\n"


class HeaderExamples(unittest.TestCase):
    maxDiff = None

    def test_they_compile(self):
        jobs = []
        for path in sorted((INCLUDE / "sluice").rglob("*.h")):
            header = str(path.relative_to(INCLUDE / "sluice"))
            if header in FORMULAS:
                continue
            jobs += [(f"{header}, example {number + 1}", program(header, number, code))
                     for number, code in enumerate(examples(path.read_text(encoding="utf-8")))]
        self.assertGreater(len(jobs), 10)
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
            prelude = pathlib.Path(folder) / "prelude.h"
            prelude.write_text(PRELUDE)
            subprocess.run([*COMPILER[:-4], "-x", "c++-header", str(prelude)], check=True)  # parsed once
            compiler = [*COMPILER[:-4], "-include", str(prelude), *COMPILER[-4:]]
            runs = list(pool.map(lambda job: subprocess.run(compiler, input=job[1].removeprefix(PRELUDE), capture_output=True, text=True), jobs))
        for (name, text), run in zip(jobs, runs):
            with self.subTest(example=name):
                self.assertEqual(run.returncode, 0, f"{text}\n{run.stderr[:2000]}")

    def test_a_broken_one_is_found(self):
        code = examples("// Text.\n//\n//   kv->Pull(weight);\n#pragma once\n")
        self.assertEqual(code, ["kv->Pull(weight);"])
        run = subprocess.run(COMPILER, input=program("kvstore.h", 0, code[0]), capture_output=True, text=True)
        self.assertNotEqual(run.returncode, 0)

    def test_formulas_are_none(self):
        self.assertEqual(examples("//   sgd          v = momentum * v - lr * g;  w += v\n"), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
