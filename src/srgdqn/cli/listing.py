"""`srgdqn list`: the tasks, algorithms, readings and estimators that there are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from srgdqn.cli.options import UserModules
from srgdqn.cli.parsing import as_text, parse
from srgdqn.config.algorithms import ALGORITHMS, READINGS
from srgdqn.config.checks import BUDGETS
from srgdqn.config.discovery import BUILT_IN_ESTIMATORS, COMPILED_TASKS, estimator_names, known_estimator
from srgdqn.config.estimator_numbers import numbers_of_estimator
from srgdqn.config.plugins import declared, package_of
from srgdqn.config.presets import HOST_PRESETS, PRESETS, host_preset
from srgdqn.errors import InputError
from srgdqn.learner.estimators import ESTIMATORS

_ESSENTIALS = ("hidden", "eta", "alpha", "batch_size", "inner_iterations", "gamma", "replay_capacity", "reward")


@dataclass(frozen=True)
class List:
    """Lists tasks with their presets, algorithms, sets of readings and estimators."""

    json: bool = False
    """Print the lists as JSON on standard output."""
    import_: UserModules = ()


def queries_formula(algorithm: str) -> str:
    """The gradient queries of one outer iteration of an algorithm.

    >>> queries_formula("srg-dqn"), queries_formula("dqn-sgd")
    ('N + 2bM', 'N')
    """
    composed = ALGORITHMS[algorithm].options
    if composed.get("single_step_matches") == "queries":
        return "N + 2bM"
    if composed["estimator"] == "none":
        return "N"
    chosen = ESTIMATORS[composed["estimator"]]
    return chosen.cost if chosen.per == "batch" else f"N + {chosen.cost}"


def direction_formula(estimator: str) -> str:
    """What the inner iterations of an estimator descend along."""
    return "no inner iterations: the full-batch step alone" if estimator == "none" else ESTIMATORS[estimator].formula


def estimator_formulas() -> dict[str, tuple[str, str]]:
    """The direction of every estimator, and the queries of its inner iterations; of an installed package's that cannot
    be loaded, why.
    """
    found = {}
    for name in estimator_names():
        try:
            known_estimator(name)
            found[name] = (direction_formula(name), "0" if name == "none" else ESTIMATORS[name].cost)
        except InputError as error:
            found[name] = (str(error), "")
    return found


def _left_out() -> str:
    """The estimators of installed packages that have the name of a built-in one, in words."""
    taken = [
        f"{name} of the package {package_of(point)}"
        for name in sorted(BUILT_IN_ESTIMATORS & declared().keys())
        for point in declared()[name]
    ]
    return f"; left out, as a built-in one has the name: {', '.join(taken)}" if taken else ""


def run(words: Sequence[str]) -> int:
    """Lists what there is."""
    asked = parse(List, words)
    if asked.json:
        print(json.dumps(contents(), indent=2, ensure_ascii=False))
        return 0
    _print()
    return 0


def contents() -> dict[str, Any]:
    """Everything that the command lists, in plain values."""
    return {
        "tasks": {task: {**preset, "rewards": list(COMPILED_TASKS[task].rewards)} for task, preset in PRESETS.items()},
        "environments": {name: host_preset(name) for name in HOST_PRESETS},
        "algorithms": {
            name: {"summary": algorithm.summary, "queries": queries_formula(name), "options": algorithm.options}
            for name, algorithm in ALGORITHMS.items()
        },
        "readings": READINGS,
        "estimators": {
            name: {
                "direction": direction,
                "queries": queries,
                "numbers": {number.name: asdict(number) for number in numbers_of_estimator(name).values()},
            }
            for name, (direction, queries) in sorted(estimator_formulas().items())
        },
    }


def _print() -> None:
    from srgdqn.cli.presentation import budget, print_table

    print_table(
        "Tasks",
        ("", *PRESETS),
        [
            ("budget", *(budget(preset) for preset in PRESETS.values())),
            *((name, *(as_text(preset[name]) for preset in PRESETS.values())) for name in _ESSENTIALS),
            (
                "other rewards",
                *(", ".join(r for r in t.rewards if r != t.preset["reward"]) for t in COMPILED_TASKS.values()),
            ),
        ],
        caption="presets, but for Acrobot's after the paper's Table 1; 'srgdqn train TASK --help' shows every option",
        numeric=False,
    )
    print_table(
        "Rewards",
        ("task", "reward", "formula"),
        [(name, reward, formula) for name, task in COMPILED_TASKS.items() for reward, formula in task.rewards.items()],
        numeric=False,
    )
    print_table(
        "Gymnasium's environments with presets",
        ("name", "budget", "what differs from the defaults"),
        [
            (
                name,
                budget(host_preset(name)),
                ", ".join(f"{n} {as_text(v)}" for n, v in own.items() if n not in BUDGETS),
            )
            for name, own in HOST_PRESETS.items()
        ],
        caption="any other id can be trained, too, with the defaults; options of an environment follow its id, as in "
        "'LunarLander-v3,enable_wind=true'",
        numeric=False,
    )
    print_table(
        "Algorithms",
        ("name", "queries", "what it does with a batch D"),
        [(name, queries_formula(name), algorithm.summary) for name, algorithm in ALGORITHMS.items()],
        caption="queries: gradients per outer iteration by the formula, with N = batch_size, M = inner_iterations, "
        "b = inner_batch",
        numeric=False,
    )
    print_table(
        "Readings of the paper",
        ("", *READINGS),
        [(name, *(as_text(chosen.get(name, "–")) for chosen in READINGS.values())) for name in READINGS["mnih"]],
        caption="what --readings sets, where the paper is silent or contradicts itself; –: the task's preset",
        numeric=False,
    )
    print_table(
        "Estimators",
        ("name", "queries", "direction"),
        [(name, queries or "–", direction or "–") for name, (direction, queries) in estimator_formulas().items()],
        caption=f"queries: gradients of all inner iterations by the formula{_left_out()}",
        numeric=False,
    )
    print_table(
        "Numbers of estimators",
        ("estimator", "number", "default", "meaning"),
        [
            (name, number.name, f"{number.default:g}", f"{number.meaning.rstrip('.')} ({number.expectation})")
            for name in estimator_names()
            for number in numbers_of_estimator(name).values()
        ],
        caption="options wherever the estimator is chosen, as in 'srgdqn train CartPole dqn-storm --a 0.3'",
        numeric=False,
    )
