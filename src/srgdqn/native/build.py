"""Compiles the kernel with the machine's own C compiler, once for each state of its source, and loads it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from srgdqn.program_cache import cache_folder

_FOLDER = Path(__file__).parent / "kernel"
# The kernel never looks at errno or at floating-point exceptions; nothing here lets the compiler reorder sums.
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
_SECONDS = 120  # after which a compiler that does not answer is given up


class NoKernelError(Exception):
    """Why there is no kernel on this machine."""


def sources() -> list[Path]:
    """The kernel's files."""
    return sorted(path for path in _FOLDER.iterdir() if path.suffix in (".c", ".h"))


@functools.cache
def compiler() -> tuple[str, str]:
    """The C compiler's path and what it says of its version; `CC` names another than `cc`."""
    asked = os.environ.get("CC") or "cc"
    path = shutil.which(asked)
    if path is None:
        raise NoKernelError(f"there is no C compiler called {asked!r}")
    answer = _run([path, "--version"])
    return path, answer.splitlines()[0] if answer else "unknown"


@functools.cache
def library() -> ctypes.CDLL:
    """The kernel, compiled if need be."""
    path, version = compiler()
    digest = hashlib.sha256(repr((version, FLAGS)).encode())
    for source in sources():
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    name = f"kernel-{digest.hexdigest()[:16]}"
    folder = cache_folder()
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            return ctypes.CDLL(str(_kept(folder, name) or _compile(path, folder, name)))
    except OSError:
        pass  # a cache that cannot be written to, or whose files cannot be loaded from, is no reason to go without
    with tempfile.TemporaryDirectory(prefix="srgdqn-") as temporary:
        try:
            return ctypes.CDLL(str(_compile(path, Path(temporary), name)))
        except OSError as error:
            raise NoKernelError(f"the compiled kernel cannot be loaded ({error})") from error


def _kept(folder: Path, name: str) -> Path | None:
    """A kernel compiled earlier that is still what it was: to load a damaged one may end the process."""
    return next((file for file in sorted(folder.glob(f"{name}-*.so")) if file.name == _named(name, file)), None)


def _named(name: str, file: Path) -> str:
    """What a file is to be called, which tells its content."""
    return f"{name}-{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}.so"


def _compile(path: str, folder: Path, name: str) -> Path:
    # Written beside its place and moved there, so that nobody loads half of it.
    with tempfile.TemporaryDirectory(dir=folder) as beside:
        made = Path(beside) / name
        _run([path, *FLAGS, str(_FOLDER / "kernel.c"), "-o", str(made), "-lm"])
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
