"""What the benchmarks share: cores to pin to, spreads over turns, and on what it was measured."""

from __future__ import annotations

import datetime
import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from srgdqn.runs.provenance import provenance

PEERS = ("torch", "stable_baselines3", "sbx-rl", "rejax", "gymnax", "flax")


def usable() -> tuple[int, ...]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


@contextmanager
def pinned_to(cores: Sequence[int]) -> Iterator[None]:
    """Pins this thread, and every process that it starts meanwhile, to some cores, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def spread(turns: Sequence[float]) -> dict[str, Any]:
    """The median over turns, and between what it lies.

    >>> spread([3.0, 1.0, 2.0])["median"]
    2.0
    """
    return {"median": statistics.median(turns), "lowest": min(turns), "highest": max(turns), "turns": list(turns)}


def without_a_cache_of_programs() -> dict[str, str]:
    """The environment in which every process compiles for itself, because compiling is measured, too."""
    return {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}


def circumstances() -> dict[str, Any]:
    """The machine, the versions and the day."""
    return {
        **provenance(),
        "peers": {package: _version(package) for package in PEERS},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "usable_cores": len(usable()),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
