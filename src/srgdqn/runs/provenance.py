"""What a run stores about itself: versions, the kind of machine, its inputs. No host names, no paths."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from srgdqn.config import Configuration
from srgdqn.errors import InputError, shown
from srgdqn.runs import configurations

VERSIONS = {
    "training": 1,  # tasks, learner and rounds: by XLA's programs and by the kernel
    "host": 1,  # rounds in ordinary Gymnasium environments, which have the same learner
    "measurement.anchors": 1,
    "measurement.dose_errors": 1,
    "measurement.exact_anchors": 1,
    "measurement.gradient_spread": 1,
    "measurement.step_times": 1,
    "measurement.theorem_1": 1,
    "claims": 2,  # claims, rules, statistics, margins, and what is run and measured for verdicts
}
"""The versions of what is computed, by which stored results are compared.

A version is raised by hand when the bits of its computation change, and only then: `tests/runs/test_versions.py`
compares them with `tests/golden_bits.json`. Moving or rewording a file changes no version.
"""


def version_of(computation: str) -> str:
    """The computation with its version; and with training's, on which the others but the claims depend.

    >>> version_of("training")
    'training 1'
    >>> version_of("measurement.anchors")
    'measurement.anchors 1, training 1'
    """
    names = [computation] if computation in ("training", "claims") else [computation, "training"]
    return ", ".join(f"{name} {VERSIONS[name]}" for name in names)


PACKAGES = ("srgdqn", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium")

LOCAL = "local"
"""What the engine is called that runs everything on this machine: on one thread, or in one process, per core."""

# The extensions by which compiled programs differ, on x86 and on ARM.
INSTRUCTION_SETS = ("avx2", "avx512f", "fma", "asimd", "sve")

# What XLA_FLAGS=--xla_cpu_max_isa=… leaves of them, where the name is known to leave some out.
_MOST_ISA = re.compile(r"--xla_cpu_max_isa=\"?(\w+)")
_LEFT_BY_ISA = {"SSE4_2": (), "AVX": (), "AVX2": ("avx2", "fma")}


def provenance(computation: str = "training") -> dict[str, Any]:
    """Versions and the kind of machine, as JSON values; None for what is not installed or unknown.

    `computation` is what made the result, by its name in `VERSIONS`.
    """
    model, flags = _processor()
    return {
        "computation": version_of(computation),
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
    return None if reason is None else f"it cannot be compared with what would be made now: {reason}"


def unidentified(about: Mapping[str, Any]) -> str | None:
    """Why the user's code equals none, not even itself, from what bits depend on; None if it can be compared."""
    for name, part in about["user_code"].items():
        if "unidentified" in part:
            return f"of your {name}, {part['unidentified']}"
    return None


def _instruction_sets(flags: frozenset[str]) -> list[str]:
    """The extensions that programs are compiled for: the processor's, but for those that XLA must not use."""
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


# What a result was computed from, and its hash

_LENGTH = 16  # letters of a digest


def inputs_of(configuration: Configuration, user_code: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The inputs of a run, as JSON values: the digest of its configuration, the identity of the user's code by part
    (`training.user_code`), and the `digest` of both.
    """
    text = configurations.dumps(configuration)
    return hashed({"configuration": digest_of_bytes(text.encode()), "user_code": dict(user_code or {})})


def hashed(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs that are JSON values, with the digest of all of them."""
    return {"digest": digest_of_bytes(json.dumps(inputs, sort_keys=True).encode()), **inputs}


def digest_of_bytes(data: bytes) -> str:
    """The digest by which inputs are compared."""
    return hashlib.sha256(data).hexdigest()[:_LENGTH]


# What is read back: of the right types, wherever it comes from

# No count of anything is larger: they are 32 bits wide where they are used.
_LARGEST = 2**31 - 1

NUMBER_TYPES = frozenset({"bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))}) | {
    "float16",
    "float32",
    "float64",
}
"""What the numbers in an action may be."""


def check_metadata(about: Mapping[str, Any]) -> None:
    """An `InputError` if something stored about a run or an agent is not of its kind; nothing has to be there."""
    for name, (holds, kind) in _KINDS.items():
        if name in about and not holds(about[name]):
            raise InputError(f"its {name} is {shown(about[name])}, which is not {kind}")


def required(about: Mapping[str, Any], name: str) -> Any:
    """What is stored under a name; an `InputError` where nothing is."""
    if name not in about:
        raise InputError(f"this run has no {name} stored with it, so that no policy can be made of it. Train it again.")
    return about[name]


def is_count(value: Any, least: int = 0) -> bool:
    """Whether it is a whole number that can count something."""
    return type(value) is int and least <= value <= _LARGEST


def _is_positive(value: Any) -> bool:
    return is_count(value, 1)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 8 and all(map(_is_positive, value))


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _are_versions(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def are_inputs(value: Any) -> bool:
    """Whether a value from a file has an object for each part of the user's code."""
    code = value.get("user_code", {}) if isinstance(value, dict) else None
    return isinstance(code, dict) and all(isinstance(part, dict) for part in code.values())


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "observation_size": (_is_positive, "a number of numbers"),
    "observation_kind": (_is_text, "a name"),
    "observation_shape": (_is_shape, "a shape"),
    "observations": (lambda value: isinstance(value, dict), "an object"),
    "actions": (_is_positive, "a number of actions"),
    "action_type": (lambda value: _is_text(value) and value in (None, *NUMBER_TYPES), "a type of numbers"),
    "action_table": (lambda value: isinstance(value, list) and len(value) > 0, "a list of actions"),
    "evaluation_limit": (_is_positive, "a number of steps"),
    "interrupted": (lambda value: isinstance(value, bool), "true or false"),
    "versions": (_are_versions, "names and versions"),
    "inputs": (are_inputs, "an object with an object per part"),
    "instruction_sets": (_are_texts, "a list of names"),
    **dict.fromkeys(("computation", "system", "machine", "processor", "precision", "backend"), (_is_text, "a text")),
}
