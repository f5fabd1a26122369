"""Files from mirrors, checked by their SHA-256: what get_mnist.py and get_cifar10.py share.

A file is only ever seen whole, for it is written under a temporary name and renamed.
"""
import hashlib
import http.client
import os
import pathlib
import signal
import sys
import tempfile
import urllib.error
import urllib.request

CHUNK = 64 << 10


class FetchError(Exception):
    """One mirror could not give one file; says why."""


def sha256_of(path):
    digest = hashlib.sha256()
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


def copy_checked(response, file, name, expected, max_bytes):
    """Copies the response's body to file; raises FetchError unless its SHA-256 is the expected one."""
    header = response.headers.get("Content-Length") or ""
    length = int(header) if header.isdigit() else 0
    progress = Progress(name, length)
    digest, done = hashlib.sha256(), 0
    while chunk := response.read(CHUNK):
        digest.update(chunk)
        file.write(chunk)
        done += len(chunk)
        if done > max_bytes:
            raise FetchError(f"sends more than {max_bytes} bytes")
        progress.show(done)
    progress.show(done, end=True)
    if done < length:
        raise FetchError(f"broke off after {done} of {length} bytes")
    if digest.hexdigest() != expected:
        raise FetchError(f"sent {done} bytes with SHA-256 {digest.hexdigest()}; expected {expected}")


def fetch(url, target, expected, timeout, max_bytes):
    """Puts the file at url at target, whole and right, or raises FetchError and leaves no file behind."""
    descriptor, temporary = tempfile.mkstemp(prefix=target.name + ".", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with urllib.request.urlopen(url, timeout=timeout) as response:
                copy_checked(response, file, target.name, expected, max_bytes)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ValueError) as error:
        status = f"HTTP {error.code} " if isinstance(error, urllib.error.HTTPError) else ""
        raise FetchError(status + str(getattr(error, "reason", error) or type(error).__name__)) from error
    finally:
        pathlib.Path(temporary).unlink(missing_ok=True)


def fetch_from_any(mirrors, target, expected, timeout, max_bytes):
    """Why each mirror failed, or nothing when one gave the file."""
    failures = []
    for mirror in mirrors:
        url = mirror.rstrip("/") + "/" + target.name
        try:
            fetch(url, target, expected, timeout, max_bytes)
            return []
        except FetchError as error:
            failures.append(f"{url}: {error}")
            print(f"{failures[-1]}; trying the next mirror", file=sys.stderr)
    return failures


def end_by(number, _):
    """So that the temporary file goes."""
    sys.exit(128 + number)


def run(main):
    """The whole program: its exit code, also when it is interrupted."""
    signal.signal(signal.SIGTERM, end_by)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
