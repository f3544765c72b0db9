"""Whether two machines compute the same bits: what they must have in common, and how they differ in words."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

from srgdqn.kernel.build import NoKernelError, toolchain
from srgdqn.runs.provenance import processor_fingerprint, provenance

_ROOT = Path(__file__).parents[1]
_WORDS = {
    "source": "another state of srgdqn's source",
    "versions": "other versions",
    "processor": "another kind of processor",
    "instruction_sets": "other instructions to compile for",
    "compiler": "another C compiler",
}


def node_identity() -> dict[str, Any]:
    """What the bits of a computation depend on here beside its settings, as plain values."""
    try:
        compiler = toolchain()
    except NoKernelError:
        compiler = None
    about = provenance()
    return {
        "source": _installation(),
        "versions": about["versions"],
        "processor": processor_fingerprint(),
        "instruction_sets": about["instruction_sets"],
        "compiler": compiler,
    }


@functools.cache
def _installation() -> str:
    """A digest of every source file of the package."""
    digest = hashlib.sha256()
    for path in sorted(each for each in _ROOT.rglob("*") if each.suffix in (".py", ".c", ".h")):
        digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def difference(here: dict[str, Any], there: dict[str, Any]) -> str | None:
    """How a machine there is unlike the one here, in words; None if it is not.

    >>> here = {"source": "a", "versions": {"jax": "0.10.2", "numpy": "2.4"}, "processor": "x", "compiler": None}
    >>> here["instruction_sets"] = ["avx2", "fma"]
    >>> difference(here, {**here, "versions": {"jax": "0.11.0", "numpy": "2.4"}})
    'other versions (jax 0.11.0 instead of 0.10.2)'
    """
    found = []
    for name, words in _WORDS.items():
        if here[name] == there[name]:
            continue
        details = ""
        if name == "versions":
            details = ", ".join(
                f"{package} {there[name].get(package)} instead of {version}"
                for package, version in here[name].items()
                if there[name].get(package) != version
            )
        elif name == "compiler":
            details = f"{there[name] or 'none'} instead of {here[name] or 'none'}"
        found.append(f"{words} ({details})" if details else words)
    return ", ".join(found) or None
