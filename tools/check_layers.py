#!/usr/bin/env python3
"""Holds the rule that dependencies point one way: every #include of src/ and include/sluice/ against the table of layers.

Usage: tools/check_layers.py [ROOT]      exit code 1 and a line for each violation
       tools/check_layers.py --picture   prints the picture of ARCHITECTURE.md
"""
import os
import pathlib
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out

import checks  # noqa: E402

# Bottom to top; what a folder may include beside itself and the standard library. ARCHITECTURE.md lists the same folders in the same order.
LAYERS = {
    "base": set(),
    "tensor": {"base"},
    "autograd": {"base", "tensor"},
    "nn": {"base", "tensor", "autograd"},
    "optimizer": {"base"},
    "data": {"base", "tensor"},
    "collective": {"base", "tensor"},
    "compression": {"base", "tensor"},
    "wire": {"base", "tensor", "optimizer", "compression"},
    "transport": {"base", "wire"},
    "kvstore": {"base", "tensor", "optimizer", "data", "collective", "compression", "wire", "transport"},
    "scheduler": {"base", "wire", "transport", "kvstore"},
    "server": {"base", "compression", "wire", "transport", "kvstore"},
    "worker": {"base", "tensor", "collective", "compression", "wire", "transport", "kvstore"},
    "train": {"base", "tensor", "autograd", "nn", "optimizer", "data", "kvstore"},
    "runtime": {"base", "tensor", "wire", "transport", "kvstore", "scheduler", "server", "worker"},
}

# Which layer a public header belongs to.
PUBLIC = {
    "error": "base", "version": "base", "array_list": "tensor", "dtype": "tensor", "shape": "tensor", "context": "tensor", "ndarray": "tensor", "row_sparse": "tensor", "autograd": "autograd", "ops": "autograd",
    "parameter": "nn", "nn": "nn", "loss": "nn", "metric": "nn", "initializer": "nn", "models": "nn", "split": "nn",
    "optimizer": "optimizer", "corpus": "data", "data": "data", "data_files": "data", "data_loader": "data", "dataset": "data", "image_files": "data",
    "sampler": "data", "synthetic": "data", "transforms": "data", "barrier": "kvstore", "key": "kvstore", "compression": "compression", "kvstore": "kvstore", "store_type": "kvstore",
    "updater": "kvstore", "row_init": "wire", "server": "server",
    "trainer": "train", "clip": "train", "callback": "train", "fit": "train", "pipeline": "train", "placement_plan": "train", "checkpoint": "train", "parameters_file": "train", "runtime": "runtime", "trace": "runtime", "flags": "runtime", "job": "runtime",
}

# Includes every public header, for programs: it belongs to no layer, and nothing of the library may include it.
UMBRELLA = "include/sluice/sluice.h"

# Libraries that stay in the folders named for them.
CONFINED = {
    r"zmq(\.h|\.hpp)?": ["src/transport/zmq/"],
    r"(google/protobuf/.*|.*\.pb\.h)": ["src/wire/"],
    r"(dnnl.*|oneapi/.*)": ["src/tensor/cpu/"],
    r"omp\.h": ["src/tensor/cpu/"],
    r"gflags/.*": ["src/runtime/"],
    r"zlib\.h": ["src/data/"],
    r"png\.h": ["src/data/images/"],
    r"(turbojpeg|jpeglib)\.h": ["src/data/images/"],
    r"tsl/.*": ["src/kvstore/rows/"],
    r"nlohmann/.*": ["src/data/safetensors/", "src/train/report/"],
    r"(cuda.*|cublas.*|cudnn.*|driver_types\.h|vector_types\.h)": ["src/tensor/cuda/"],
    r"nccl\.h": ["src/collective/nccl/"],
    r"glog/.*": ["src/base/"],
    r"nanobind/.*": ["python/core/"],
}

# The folder of each transport, its classes' prefix, and who else may name it: the place that chooses a transport, and its own tests.
TRANSPORTS = [("src/transport/zmq/", "Zmq", ["src/transport/loop_factory.cc", "tests/unit/transport/"])]

# Folders that stand in for each other: CMake picks one of the two. Every file of the second has its twin in the first.
TWINS = [("src/tensor/cuda", "src/tensor/no_cuda"), ("src/kvstore/cuda", "src/kvstore/no_cuda"), ("src/collective/nccl", "src/collective/no_nccl")]

# The interface of the kernels, and its implementations: folder and class.
KERNELS = ("src/tensor/kernels.h", [("src/tensor/cpu", "CpuKernels"), ("src/tensor/cuda", "CudaKernels")])

CODE = (".h", ".cc", ".cuh", ".cu")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def layer_of(path):
    """Returns the layer of a file or an include, relative to the root; None for what is not the project's."""
    parts = path.parts
    if parts[:2] == ("include", "sluice") or parts[:1] == ("sluice",):
        if parts[-2] in LAYERS:  # sluice/nn/conv.h
            return parts[-2]
        return PUBLIC.get(pathlib.PurePath(parts[-1]).stem, f"unknown public header {parts[-1]}")
    if parts[0] == "src":
        parts = parts[1:]
    return parts[0] if parts and parts[0] in LAYERS else None


def violations(root):
    found = []
    for path in sorted([*root.glob("src/**/*"), *root.glob("include/**/*")]):
        if path.suffix not in CODE:
            continue
        name = path.relative_to(root)
        if str(name) == UMBRELLA:
            continue
        own = layer_of(pathlib.PurePath(name))
        if own not in LAYERS:
            found.append(f"{name}: belongs to no layer ({own}); name it in tools/check_layers.py")
            continue
        for _, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
            for pattern, homes in CONFINED.items():
                if re.fullmatch(pattern, target) and not any(str(name).startswith(home) for home in homes):
                    found.append(f"{name}: includes <{target}>, which stays in {' and '.join(homes)}")
            layer = layer_of(pathlib.PurePath(target))
            if layer is None or layer == own:
                continue
            if layer not in LAYERS:
                found.append(f"{name}: includes {target}: {layer}")
            elif layer not in LAYERS[own]:
                found.append(f"{name}: {own}/ may not include {layer}/ ({target})")
            if name.parts[0] == "include" and not target.startswith("sluice/"):
                found.append(f"{name}: a public header includes {target}, which is not public")
    return found


def unused_edges(root):
    """What a folder may include and does not, so that the table says what is."""
    used = {name: set() for name in LAYERS}
    for path in [*root.glob("src/**/*"), *root.glob("include/**/*")]:
        name = path.relative_to(root)
        own = layer_of(pathlib.PurePath(name)) if path.suffix in CODE and str(name) != UMBRELLA else None
        if own in LAYERS:
            used[own] |= {layer_of(pathlib.PurePath(target)) for _, target in INCLUDE.findall(path.read_text(encoding="utf-8"))}
    return [f"tools/check_layers.py: {own}/ may include {layer}/, and no file does; take the edge out of LAYERS"
            for own, layers in LAYERS.items() for layer in sorted(layers - used[own])]


def private_includes_of_examples(root):
    """Users copy from examples: what they include is public, the examples' own, or a library's."""
    found = []
    for path in sorted([*root.glob("examples/**/*.h"), *root.glob("examples/**/*.cc")]):
        for bracket, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if bracket == '"' and not target.startswith("sluice/") and not (root / "examples" / target).is_file():
                found.append(f"{path.relative_to(root)}: includes {target}, which is neither public nor an example's")
    return found


def not_in_umbrella(root):
    umbrella = root / UMBRELLA
    if not umbrella.is_file():
        return []
    included = {target for _, target in INCLUDE.findall(umbrella.read_text(encoding="utf-8"))}
    headers = [f"sluice/{path.relative_to(umbrella.parent)}" for path in sorted(umbrella.parent.rglob("*.h"))]
    return [f"{UMBRELLA}: does not include {header}" for header in headers if header not in included | {"sluice/sluice.h"}]


def unlike_twins(root):
    """A folder that nobody has written yet is no fault."""
    found = []
    for real, stand_in in TWINS:
        real_stems = {path.stem for path in (root / real).glob("*")}  # a twin may be compiled by nvcc
        if real_stems:
            found += [f"{stand_in}/{path.name} has no twin in {real}/"
                      for path in sorted((root / stand_in).glob("*")) if path.stem not in real_stems]
    return found


def unlike_kernels(root):
    """The backends have a file of the same name for each method of their common interface."""
    def files(folder, name):
        return {(match[1], path.stem) for path in (root / folder).glob("*.c[cu]") for match in re.finditer(rf"\b{name}::(\w+)\(", path.read_text(encoding="utf-8"))}

    (interface, backends), found = KERNELS, []
    if not (root / interface).is_file():
        return []
    where = {name: files(folder, name) for folder, name in backends}
    for method in re.findall(r"virtual \S+ (\w+)\(const \w+Args&", (root / interface).read_text(encoding="utf-8")):
        stems = [{stem for name, stem in where[backend] if name == method} for _, backend in backends]
        if not stems[0] & stems[1]:
            found.append(f"{interface}: {method} is in " + " and in ".join(
                f"{folder}/ in {', '.join(sorted(of)) or 'no file'}" for (folder, _), of in zip(backends, stems, strict=True)))
    return found


def named_transports(root):
    """Whoever runs a node or tests one names no transport, in an include, a class or a comment: src/transport/loop_factory.h makes its loops."""
    found = []
    for folder, prefix, allowed in TRANSPORTS:
        word = re.compile(rf"\b{prefix}[A-Z]\w*|{folder.removeprefix('src/')}\w+\.h")
        for top in ("src", "include", "tests", "examples"):
            for path in sorted([*(root / top).glob("**/*.h"), *(root / top).glob("**/*.cc")]):
                name = str(path.relative_to(root))
                if not name.startswith((folder, *allowed)):
                    found += [f"{name}: names {match[0]}, which only {' and '.join([folder, *allowed])} may do"
                              for match in word.finditer(path.read_text(encoding="utf-8"))]
    return found


def picture():
    """Who may include whom, one row for each folder: `x` under the number of a folder further down the stack. Nothing
    right of the diagonal: dependencies point one way."""
    names = list(LAYERS)
    lines = [" " * 15 + " ".join(f"{i + 1:>2}" for i in range(len(names)))]
    for row, name in enumerate(names):
        marks = [" x" if other in LAYERS[name] else " ." for other in names[:row]]
        lines.append(f"{row + 1:>2} {name:<12}" + " ".join([*marks, " *"]))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def drawn_layers(root):
    """The folders of ARCHITECTURE.md's table, in order."""
    return re.findall(r"^\| `(\w+)/` \|", (root / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE)


def main(arguments):
    parser = checks.parser(__doc__)
    parser.add_argument("--picture", action="store_true", help="print the picture of ARCHITECTURE.md")
    options = parser.parse_args(arguments)
    if options.picture:
        print(picture(), end="")
        return 0
    root = options.root
    if not (root / "ARCHITECTURE.md").is_file():
        parser.error(f"argument ROOT: {root} has no ARCHITECTURE.md")
    found = violations(root) + unused_edges(root) + unlike_twins(root) + unlike_kernels(root) + private_includes_of_examples(root) + not_in_umbrella(root) + named_transports(root)
    if drawn_layers(root) != list(LAYERS):
        found.append(f"ARCHITECTURE.md lists {drawn_layers(root)}, the layers are {list(LAYERS)}")
    if f"```\n{picture()}```" not in (root / "ARCHITECTURE.md").read_text(encoding="utf-8"):
        found.append("ARCHITECTURE.md's picture is not the code's; tools/check_layers.py --picture prints it")
    for line in found:
        print(line)
    print(f"check_layers: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
