"""What names stand for: algorithms, compositions of an estimator, an Adam process or none, and what a step is; and sets
of readings, what is done where the paper is silent or contradicts itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from srgdqn.errors import InputError, unknown


@dataclass(frozen=True)
class Algorithm:
    """A named composition, and one sentence on what it does with a batch D."""

    summary: str
    options: dict[str, Any] = field(default_factory=dict)


def _inner(estimator: str, *, adam: bool) -> dict[str, Any]:
    return dict(estimator=estimator, adam_process=adam)


def _adam_steps(estimator: str) -> dict[str, Any]:
    return dict(estimator=estimator, adam_process=False, step="adam")


def _single(**options: Any) -> dict[str, Any]:
    return dict(estimator="none", adam_process=False, **options)


ALGORITHMS: dict[str, Algorithm] = {
    "srg-dqn": Algorithm(
        "Algorithm 1: a full-gradient step, M steps along the recursive gradient, then the Adam process.",
        _inner("srg", adam=True),
    ),
    "srg-dqn-no-adam": Algorithm("Algorithm 1 without its Adam process.", _inner("srg", adam=False)),
    "svr-dqn": Algorithm("Algorithm 1 with SVRG's direction in place of the recursive one.", _inner("svrg", adam=True)),
    "svr-dqn-no-adam": Algorithm("SVR-DQN without the Adam process.", _inner("svrg", adam=False)),
    "sgd-inner": Algorithm("Control: Algorithm 1's steps and picks along plain gradients.", _inner("sgd", adam=False)),
    "sgd-inner-adam": Algorithm("Control: the same, with the Adam process.", _inner("sgd", adam=True)),
    "dqn-sgd": Algorithm("DQN with SGD: one full-batch step η.", _single()),
    "dqn-sgd-17eta": Algorithm(
        "Control: one full-batch step (M + 1)η.",
        _single(single_step_matches="length"),
    ),
    "dqn-sgd-queries": Algorithm(
        "Control: one step η on N + 2bM transitions.",
        _single(single_step_matches="queries"),
    ),
    "dqn-gd": Algorithm("Control: M + 1 full-batch steps η.", _inner("full", adam=False)),
    "dqn-gd-adam": Algorithm("Control: M + 1 full-batch steps η, then the Adam process.", _inner("full", adam=True)),
    "dqn-adam": Algorithm("Adam once, on the full-batch gradient.", _single(step="adam")),
    "dqn-adam-repeated": Algorithm(
        "Control: Adam M + 1 times, each on the full-batch gradient.",
        _adam_steps("full"),
    ),
    "srg-adam-steps": Algorithm(
        "Adam M + 1 times: on the full-batch gradient, then along the recursive gradient.", _adam_steps("srg")
    ),
    "svr-adam-steps": Algorithm(
        "Adam M + 1 times: on the full-batch gradient, then along SVRG's direction.", _adam_steps("svrg")
    ),
    "sgd-adam-steps": Algorithm(
        "Control: Adam M + 1 times: on the full-batch gradient, then along plain gradients.", _adam_steps("sgd")
    ),
    "sgd-adam-steps-b2": Algorithm(
        "Control: the same with b = 2, which asks for as many gradients as srg-adam-steps does with b = 1.",
        dict(**_adam_steps("sgd"), inner_batch=2),
    ),
    "dqn-storm": Algorithm(
        "Adam once per batch, along STORM: a momentum of gradients that corrects what it remembers.",
        _adam_steps("storm"),
    ),
    "dqn-mars": Algorithm(
        "Adam once per batch, along MARS: the gradient corrected by its own change.", _adam_steps("mars")
    ),
}

# The four curves of the paper's Figure 2.
PAPER = ("dqn-sgd", "svr-dqn", "srg-dqn-no-adam", "srg-dqn")
# Every inner step is Adam's: in place of the paper's algorithms, not controls for them.
ADAM_STEPS = ("srg-adam-steps", "svr-adam-steps", "sgd-adam-steps", "sgd-adam-steps-b2")


_DOUBLE = "Give 'dqn-adam' with bootstrap = 'double' and target = 'hard' or 'polyak'."
_RAINBOW = (
    "Give 'dqn-adam' with its parts: bootstrap = 'double', target = 'hard', dueling, noisy, sampling = 'prioritised', "
    "n_step = 3, and loss = 'c51' with value_min and value_max."
)
_POLICY = "Leave the policy out: the network is chosen by the observations. The algorithm comes first: 'dqn-adam', say."
# What other libraries call an algorithm, or give in its place, and what to give here.
_ELSEWHERE = {
    "dqn": "Did you mean 'dqn-adam' (as it is mostly run) or 'dqn-sgd' (as in the paper)?",
    **dict.fromkeys(("ddqn", "double-dqn", "doubledqn"), _DOUBLE),
    "rainbow": _RAINBOW,
    **dict.fromkeys(("mlppolicy", "cnnpolicy", "multiinputpolicy"), _POLICY),
}


def algorithm(name: str) -> Algorithm:
    """The composition of that name."""
    if said := _ELSEWHERE.get(name.lower().replace("_", "-")):
        raise InputError(f"unknown algorithm {name!r}. {said}")
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]


# `corrected`, the default, is the smallest set of repairs that makes the paper coherent: every option's own default and
# a task's preset. `printed` follows the letter of the paper where that can be done: bootstrapping is never masked
# (lines 5, 9 and 11), the Adam process receives the raw gradient g_M (line 16), steps from θ_M and divides by the root
# of a norm (line 21). `mnih` is `corrected` with what "the DQN algorithm in Mnih 2015 was adopted as the main process"
# says: a hard target network and clipped errors.
_CORRECTED = dict(mask_terminal=True, adam_input="delta", adam_from="last", adam_denominator="elementwise")
READINGS: dict[str, dict[str, Any]] = {
    "corrected": _CORRECTED,
    "printed": dict(mask_terminal=False, adam_input="gradient", adam_from="previous", adam_denominator="norm"),
    "mnih": dict(**_CORRECTED, target="hard", target_period=100, loss="huber", huber_delta=1.0),
}


def readings(name: str) -> dict[str, Any]:
    """The options of the set of that name."""
    if name not in READINGS:
        raise unknown("set of readings", name, READINGS)
    return dict(READINGS[name])
