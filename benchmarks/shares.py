"""What training makes of the machine's rates: as a whole, and part by part."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from arithmetic import ACTING, ADAM, FULL_BATCH, INNER, Operations
from machine_rates import FEW_ROWS, LARGE, ONE_STEP, WEIGHT_GRADIENT, WHOLE_BATCH
from measuring import spread


class Run(NamedTuple):
    """What is trained, and whether it learns or only acts."""

    task: str
    hidden: tuple[int, ...]
    kernel: str
    algorithm: str
    learning: bool = True


# Each algorithm's parts in the order in which they are added, and what is trained with all the parts so far.
STAGES: dict[str, dict[str, tuple[str, bool]]] = {
    "srg-dqn": {
        ACTING: ("srg-dqn", False),
        FULL_BATCH: ("dqn-sgd", True),
        INNER: ("srg-dqn-no-adam", True),
        ADAM: ("srg-dqn", True),
    },
    "dqn-adam": {ACTING: ("dqn-adam", False), FULL_BATCH: ("dqn-adam", True)},
}


def seconds_at(rates: Mapping[str, float], part: str, operations: Operations) -> float:
    """How long a part's operations would take at the rates of matrix products of its shapes."""
    shape = {ACTING: ONE_STEP, INNER: FEW_ROWS}.get(part, WHOLE_BATCH)
    gradients = WEIGHT_GRADIENT if shape is WHOLE_BATCH else shape
    others = operations.passes + operations.elementwise
    return others / rates[shape.name] + operations.weight_gradients / rates[gradients.name]


def share_row(
    run: Run, speeds: Sequence[float], parts: Mapping[str, Operations], steps: int, rates: Mapping[str, float]
) -> dict[str, Any]:
    """How much of the rates a run gets, given its steps per second in every turn and what a block of `steps` needs."""
    operations = sum(part.total for part in parts.values())
    speed = spread(speeds)
    per_second = spread([each / steps * operations for each in speeds])
    ideal = sum(seconds_at(rates, name, part) for name, part in parts.items())
    return {
        **run._asdict(),
        "steps_per_second": speed,
        "operations_per_block": operations,
        "operations_per_second": per_second,
        "share_of_small_products": ideal * speed["median"] / steps,
        "share_of_peak": per_second["median"] / rates[LARGE.name],
    }


def part_rows(
    run: Run,
    speeds: Mapping[Run, Sequence[float]],
    parts: Mapping[str, Operations],
    steps: int,
    rates: Mapping[str, float],
) -> list[dict[str, Any]]:
    """A row per part: how much longer a block takes, by medians, once the part is added to those before it.

    A part that takes no longer than the noise has no rates.
    """
    until = {
        part: steps / statistics.median(speeds[run._replace(algorithm=algorithm, learning=learning)])
        for part, (algorithm, learning) in STAGES[run.algorithm].items()
    }
    rows, before = [], 0.0
    for part, now in until.items():
        seconds, before = now - before, now
        rows.append(
            {
                **run._asdict(),
                "part": part,
                "seconds": seconds,
                "share": seconds / until[list(until)[-1]],
                "operations": parts[part].total,
                "operations_per_second": parts[part].total / seconds if seconds > 0 else None,
                "share_of_small_products": seconds_at(rates, part, parts[part]) / seconds if seconds > 0 else None,
            }
        )
    return rows
