"""Compiles the kernel with the machine's own C compiler, once for each state of its source, and loads it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from srgdqn.kernel.program_cache import cache_folder
from srgdqn.runs.provenance import processor_fingerprint

_FOLDER = Path(__file__).parent / "c"
# The kernel reads neither errno nor floating-point exceptions; nothing here lets the compiler reorder sums.
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
_SECONDS = 120  # after which a compiler that does not answer is given up


class NoKernelError(Exception):
    """Why there is no kernel on this machine."""


def sources() -> list[Path]:
    """The kernel's files."""
    try:
        return sorted(path for path in _FOLDER.iterdir() if path.suffix in (".c", ".h"))
    except OSError as error:
        raise NoKernelError(f"its source is not where the package is installed ({error})") from error


class Compiler(NamedTuple):
    """A C compiler: its command, and the first line of its `--version`."""

    command: tuple[str, ...]
    version: str


Made = TypeVar("Made")


class _Remembered(Generic[Made]):
    """A function that is called once, whichever thread calls first; its failure is remembered, too."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._outcome: Made | NoKernelError | None = None

    def __call__(self) -> Made:
        with self._lock:
            if self._outcome is None:
                try:
                    self._outcome = self._make()
                except NoKernelError as reason:
                    self._outcome = reason
            if isinstance(self._outcome, NoKernelError):
                raise self._outcome
            return self._outcome

    def forget(self) -> None:
        """Drops what was remembered: the next call calls the function again."""
        self._outcome = None


@_Remembered
def compiler() -> Compiler:
    """The machine's C compiler; `CC` names another than `cc`, perhaps with arguments."""
    asked = os.environ.get("CC") or "cc"
    try:
        name, *arguments = shlex.split(asked)
    except ValueError as error:
        raise NoKernelError(f"CC is {asked!r}, which is no command ({error})") from error
    path = shutil.which(name)
    if path is None:
        raise NoKernelError(f"there is no C compiler called {name!r}")
    answer = _run([path, *arguments, "--version"])
    return Compiler((path, *arguments), answer.splitlines()[0] if answer else "unknown")


def toolchain() -> str:
    """What determines the kernel's bits beside its source: the compiler, the C library and the kind of processor."""
    _, *arguments = compiler().command
    return ", ".join(
        [" ".join([compiler().version, *arguments]), " ".join(platform.libc_ver()), processor_fingerprint()]
    )


@_Remembered
def library() -> ctypes.CDLL:
    """The kernel, compiled if need be."""
    command, version = compiler()
    digest = hashlib.sha256(repr((version, command[1:], FLAGS)).encode())
    for source in sources():
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    name = f"kernel-{digest.hexdigest()[:16]}"
    try:
        folder = cache_folder()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            return ctypes.CDLL(str(_cached(folder, name) or _compile(command, folder, name)))
    except (OSError, RuntimeError, NoKernelError):
        pass  # without a usable cache it is compiled into a temporary folder
    with tempfile.TemporaryDirectory(prefix="srgdqn-") as temporary:
        try:
            return ctypes.CDLL(str(_compile(command, Path(temporary), name)))
        except OSError as error:
            raise NoKernelError(f"the compiled kernel cannot be loaded ({error})") from error


def _cached(folder: Path, name: str) -> Path | None:
    """A kernel compiled earlier whose content is that of its name: loading a damaged one may end the process."""
    return next((file for file in sorted(folder.glob(f"{name}-*.so")) if file.name == _named(name, file)), None)


def _named(name: str, file: Path) -> str:
    """The name of a file with the digest of its content."""
    return f"{name}-{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}.so"


def _compile(command: Sequence[str], folder: Path, name: str) -> Path:
    # Written beside its place and moved there, so that no other process loads half of it.
    with tempfile.TemporaryDirectory(dir=folder) as beside:
        made = Path(beside) / name
        _run([*command, *FLAGS, str(_FOLDER / "kernel.c"), "-o", str(made), "-lm"])
        return made.replace(folder / _named(name, made))


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoKernelError(f"the C compiler cannot be run ({error})") from error
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise NoKernelError(f"the C compiler {command[0]!r} failed: {errors[0] if errors else 'it does not say why'}")
    return done.stdout
