"""The versions of what is computed, by which stored results are told apart.

A version is raised by hand when the bits of its computation change, and only then: `tests/runs/test_versions.py` compares
them with `tests/golden_bits.json`. Moving or rewording a file changes no version.
"""

from __future__ import annotations

VERSIONS = {
    "training": 1,  # tasks, learner and rounds: by XLA's programs and by the kernel
    "host": 1,  # rounds in ordinary Gymnasium environments, which have the same learner
    "measurement.anchors": 1,
    "measurement.dose_response": 1,
    "measurement.exact_anchors": 1,
    "measurement.gradient_spread": 1,
    "measurement.step_times": 1,
    "measurement.theorem_1": 1,
    "claims": 1,  # claims, rules, statistics, margins, and what is run and measured for verdicts
}


def identity(computation: str) -> str:
    """The computation with its version; and with training's, on which the others but the claims depend.

    >>> identity("training")
    'training 1'
    >>> identity("measurement.anchors")
    'measurement.anchors 1, training 1'
    """
    names = [computation] if computation in ("training", "claims") else [computation, "training"]
    return ", ".join(f"{name} {VERSIONS[name]}" for name in names)
