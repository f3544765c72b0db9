"""Programs run where no network is but loopback, and where no process outlives them: Ray listens wherever it can."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_TESTS = Path(__file__).parent
_UP = 'ip link set lo up && exec "$@"'


def _fence() -> list[str]:
    """The command that runs another in namespaces of its own, of networks and of processes."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    spaces = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return ["unshare", *as_root, *spaces, "sh", "-c", _UP, "sh"]


@functools.cache
def no_fence() -> str | None:
    """Why there can be no such namespaces here; None if there can."""
    missing = [name for name in ("unshare", "ip") if shutil.which(name) is None]
    if missing:
        return f"there is no {' and no '.join(missing)} on this machine (Debian: util-linux, iproute2)"
    tried = subprocess.run([*_fence(), "true"], capture_output=True, text=True, timeout=30, check=False)
    return None if tried.returncode == 0 else f"no network namespace can be made here: {tried.stderr.strip()}"


def need_a_fence() -> None:
    """Skips what cannot be confined to this machine, and what needs Ray where there is none."""
    reason = "Ray is not installed" if find_spec("ray") is None else no_fence()
    if reason is not None:
        pytest.skip(reason)


@contextlib.contextmanager
def ray_folder() -> Iterator[Path]:
    """Where Ray has its sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def run_fenced(
    words: Sequence[str | Path], *, seconds: float = 300.0, surroundings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs Python with some words behind the fence; everything that it started ends with it."""
    with ray_folder() as folder:
        known = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        path = os.pathsep.join([str(_TESTS), *filter(None, [known.get("PYTHONPATH")])])
        fenced = {"RAY_TMPDIR": str(folder), "HOME": str(folder), "SRGDQN_CACHE": _cache(), "PYTHONPATH": path}
        return subprocess.run(
            [*_fence(), sys.executable, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=seconds,
            env={**known, **fenced, **(surroundings or {})},
            check=False,
        )


def _cache() -> str:
    """Where compiled programs are stored; it would be below the home folder, which is another behind the fence."""
    chosen = os.environ.get("SRGDQN_CACHE")
    return chosen or str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "srgdqn")


def seen_behind_the_fence(program: Path, scenario: str, folder: Path, *, seconds: float = 300.0) -> dict[str, Any]:
    """What a program of scenarios saw in one of them. It prints that as JSON and nothing else, whoever dies: what a
    command prints may be read by a program.
    """
    need_a_fence()
    done = run_fenced([program, scenario, folder], seconds=seconds)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen
