"""What a run's bits depend on beside its configuration: versions and the instruction set. No host names, no paths."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from srgdqn.runs.versions import identity

PACKAGES = ("srgdqn", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium")

LOCAL = "local"
"""What the engine is called that runs everything on this machine: on one thread, or in one process, per core."""

# The extensions by which compiled programs differ, on x86 and on ARM.
INSTRUCTION_SETS = ("avx2", "avx512f", "fma", "asimd", "sve")

# What XLA_FLAGS=--xla_cpu_max_isa=… leaves of them, where the name is known to leave some out.
_MOST_ISA = re.compile(r"--xla_cpu_max_isa=\"?(\w+)")
_LEFT_BY_ISA = {"SSE4_2": (), "AVX": (), "AVX2": ("avx2", "fma")}


def provenance(computation: str = "training") -> dict[str, Any]:
    """Versions and the kind of machine, as JSON values; None for what is not installed or cannot be told.

    `computation` is what made the result, by its name in `versions.VERSIONS`.
    """
    model, flags = _processor()
    return {
        "computation": identity(computation),
        "versions": {"python": platform.python_version(), **{package: _version(package) for package in PACKAGES}},
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": model,
        "instruction_sets": _instruction_sets(flags),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
    }


OF_MACHINES = ("computation", "versions", "machine", "instruction_sets", "compiler")
"""What bits depend on beside what is asked for: another release or machine has others."""
OF_RUNS = ("precision", "user_code")
"""What is asked for beside a configuration: the precision, and the identity of the user's code."""


def what_bits_depend_on(about: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a run's provenance that two runs must share to have the same bits."""
    code = (about.get("inputs") or {}).get("user_code") or {}
    return {**{name: about.get(name) for name in (*OF_MACHINES, *OF_RUNS)}, "user_code": code}


def stale(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Why what was made then is not what would be made now, from what bits depend on; None if it is."""
    if any(then[name] != now[name] for name in OF_MACHINES):
        return "it was made by another version or on another kind of machine"
    if any(then[name] != now[name] for name in OF_RUNS):
        return "it was made in another precision, or with another network, estimator or environment of yours"
    reason = unidentified(now)
    return None if reason is None else f"whether it was made with the same cannot be told: {reason}"


def unidentified(about: Mapping[str, Any]) -> str | None:
    """Why the user's code equals none, not even itself, from what bits depend on; None if it can be compared."""
    for name, part in about["user_code"].items():
        if "unidentified" in part:
            return f"of your {name}, {part['unidentified']}"
    return None


def _instruction_sets(flags: frozenset[str]) -> list[str]:
    """The extensions that programs are compiled for: the processor's, but for those that XLA is told not to use."""
    cap = _MOST_ISA.search(os.environ.get("XLA_FLAGS", ""))
    left = INSTRUCTION_SETS if cap is None else _LEFT_BY_ISA.get(cap[1].upper(), INSTRUCTION_SETS)
    return [name for name in left if name in flags]


def _memory_gib() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (AttributeError, OSError, ValueError):
        return None


def processor_fingerprint() -> str:
    """Equal for two machines only if compiled code may move between them: their model and every extension agree."""
    model, flags = _processor()
    return hashlib.sha256(repr((platform.machine(), model, sorted(flags))).encode()).hexdigest()[:16]


@functools.cache  # looking it up reads files, which takes longer than a short run may
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str | None, frozenset[str]]:
    """The first processor's model and flags."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or None, frozenset()
    fields = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = fields.get("flags") or fields.get("features") or ""
    return fields.get("model name") or platform.processor() or None, frozenset(flags.split())
