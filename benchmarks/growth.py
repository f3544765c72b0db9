"""Growth: how the time of a step and the peak memory grow with rounds, layers, batches, inner iterations and the rest.

    python benchmarks/growth.py [--quick] [--out FILE]

SRG-DQN on MountainCar, one quantity varied at a time; every point in a process of its own (`growth_point.py` says what
it measures). Exponents are fitted to the upper half of each range.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from growth_figure import MEASURES, Curve, draw_growth
from measuring import circumstances, usable, without_a_cache_of_programs
from reporting import console, place_for, print_table, write_report
from training_speed import kernels

LIMIT = 120.0  # seconds for any process
CORES = len(usable())

# A full chunk of lanes for every core.
BASE: dict[str, Any] = dict(
    hidden=(16, 16), batch_size=64, inner_iterations=16, replay_capacity=3_000, lanes=25, rounds=25 * CORES
)


class Axis(NamedTuple):
    """What is varied: its values, those of a quick run, and the options that a value stands for."""

    name: str
    values: tuple[int, ...]
    quick: tuple[int, int]
    options: Callable[[int], dict[str, Any]]
    blocks: int = 1  # of the run after which the peak memory is read


AXES = (
    Axis("rounds", (1, 4, 16, 64, 256, 1_000, 2_000), (1, 25 * CORES), lambda rounds: dict(rounds=rounds), blocks=64),
    Axis("hidden width", (8, 16, 32, 64, 128, 256, 512, 1_024), (8, 16), lambda width: dict(hidden=(width, width))),
    Axis("batch size N", (16, 32, 64, 128, 256, 512, 1_024), (32, 64), lambda size: dict(batch_size=size)),
    Axis("inner iterations M", (1, 4, 16, 32, 64, 128, 256), (4, 16), lambda count: dict(inner_iterations=count)),
    Axis(
        "replay capacity",
        (1_000, 3_000, 10_000, 100_000, 300_000, 1_000_000),
        (1_000, 3_000),
        lambda capacity: dict(replay_capacity=capacity),
    ),
    Axis("lanes", (1, 2, 4, 8, 16, 25, 50, 100), (16, 25), lambda lanes: dict(lanes=lanes, rounds=lanes * CORES)),
)


class PointError(Exception):
    """A point that could not be measured, and why."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two points of each curve, measured shortly: does it run?")
    parser.add_argument("--out", type=Path, default=place_for(__file__))
    options = parser.parse_args()

    rows, absent = measure_all(quick=options.quick)
    print_table("Time and memory", COLUMNS, [_cells(row) for row in rows], names=2)
    for each in absent:
        console.print(f"absent: {each['axis']} {each['value']:,} ({each['kernel']}): {each['reason']}")
    curves = [curve for measure in MEASURES for curve in _curves(rows, measure)]
    print_table("Exponents", EXPONENT_COLUMNS, [_exponent_cells(curve) for curve in curves], names=3)
    report = {
        "circumstances": circumstances(),
        "base": BASE,
        "rows": rows,
        "absent": absent,
        "exponents": [{**curve.name, **curve.fitted._asdict()} for curve in curves if curve.fitted is not None],
    }
    write_report(options.out, report, [])
    image = options.out.with_suffix(".png")
    draw_growth(image, curves)
    console.print(f"drawn in {image}")


def measure_all(*, quick: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A row per point, and why a point has none."""
    seconds, most_blocks = (0.1, 1) if quick else (0.4, 64)
    rows, absent = [], []
    for axis in AXES:
        for value in axis.quick if quick else axis.values:
            for kernel, chosen in kernels().items():
                name = {"axis": axis.name, "value": value, "kernel": kernel}
                options = {**BASE, **axis.options(value), **chosen}
                try:
                    rows.append({**name, **_point(json.dumps(options), min(axis.blocks, most_blocks), seconds)})
                except PointError as failure:
                    absent.append({**name, "reason": str(failure)})
    return rows, absent


@functools.cache  # some are points of several curves
def _point(options: str, blocks: int, seconds: float) -> dict[str, float]:
    script = Path(__file__).with_name("growth_point.py")
    command = [sys.executable, str(script), options, "--blocks", str(blocks), "--seconds", str(seconds)]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, env=without_a_cache_of_programs()
        )
    except subprocess.TimeoutExpired as late:
        raise PointError(f"took longer than {LIMIT:.0f} s") from late
    if answer.returncode != 0:
        raise PointError((answer.stderr.strip().splitlines() or [f"ended with code {answer.returncode}"])[-1])
    return json.loads(answer.stdout.splitlines()[-1])


COLUMNS = ("varied", "kernel", "value", "µs per step of a round", "steps of a round", "seconds", "peak memory")


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["axis"],
        row["kernel"],
        f"{row['value']:,}",
        f"{row['seconds_per_step'] * 1e6:,.3f}",
        f"{row['steps']:,}",
        f"{row['seconds']:.2f}",
        f"{row['peak_mib']:,.0f} MiB",
    ]


def _curves(rows: Sequence[dict[str, Any]], measure: str) -> list[Curve]:
    names = dict.fromkeys((row["axis"], row["kernel"]) for row in rows)
    return [
        Curve(
            measure,
            axis,
            kernel,
            [(row["value"], row[measure]) for row in rows if (row["axis"], row["kernel"]) == (axis, kernel)],
        )
        for axis, kernel in names
    ]


EXPONENT_COLUMNS = ("of", "varied", "kernel", "exponent", "± standard error", "fitted from")


def _exponent_cells(curve: Curve) -> list[str]:
    names = [MEASURES[curve.measure].title, curve.axis, curve.kernel]
    if curve.fitted is None:
        return [*names, "", "", ""]
    exponent, error, start = curve.fitted
    return [*names, f"{exponent:.2f}", "" if error is None else f"{error:.2f}", f"{start:,}"]


if __name__ == "__main__":
    main()
