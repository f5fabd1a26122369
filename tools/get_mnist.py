#!/usr/bin/env python3
"""Fetches MNIST or Fashion-MNIST as four gzipped IDX files, each checked by its SHA-256.

    tools/get_mnist.py --dataset mnist --out data/mnist

Mirrors are tried in order. A file that is there already and right is kept; a file is only ever seen whole, for it is
written under a temporary name and renamed. SLUICE_MNIST_MIRRORS (URLs separated by spaces) replaces the mirrors.
Exit codes: 0 all files are there; 1 a file could not be fetched; 2 wrong arguments.
"""
import argparse
import os
import pathlib
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import download  # noqa: E402

# What the authors published has these digests; several projects that pin them agree. A mirror may do without TLS, for only
# what was published has them.
DATASETS = {
    "mnist": {
        "mirrors": [
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ],
        "files": {
            "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    },
    "fashion-mnist": {
        "mirrors": [
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ],
        "files": {
            "train-images-idx3-ubyte.gz": "08dc20ab1689590a0bcd66e874647b6ee8464e2d501b5a3f1f78831db19a3fdc",
            "train-labels-idx1-ubyte.gz": "b0197879cbda89f3dc7b894f9fd52b858e68ea4182b6947c9d8c2b67e5f18dcc",
            "t10k-images-idx3-ubyte.gz": "78dcbbfb5a27efaf1b6c1d616caca68560be8766c5bffcb2791df9273a534229",
            "t10k-labels-idx1-ubyte.gz": "42bd18137a62d5998cdeae52bf3a0676ac6b706f5cf8439b47bb5b151ae3dccf",
        },
    },
}
MAX_BYTES = 64 << 20  # the largest file has 26 MB


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dataset", choices=DATASETS, default="mnist")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for the four files; made when missing")
    parser.add_argument("--timeout", type=float, default=30, help="seconds a mirror may be silent (default 30)")
    options = parser.parse_args(arguments)
    if not options.timeout > 0:
        parser.error(f"--timeout is {options.timeout}; expected more than 0")
    dataset = DATASETS[options.dataset]
    mirrors = os.environ.get("SLUICE_MNIST_MIRRORS", "").split() or dataset["mirrors"]
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, expected in dataset["files"].items():
            target = options.out / name
            if target.is_file() and download.sha256_of(target) == expected:
                print(f"{name} is there already", file=sys.stderr)
                continue
            failures = download.fetch_from_any(mirrors, target, expected, options.timeout, MAX_BYTES)
            if failures:
                print(f"error: no mirror gave {name}:\n  " + "\n  ".join(failures) + "\n"
                      "Check the network (and HTTPS_PROXY behind a proxy), name mirrors of your own in "
                      f"SLUICE_MNIST_MIRRORS, put the files into {options.out} by hand, or train on synthetic digits, "
                      "which need no download.", file=sys.stderr)
                return 1
    except OSError as error:
        print(f"error: cannot write to '{options.out}': {error}", file=sys.stderr)
        return 1
    print(f"{options.dataset} is in {options.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    download.run(main)
