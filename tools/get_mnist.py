#!/usr/bin/env python3
"""Fetches MNIST or Fashion-MNIST as four gzipped IDX files, each checked against its published MD5.

    tools/get_mnist.py --dataset mnist --out data/mnist

Mirrors are tried in order. A file that is there already and right is kept; a file is only ever seen whole, for it is
written under a temporary name and renamed. SLUICE_MNIST_MIRRORS (URLs separated by spaces) replaces the mirrors.
Exit codes: 0 all files are there; 1 a file could not be fetched; 2 wrong arguments.
"""
import argparse
import hashlib
import http.client
import os
import pathlib
import sys
import tempfile
import urllib.error
import urllib.request

# MD5 guards against damage only: these are the sums that the authors published.
DATASETS = {
    "mnist": {
        "mirrors": [
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ],
        "files": {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    },
    "fashion-mnist": {
        "mirrors": [
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ],
        "files": {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    },
}
MAX_BYTES = 64 << 20  # the largest file has 26 MB
CHUNK = 64 << 10


class FetchError(Exception):
    """One mirror could not give one file; says why."""


def md5_of(path):
    digest = hashlib.md5()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class Progress:
    """One line per file: rewritten in place on a terminal, printed once otherwise."""

    def __init__(self, name, total, stream=sys.stderr):
        self._name, self._total, self._stream = name, total, stream
        self._live = stream.isatty()

    def show(self, done, end=False):
        if not (self._live or end):
            return
        share = f" {100 * done // self._total:3d} %" if self._total else ""
        print(f"{self._name}{share} {done / 1e6:6.2f} MB", end="\n" if end else "\r", file=self._stream, flush=True)


def copy_checked(response, file, name, expected_md5):
    """Copies the response's body to file; raises FetchError unless its MD5 is the expected one."""
    length = response.headers.get("Content-Length") or ""
    progress = Progress(name, int(length) if length.isdigit() else 0)
    digest, done = hashlib.md5(), 0
    while chunk := response.read(CHUNK):
        digest.update(chunk)
        file.write(chunk)
        done += len(chunk)
        if done > MAX_BYTES:
            raise FetchError(f"sends more than {MAX_BYTES} bytes")
        progress.show(done)
    progress.show(done, end=True)
    if digest.hexdigest() != expected_md5:
        raise FetchError(f"sent {done} bytes with MD5 {digest.hexdigest()}; expected {expected_md5}")


def fetch(url, target, expected_md5, timeout):
    """Puts the file at url at target, whole and right, or raises FetchError and leaves no file behind."""
    descriptor, temporary = tempfile.mkstemp(prefix=target.name + ".", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with urllib.request.urlopen(url, timeout=timeout) as response:
                copy_checked(response, file, target.name, expected_md5)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ValueError) as error:
        raise FetchError(str(getattr(error, "reason", error) or type(error).__name__)) from error
    finally:
        pathlib.Path(temporary).unlink(missing_ok=True)


def fetch_from_any(mirrors, target, expected_md5, timeout):
    """Why each mirror failed, or nothing when one gave the file."""
    failures = []
    for mirror in mirrors:
        url = mirror.rstrip("/") + "/" + target.name
        try:
            fetch(url, target, expected_md5, timeout)
            return []
        except FetchError as error:
            failures.append(f"{url}: {error}")
            print(f"{failures[-1]}; trying the next mirror", file=sys.stderr)
    return failures


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
        for name, expected_md5 in dataset["files"].items():
            target = options.out / name
            if target.is_file() and md5_of(target) == expected_md5:
                print(f"{name} is there already", file=sys.stderr)
                continue
            failures = fetch_from_any(mirrors, target, expected_md5, options.timeout)
            if failures:
                print(f"error: no mirror gave {name}:\n  " + "\n  ".join(failures) + "\nCheck the network (and "
                      "HTTPS_PROXY behind a proxy), put the files into "
                      f"{options.out} by hand, or train on synthetic digits, which need no download.", file=sys.stderr)
                return 1
    except OSError as error:
        print(f"error: cannot write to '{options.out}': {error}", file=sys.stderr)
        return 1
    print(f"{options.dataset} is in {options.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
