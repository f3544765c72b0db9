"""When an option has an effect, for those that need another. One that a user gives and that does nothing is refused: it
is a mistake about what runs. Names, presets and stored configurations may carry such options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from srgdqn.config.discovery import ESTIMATORS
from srgdqn.config.options import Configuration, option_names
from srgdqn.errors import InputError, shown


class Effect(NamedTuple):
    """What decides whether some options have an effect."""

    options: str
    when: Callable[[SimpleNamespace], bool]
    deciding: str  # the options that it depends on
    needed: str  # to give, so that there is one


def _by_adam(o: SimpleNamespace) -> bool:
    return o.step == "adam" or o.adam_process


def _with_inner_iterations(o: SimpleNamespace) -> bool:
    return o.estimator != "none" and not _per_batch(o) and o.inner_iterations > 0


def _per_batch(o: SimpleNamespace) -> bool:
    chosen = ESTIMATORS.get(o.estimator)
    return chosen is not None and chosen.per == "batch"


def _with_picks(o: SimpleNamespace) -> bool:
    return _with_inner_iterations(o) and o.estimator != "full"


def _with_directions(o: SimpleNamespace) -> bool:
    return _per_batch(o) or _with_inner_iterations(o)


def _with_coefficient(o: SimpleNamespace) -> bool:
    chosen = ESTIMATORS.get(o.estimator)
    return chosen is not None and chosen.coefficient and _with_directions(o)


_PICKS = "an estimator with a direction for every pick from D (srgdqn list shows them)"
_INNER = f"{_PICKS}, and inner_iterations = 1 or more"

# M is not among them: like N it is a size that comparisons give to all of their algorithms, as Table 1 does.
EFFECTS = (
    Effect("target_tau", lambda o: o.target == "polyak", "target", "target = 'polyak'"),
    Effect(
        "target_period",
        lambda o: o.target == "hard" and o.target_update_interval is None,
        "target target_update_interval",
        "target = 'hard' without target_update_interval",
    ),
    Effect("huber_delta", lambda o: o.loss == "huber", "loss", "loss = 'huber'"),
    Effect("hl_gauss_sigma", lambda o: o.loss == "hl-gauss", "loss", "loss = 'hl-gauss'"),
    Effect("atoms", lambda o: o.loss in ("c51", "hl-gauss"), "loss", "loss = 'c51' or 'hl-gauss'"),
    Effect(
        "munchausen_share munchausen_temperature munchausen_floor",
        lambda o: o.bootstrap == "munchausen",
        "bootstrap",
        "bootstrap = 'munchausen'",
    ),
    Effect("reward_alpha", lambda o: o.reward_estimation, "reward_estimation", "reward_estimation = True"),
    Effect("noisy_sigma", lambda o: o.noisy, "noisy", "noisy = True"),
    Effect(
        "priority_exponent importance_exponent priority_floor",
        lambda o: o.sampling == "prioritised",
        "sampling",
        "sampling = 'prioritised'",
    ),
    Effect("eta", lambda o: o.step == "gradient", "step", "step = 'gradient', or alpha for Adam's step size"),
    Effect(
        "alpha beta1 beta2 adam_epsilon adam_denominator",
        _by_adam,
        "step adam_process",
        "step = 'adam' or adam_process = True",
    ),
    Effect("adam_from", lambda o: o.adam_process, "adam_process", "adam_process = True"),
    Effect(
        "adam_input",
        lambda o: o.adam_process and _with_directions(o),
        "adam_process estimator inner_iterations",
        "adam_process = True, an estimator, and inner_iterations = 1 or more",
    ),
    Effect("schedule_end", lambda o: o.schedule != "constant", "schedule", "schedule = 'linear' or 'cosine'"),
    Effect(
        "coefficient",
        _with_coefficient,
        "estimator inner_iterations",
        "an estimator that has c in its formula (srgdqn list shows them), and inner_iterations = 1 or more",
    ),
    Effect(
        "inner_batch",
        lambda o: o.single_step_matches == "queries" or _with_picks(o),
        "estimator single_step_matches inner_iterations",
        _INNER,
    ),
    Effect("inner_sampling", _with_picks, "estimator inner_iterations", _INNER),
    Effect("anchor_step", lambda o: not _per_batch(o), "estimator", _PICKS),
    Effect("episode_cap", lambda o: o.episodes is not None, "episodes", "a budget in episodes"),
)


def check_effects(typed: Mapping[str, Any], configurations: Sequence[Configuration]) -> None:
    """An `InputError` if an option that a user typed has an effect in none of the configurations. Not of options that
    are switched off (None), nor where all were given, as then a stored configuration was.
    """
    if typed.keys() >= option_names().keys() - {"task"}:
        return
    options = [SimpleNamespace(**each.options()) for each in configurations]
    for effect in EFFECTS:
        if any(map(effect.when, options)):
            continue
        for name in effect.options.split():
            if name in typed and typed[name] not in (None, "none"):
                raise InputError(
                    f"{name} = {shown(typed[name])} has no effect with {_reasons(effect, options)}. Give "
                    f"{effect.needed}, or leave {name} out."
                )


def _reasons(effect: Effect, options: Collection[SimpleNamespace]) -> str:
    """What the deciding options are.

    >>> _reasons(EFFECTS[0], [SimpleNamespace(target="hard"), SimpleNamespace(target="outer")])
    "target = 'hard' or 'outer'"
    """
    values = {name: dict.fromkeys(repr(getattr(o, name)) for o in options) for name in effect.deciding.split()}
    return " and ".join(f"{name} = {' or '.join(each)}" for name, each in values.items())
