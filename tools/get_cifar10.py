#!/usr/bin/env python3
"""Fetches CIFAR-10's binary version, checked by its SHA-256, and unpacks its six files of images.

    tools/get_cifar10.py --out data/cifar10

Mirrors are tried in order. Files that are there already and right are kept; a file is only ever seen whole, for it is
written under a temporary name and renamed. SLUICE_CIFAR10_MIRRORS (URLs of folders separated by spaces) replaces the
mirrors. The archive (170 MB) is removed at the end.
Exit codes: 0 all files are there; 1 they could not be fetched; 2 wrong arguments.
"""
import argparse
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import download  # noqa: E402

MIRRORS = [
    "https://www.cs.toronto.edu/~kriz/",
    "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
]
ARCHIVE = "cifar-10-binary.tar.gz"
# What the authors published has these digests; several projects that pin them agree. A mirror may do without TLS.
ARCHIVE_SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
FOLDER = "cifar-10-batches-bin"  # in the archive
FILES = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
MAX_BYTES = 256 << 20


class UnpackError(Exception):
    """The archive is not what it should be; says why."""


def is_there(path, digest):
    return path.is_file() and download.sha256_of(path) == digest


def unpack_one(archive, name, target):
    """Puts one file of the archive at target, whole and right, or leaves what was there."""
    try:
        member = archive.getmember(f"{FOLDER}/{name}")
        source = archive.extractfile(member) if member.isfile() else None
    except KeyError:
        source = None
    if source is None:
        raise UnpackError(f"{ARCHIVE} has no file {FOLDER}/{name}")
    descriptor, temporary = tempfile.mkstemp(prefix=name + ".", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(source, file, download.CHUNK)
            file.flush()
            os.fsync(file.fileno())
        found = download.sha256_of(temporary)
        if found != FILES[name]:
            raise UnpackError(f"{FOLDER}/{name} has the SHA-256 {found}; expected {FILES[name]}")
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    finally:
        pathlib.Path(temporary).unlink(missing_ok=True)


def unpack(path, out):
    """Unpacks the files of images from the archive at `path`: nothing else that it holds is written anywhere."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            for name in FILES:
                unpack_one(archive, name, out / name)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise UnpackError(f"{ARCHIVE} cannot be unpacked: {error}") from error


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for the six files; made when missing")
    parser.add_argument("--timeout", type=float, default=30, help="seconds a mirror may be silent (default 30)")
    options = parser.parse_args(arguments)
    if not options.timeout > 0:
        parser.error(f"--timeout is {options.timeout}; expected more than 0")
    mirrors = os.environ.get("SLUICE_CIFAR10_MIRRORS", "").split() or MIRRORS
    archive = options.out / ARCHIVE
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        if all(is_there(options.out / name, digest) for name, digest in FILES.items()):
            print(f"CIFAR-10 is in {options.out} already", file=sys.stderr)
            return 0
        if not is_there(archive, ARCHIVE_SHA256):
            failures = download.fetch_from_any(mirrors, archive, ARCHIVE_SHA256, options.timeout, MAX_BYTES)
            if failures:
                print(f"error: no mirror gave {ARCHIVE}:\n  " + "\n  ".join(failures) + "\n"
                      "Check the network (and HTTPS_PROXY behind a proxy), name mirrors of your own in "
                      f"SLUICE_CIFAR10_MIRRORS, put the archive into {options.out} by hand and run this again, or train "
                      "on synthetic pictures, which need no download.", file=sys.stderr)
                return 1
        unpack(archive, options.out)
        archive.unlink()
    except UnpackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: cannot write to '{options.out}': {error}", file=sys.stderr)
        return 1
    print(f"CIFAR-10 is in {options.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    download.run(main)
