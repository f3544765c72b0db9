"""Rules that users may exchange: how D is drawn from the replay, and the value of S' in the target y.

A rule is a function, registered under a name that the option `sampling` or `bootstrap` then may have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from srgdqn.config.discovery import BOOTSTRAPS, OWN_RULES, SAMPLINGS
from srgdqn.errors import InputError
from srgdqn.learner.estimators import ESTIMATORS, own_estimators, place_of

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

    from srgdqn.learner.networks import Parameters


class Drawing(NamedTuple):
    """What a rule for drawing D is given."""

    rows: int  # to draw
    stored: Int[Array, ""]  # transitions that may be drawn
    words: UInt32[Array, " rows"]  # as many random 32-bit words
    key: PRNGKeyArray


class Drawn(NamedTuple):
    """The transitions that make up D, by age (0 is the newest), and their weights in F_D where these are not all 1."""

    ages: Int[Array, " rows"]
    weights: Float[Array, " rows"] | None = None


SamplingRule = Callable[[Drawing], Drawn]

Bootstrap = Callable[[Callable[["Parameters | None"], "Float[Array, 'rows actions']"], Any, Any], Any]
"""(q, frozen, online) -> the values of S'. `q(θ)` gives Q(S', ·; θ); `frozen` are the parameters behind y, and `online`
is θ_0. With target = 'current' both are None, and `q` has the present θ. With target_networks above 1 `frozen` are
copies with an axis of their own first, and `q` gives the mean of theirs. Actions that are not allowed in S'
(`action_masks`) have a Q-value of -1e30.
"""


def register_sampling(name: str, rule: SamplingRule) -> None:
    """Makes a rule for drawing D known as `sampling=name`."""
    _register("sampling", name, rule, SAMPLINGS)


def register_bootstrap(name: str, rule: Bootstrap) -> None:
    """Makes a rule for the value of S' in the target known as `bootstrap=name`."""
    _register("bootstrap", name, rule, BOOTSTRAPS)


def _register(option: str, name: str, rule: Any, built_in: tuple[str, ...]) -> None:
    if not callable(rule):
        raise InputError(f"the rule {name!r} for {option} is a {type(rule).__name__}, not a function. Give a function.")
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InputError(f"the name of a rule for {option} is {name!r}. Give a string of printable characters.")
    known = OWN_RULES[option].get(name)
    same = known is not None and place_of(known) == place_of(rule)
    if name in built_in or (known is not None and not same):
        raise InputError(f"there already is a rule for {option} called {name!r}. Give the new one another name.")
    OWN_RULES[option][name] = rule


def own_parts() -> dict[tuple[str, str], Any]:
    """The estimators and rules that users registered, by option and name: another process does not know them."""
    rules = {(option, name): rule for option, named in OWN_RULES.items() for name, rule in named.items()}
    return {**{("estimator", name): each for name, each in own_estimators().items()}, **rules}


def make_known(parts: Mapping[tuple[str, str], Any]) -> None:
    """Registers what `own_parts` returned in the process that this one works for, which may have changed since."""
    for (option, name), part in parts.items():
        (ESTIMATORS if option == "estimator" else OWN_RULES[option])[name] = part
