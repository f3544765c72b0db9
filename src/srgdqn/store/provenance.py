"""What a run's bits depend on beside its configuration: versions and the instruction set. No host names, no paths."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("srgdqn", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium")

# The extensions by which compiled programs differ, on x86 and on ARM.
INSTRUCTION_SETS = ("avx2", "avx512f", "fma", "asimd", "sve")


def provenance() -> dict[str, Any]:
    """Versions and the kind of machine, as JSON values; None for what is not installed or cannot be told."""
    model, flags = _processor()
    return {
        "source": source_digest(),
        "versions": {"python": platform.python_version(), **{package: _version(package) for package in PACKAGES}},
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": model,
        "instruction_sets": [name for name in INSTRUCTION_SETS if name in flags],
        "cores": os.cpu_count(),
    }


@functools.cache
def source_digest() -> str:
    """A digest of the package's own source files, by which results of two states of the code are told apart."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def processor_fingerprint() -> str:
    """Equal for two machines only if compiled code may move between them: their model and every extension agree."""
    model, flags = _processor()
    return hashlib.sha256(repr((platform.machine(), model, sorted(flags))).encode()).hexdigest()[:16]


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
