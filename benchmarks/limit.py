"""The limit: what training needs by arithmetic, what the machine could do, what it does, and where the rest goes.

    python benchmarks/limit.py [--quick] [--turns N] [--out FILE]

Operations are counted by formula (`arithmetic.py`) and by the compiler (`problems.py`). The machine's rates are
those of matrix products of training's own shapes, and of a large one. `TIMED` says what is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arithmetic import COUNTED
from limit_tables import panels, print_counts, print_machine, print_parts, print_training
from machine_rates import LARGE, PRODUCTS, Rates, measure_rates
from measuring import circumstances, pinned_to, spread, usable
from problems import counts_of, problem_of
from reporting import console, place_for, write_report
from shares import STAGES, Run, part_rows, share_row
from training_speed import kernels, steps_per_second

TIMED = (
    "Timed: one full chunk of lanes on one core, learning after every 16 steps (or never, for acting alone), without "
    "starting, compiling and evaluating. A part is what a block takes longer with it than without it. A share of small "
    "products' rate compares with the time that as many operations take in products of 20×20 weights."
)


class Budget(NamedTuple):
    """How much is measured."""

    turns: int
    seconds: float  # of each matrix product
    segments: int  # of each training run
    tasks: tuple[str, ...]
    hidden: tuple[tuple[int, ...], ...]


FULL = Budget(turns=3, seconds=0.5, segments=3, tasks=("MountainCar", "CartPole"), hidden=((20, 20), (20,)))
QUICK = Budget(turns=1, seconds=0.02, segments=1, tasks=("MountainCar",), hidden=((20,),))


class Turn(NamedTuple):
    """What was measured once."""

    one_core: Rates
    all_cores: Rates
    speeds: dict[Run, float]  # steps per second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one task, one network, one short turn: does it run?")
    parser.add_argument("--turns", type=int, help="how often each is measured")
    parser.add_argument("--out", type=Path, default=place_for(__file__))
    options = parser.parse_args()
    budget = QUICK if options.quick else FULL
    if options.turns is not None:
        budget = budget._replace(turns=options.turns)

    cores = usable()
    # Before anything is computed: jax's threads stay where the thread that starts them is.
    with pinned_to(cores[:1]):
        counts = [counts_of(task, hidden, name) for task, hidden in _networks(budget) for name in COUNTED]
        print_counts(counts)
        turns = [_turn(budget, cores) for _ in range(budget.turns)]

    machine = [_machine_row(product.name, turns) for product in PRODUCTS]
    print_machine(machine)
    # A share is that of what the machine is known to do, whoever makes it.
    rates = {row["product"]: max(each["median"] for each in row["one_core"].values()) for row in machine}
    training, parts = [], []
    speeds = {run: [turn.speeds[run] for turn in turns] for run in turns[0].speeds}
    for run in speeds:
        if run.learning and run.algorithm in STAGES:
            problem = problem_of(run.task, run.hidden, run.algorithm)
            training.append(share_row(run, speeds[run], problem.parts, problem.steps, rates))
            parts += part_rows(run, speeds, problem.parts, problem.steps, rates)
    print_training(training)
    print_parts(parts)
    console.print(TIMED)
    report = {
        "circumstances": circumstances(),
        "timed": TIMED,
        "budget": budget._asdict(),
        "counts": counts,
        "machine": machine,
        "training": training,
        "parts": parts,
    }
    write_report(options.out, report, panels(machine, training, rates[LARGE.name]))


def _networks(budget: Budget) -> Iterator[tuple[str, tuple[int, ...]]]:
    for task in budget.tasks:
        for hidden in budget.hidden:
            yield task, hidden


def _turn(budget: Budget, cores: Sequence[int]) -> Turn:
    return Turn(
        measure_rates(cores[:1], budget.seconds),
        measure_rates(cores, budget.seconds),
        {run: _speed(run, budget.segments) for run in _runs(budget)},
    )


def _runs(budget: Budget) -> Iterator[Run]:
    stages = dict.fromkeys(stage for stages in STAGES.values() for stage in stages.values())
    for task, hidden in _networks(budget):
        for kernel in kernels():
            yield from (Run(task, hidden, kernel, *stage) for stage in stages)


def _speed(run: Run, segments: int) -> float:
    options = dict(hidden=run.hidden, **kernels()[run.kernel])
    return steps_per_second(run.task, run.algorithm, segments=segments, learning=run.learning, **options)


def _machine_row(product: str, turns: Sequence[Turn]) -> dict[str, Any]:
    def spreads(rates: Sequence[Rates]) -> dict[str, Any]:
        return {library: spread([turn[product][library] for turn in rates]) for library in rates[0][product]}

    return {
        "product": product,
        "one_core": spreads([turn.one_core for turn in turns]),
        "all_cores": spreads([turn.all_cores for turn in turns]),
    }


if __name__ == "__main__":
    main()
