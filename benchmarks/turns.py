"""Turns: everything is measured once in each, because a shared machine's speed drifts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from arrangements import ContenderError, Measurement, measure
from reporting import console
from standings import Entry


class Budget(NamedTuple):
    """How much is measured."""

    turns: int
    steps: int  # of a round
    seconds: float | None  # of learning that are timed, if not every round to its end
    limit: float  # seconds after which a contender is given up
    tasks: tuple[str, ...]


def asked(
    about: str | None, names: Sequence[str], *, full: Budget, quick: Budget, out: Path
) -> tuple[Budget, list[str], Path]:
    """What the command line asks for: the budget, the names of those to be measured, and where results are written."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one turn and tiny budgets: does it run?")
    parser.add_argument("--turns", type=int, help="how often each is measured")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--out", type=Path, default=out)
    options = parser.parse_args()
    budget = quick if options.quick else full
    return budget._replace(turns=options.turns or budget.turns), options.only, options.out


def measure_in_turns(
    entries: Sequence[Entry], budget: Budget, *, also: Callable[[], None] = lambda: None
) -> tuple[dict[Entry, list[Measurement]], dict[Entry, str]]:
    """The measurements of every entry, and why one has none, or no more. `also` is called in every turn, too."""
    measured: dict[Entry, list[Measurement]] = {entry: [] for entry in entries}
    failures: dict[Entry, str] = {}
    for turn in range(budget.turns):
        for entry in entries:
            if entry in failures:
                continue
            try:
                measurement = _measure(entry, budget)
            except ContenderError as failure:
                failures[entry] = str(failure)
                outcome = f"absent: {failure}"
            else:
                measured[entry].append(measurement)
                outcome = f"{measurement.steps_per_second:,.0f} steps/s"
            place = f"{entry.task} · {entry.contender.name} · {entry.arrangement.rounds} · {entry.arrangement.name}"
            console.print(f"turn {turn + 1} of {budget.turns} · {place}: {outcome}", highlight=False)
        also()
    return measured, failures


def absences(failures: Mapping[Entry, str]) -> list[dict[str, str]]:
    """A row for everyone who could not be measured."""
    return [
        {"task": task, "contender": contender.name, "arrangement": arrangement.name, "reason": reason}
        for (task, contender, arrangement), reason in failures.items()
    ]


def print_absences(absent: Sequence[Mapping[str, str]]) -> None:
    """Says who is missing, and why."""
    for each in absent:
        console.print(f"absent: {each['contender']} ({each['task']}, {each['arrangement']}): {each['reason']}")


def _measure(entry: Entry, budget: Budget) -> Measurement:
    job = ["--task", entry.task, "--steps", str(budget.steps)]
    if budget.seconds is not None:
        job += ["--seconds", str(budget.seconds)]
    return measure(
        entry.contender.module,
        entry.arrangement,
        (*job, *entry.contender.arguments),
        environment=entry.contender.environment,
        limit=budget.limit,
    )
