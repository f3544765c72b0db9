"""What every option must be, by itself and beside the others, before any work starts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from srgdqn.config import Configuration
from srgdqn.config.coercion import coerce, shown
from srgdqn.config.task import OWN_OPTIONS, REWARDS
from srgdqn.errors import InputError, unknown

__all__ = [
    "BUDGETS",
    "ESTIMATORS",
    "RELATIONS",
    "RULES",
    "Relation",
    "Rule",
    "check",
    "check_option",
    "check_stored",
    "coerce",
]

# The options that say how long a round is: exactly one of them is given.
BUDGETS = ("steps", "outer_iterations", "episodes")

# The estimators that come with the package; users may register more.
ESTIMATORS = frozenset({"none", "sgd", "full", "svrg", "srg"})

# The counters of compiled programs are 32 bits wide.
_LARGEST_COUNT = 2**31 - 1

# Each is a part of the program that is compiled.
_MOST_LAYERS = 100


@dataclass(frozen=True)
class Rule:
    """What one option must be by itself; an option that is None is off and obeys no rule."""

    holds: Callable[[Any], bool]
    expectation: str


@dataclass(frozen=True)
class Relation:
    """What options must be beside each other; `problem` and `fix` are formatted with the attributes of `_view`."""

    holds: Callable[[SimpleNamespace], bool]
    problem: str
    fix: str


def check(configuration: Configuration, estimators: Collection[str] = ESTIMATORS) -> Configuration:
    """The configuration, with every value in its option's own type; an `InputError` where it could not be run.

    `estimators` are the names that the estimator may have.
    """
    configuration = _check_each(configuration)
    options = configuration.options()
    if options["estimator"] not in estimators:
        raise unknown("estimator", options["estimator"], estimators)
    view = _view(options)
    for relation in RELATIONS:
        if not relation.holds(view):
            raise InputError(f"{relation.problem.format(**vars(view))}. {relation.fix.format(**vars(view))}.")
    return configuration


def check_stored(configuration: Configuration) -> Configuration:
    """The same of a configuration that was run once, be it by another release: no option has a value that it cannot
    have, and there is one budget. What options are beside each other is not asked again.
    """
    configuration = _check_each(configuration)
    if sum(getattr(configuration.training, name) is not None for name in BUDGETS) != 1:
        raise InputError("it has not one budget. Give one of steps, outer_iterations and episodes.")
    return configuration


def _check_each(configuration: Configuration) -> Configuration:
    for label in ("algorithm", "readings"):
        if not isinstance(getattr(configuration, label), str):
            raise InputError(f"{label} is {shown(getattr(configuration, label))}, which is not a name. Give a string.")
    return configuration.with_options(
        {name: check_option(name, value) for name, value in configuration.options().items()}
    )


def check_option(name: str, given: Any) -> Any:
    """The value in its option's own type; an `InputError` where the option cannot have it."""
    value, rule = coerce(name, given), RULES.get(name)
    if rule is not None and not _obeys(rule, value):
        raise InputError(
            f"{name} is {shown(value)}, but must be {rule.expectation}. Give such a value, or leave {name} out."
        )
    return value


def _obeys(rule: Rule, value: Any) -> bool:
    if isinstance(value, float):
        # 1 - 1e-9 is below 1 and 1e-50 above 0, but not in a compiled program.
        return rule.holds(value) and rule.holds(_single_precision(value))
    return value is None or rule.holds(value)


def _single_precision(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded if abs(rounded) >= 2.0**-126 else 0.0  # compiled programs may flush subnormal numbers


def _view(options: dict[str, Any]) -> SimpleNamespace:
    """The options as attributes, and what follows from them."""
    view = SimpleNamespace(**options)
    extra = 2 * view.inner_batch * view.inner_iterations if view.single_step_matches == "queries" else 0
    view.batch_used = view.batch_size + extra
    view.first_step = -(-view.learning_starts // view.learning_frequency) * view.learning_frequency
    view.budgets = tuple(name for name in BUDGETS if options[name] is not None)
    view.budgets_shown = " and ".join(f"{name} = {options[name]}" for name in view.budgets)
    view.longest_episode = view.time_limit if view.time_limit is not None else view.episode_cap
    view.most_steps = _product(view.episodes, view.longest_episode)
    view.rewards = REWARDS.get(view.task, ("raw",))
    view.rewards_shown = ", ".join(view.rewards)
    return view


def _product(episodes: int | None, longest: int | None) -> float:
    return float("inf") if episodes is None or longest is None else episodes * longest


def _count(least: int) -> Rule:
    return Rule(lambda value: least <= value <= _LARGEST_COUNT, f"a whole number from {least} to {_LARGEST_COUNT}")


_NOT_NEGATIVE = Rule(lambda value: value >= 0, "0 or more")
_POSITIVE = Rule(lambda value: value > 0, "above 0, also in single precision")
_SHARE = Rule(lambda value: 0 <= value <= 1, "from 0 to 1")
_POSITIVE_SHARE = Rule(lambda value: 0 < value <= 1, "above 0 (also in single precision) and at most 1")
_DECAY = Rule(lambda value: 0 <= value < 1, "at least 0 and below 1 (also in single precision)")

RULES: dict[str, Rule] = {
    "reward_scale": Rule(lambda value: value != 0, "another number than 0, also in single precision"),
    "reward_clip": _POSITIVE,
    "time_limit": _count(1),
    "action_bins": Rule(lambda value: 2 <= value <= 1_000, "a whole number from 2 to 1000"),
    "hidden": Rule(
        lambda widths: len(widths) <= _MOST_LAYERS and all(_count(1).holds(width) for width in widths),
        f"widths from 1 to {_LARGEST_COUNT} each, of {_MOST_LAYERS} layers at most",
    ),
    "epsilon_start": _SHARE,
    "epsilon_end": _SHARE,
    "epsilon_fraction": _POSITIVE_SHARE,
    "replay_capacity": _count(1),
    "batch_size": _count(1),
    "gamma": _SHARE,
    "target_period": _count(1),
    "target_tau": _POSITIVE_SHARE,
    "huber_delta": _POSITIVE,
    "inner_iterations": _count(0),
    "inner_batch": _count(1),
    "eta": _NOT_NEGATIVE,
    "alpha": _NOT_NEGATIVE,
    "beta1": _DECAY,
    "beta2": _DECAY,
    "adam_epsilon": _POSITIVE,
    "clip_norm": _POSITIVE,
    "schedule_end": _SHARE,
    "steps": _count(1),
    "outer_iterations": _count(1),
    "episodes": _count(1),
    "episode_cap": _count(1),
    "rounds": _count(1),
    "environments": _count(1),
    "seed": Rule(lambda value: 0 <= value < 2**32, f"a whole number from 0 to {2**32 - 1}"),
    "learning_frequency": _count(1),
    "learning_starts": _count(1),
    "lanes": _count(1),
    "window": _count(1),
    "evaluation_interval": _count(1),
    "evaluation_episodes": _count(1),
    "evaluation_limit": _count(1),
}

_FIRST_STEP = (
    "with learning_frequency = {learning_frequency} and learning_starts = {learning_starts} "
    "the first one is made at step {first_step}"
)
_BATCH_USED = (
    "the batch of {batch_used} transitions (batch_size = {batch_size}, single_step_matches = {single_step_matches!r})"
)

RELATIONS: tuple[Relation, ...] = (
    Relation(
        lambda o: len(o.budgets) >= 1,
        "No budget was given, so that it is not known how long a round is",
        "Give one of steps, outer_iterations and episodes, such as steps = 100000",
    ),
    Relation(
        lambda o: len(o.budgets) <= 1,
        "{budgets_shown} were given, but a budget has one unit",
        "Keep one of steps, outer_iterations and episodes",
    ),
    Relation(
        lambda o: o.steps is None or o.steps >= o.first_step,
        "steps = {steps} is too short a budget for a single outer iteration: " + _FIRST_STEP,
        "Give steps = {first_step} or more, or lower learning_starts and learning_frequency",
    ),
    Relation(
        lambda o: o.most_steps >= o.first_step,
        "episodes = {episodes} of at most {longest_episode} steps are too short a budget for a single outer iteration: "
        + _FIRST_STEP,
        "Give more episodes or longer ones, or lower learning_starts and learning_frequency",
    ),
    Relation(
        lambda o: o.episodes is None or o.longest_episode is not None,
        "episodes = {episodes} may never be spent, because neither time_limit nor episode_cap ends an episode",
        "Give one of them, such as episode_cap = 2000, or a budget in steps",
    ),
    Relation(
        lambda o: o.learning_frequency <= o.replay_capacity,
        "learning_frequency = {learning_frequency} is more than replay_capacity = {replay_capacity}, so that "
        "transitions would be lost before any batch could have them",
        "Raise replay_capacity to {learning_frequency} or more, or lower learning_frequency",
    ),
    Relation(
        lambda o: o.learning_frequency % o.environments == 0,
        "learning_frequency = {learning_frequency} is not a multiple of environments = {environments}, so that an "
        "outer iteration would be due in the midst of their steps",
        "Give learning_frequency = {environments} or a multiple of it",
    ),
    Relation(
        lambda o: o.replay_capacity >= o.batch_used,
        "replay_capacity = {replay_capacity} is less than " + _BATCH_USED,
        "Raise replay_capacity to {batch_used} or more, or lower batch_size",
    ),
    Relation(
        lambda o: o.sampling == "with-replacement" or o.learning_starts >= o.batch_used,
        "learning_starts = {learning_starts} leaves too few transitions for " + _BATCH_USED + ", which sampling = "
        "{sampling!r} needs to be different ones",
        "Raise learning_starts to {batch_used} or more, lower batch_size, or give sampling = 'with-replacement'",
    ),
    Relation(
        lambda o: o.inner_sampling == "with-replacement" or o.inner_batch <= o.batch_size,
        "inner_batch = {inner_batch} is more than batch_size = {batch_size}, of which inner_sampling = "
        "{inner_sampling!r} picks different transitions",
        "Lower inner_batch to {batch_size} or less, or give inner_sampling = 'with-replacement'",
    ),
    Relation(
        lambda o: o.anchor_step or (o.estimator != "none" and o.inner_iterations > 0),
        "anchor_step is off and there are no inner iterations (estimator = {estimator!r}, inner_iterations = "
        "{inner_iterations}), so that nothing would be learned",
        "Switch anchor_step on, or give an estimator and inner_iterations = 1 or more",
    ),
    Relation(
        lambda o: o.single_step_matches == "nothing" or o.estimator == "none",
        "single_step_matches = {single_step_matches!r} is instead of inner iterations, but estimator = "
        "{estimator!r} makes them",
        "Give estimator = 'none', or single_step_matches = 'nothing'",
    ),
    Relation(
        lambda o: o.differentiation != "closed-form" or o.network == "mlp",
        "differentiation = 'closed-form' is for the built-in perceptron, but network = {network!r}",
        "Give differentiation = 'autodiff' or 'auto', or network = 'mlp'",
    ),
    Relation(
        lambda o: o.reward in o.rewards,
        "reward = {reward!r} is not one that {task} has",
        "Give one of: {rewards_shown}",
    ),
    Relation(
        lambda o: o.environments == 1 or o.task not in REWARDS,
        "environments = {environments} is for Gymnasium environments, and the compiled task {task} has one per round",
        "Leave environments out, or give more rounds",
    ),
    Relation(
        lambda o: o.action_bins is None or o.task not in REWARDS,
        "action_bins = {action_bins} is for Gymnasium environments with continuous actions, and those of the compiled "
        "task {task} are discrete",
        "Leave action_bins out",
    ),
    *(
        Relation(
            lambda o, owner=owner, option=option: (  # type: ignore[misc]
                o.task == owner or getattr(o, option) is None
            ),
            f"{option} = {{{option}!r}} is an option of {owner} alone, but task = {{task!r}}",
            f"Leave {option} out, or give task = {owner!r}",
        )
        for owner, options in OWN_OPTIONS.items()
        for option in options
    ),
    *(
        Relation(
            lambda o, owner=owner, option=option: o.task != owner or getattr(o, option) is not None,  # type: ignore[misc]
            f"{owner} needs {option}, which is None",
            f"Give {option} = {' or '.join(map(repr, choices))}",
        )
        for owner, options in OWN_OPTIONS.items()
        for option, choices in options.items()
    ),
)
