"""One point of the growth curves, in this process alone: the time of a step, and the process's peak memory.

    python benchmarks/growth_point.py '{"hidden": [64, 64], "rounds": 50}' --blocks 32 --seconds 1

The peak is read after a first, short run, which is equally long for all points of a curve. Time is the difference of a
longer run and of one with a single outer iteration, so that neither compiling nor starting nor evaluating counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any

import srgdqn

BLOCK = 16  # environment steps of a round per outer iteration
_MOST_BLOCKS = 2**16
_ENOUGH = 0.7  # of the seconds asked for
_GROWTH = 16.0  # the most by which a budget grows at once

# No round may diverge, because it would stop: the cost of a step does not depend on its size. What cannot be left out,
# the evaluation at the end, is as short as can be.
_FIXED: dict[str, Any] = dict(
    learning_frequency=BLOCK,
    learning_starts=BLOCK,
    eta=1e-6,
    alpha=1e-6,
    evaluation_interval=None,
    evaluation_episodes=1,
    evaluation_limit=1,
    progress=False,
)


def measure_here(options: dict[str, Any], blocks: int, seconds: float) -> dict[str, float]:
    """Seconds per step of a round, over a run of about so many seconds, and MiB after a run of so many blocks."""

    def run(blocks: int) -> float:
        began = time.perf_counter()
        result = srgdqn.train(
            "MountainCar",
            "srg-dqn",
            steps=blocks * BLOCK,
            **_FIXED,
            **options,
        )
        elapsed = time.perf_counter() - began
        if result.rounds["diverged_at"].count():
            raise RuntimeError("rounds have diverged and stopped, so that they cannot be timed.")
        return elapsed

    run(blocks)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    before = run(1)
    if before < seconds:  # and noise counts for something
        before = min(before, run(1))
    longer = blocks
    while (elapsed := (total := run(1 + longer)) - before) < _ENOUGH * seconds and longer < _MOST_BLOCKS:
        # A difference may be mere noise where a single block takes long, and must not make the next run endless.
        factor = min(_GROWTH, seconds / elapsed if elapsed > 0 else _GROWTH, _GROWTH / 4 * seconds / total)
        longer = min(_MOST_BLOCKS, max(longer + 1, int(longer * factor)))
    return {
        "seconds_per_step": elapsed / (longer * BLOCK * options["rounds"]),
        "steps": longer * BLOCK,
        "seconds": elapsed,
        "peak_mib": peak,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("options", type=json.loads, help="of srgdqn.train, as JSON; rounds among them")
    parser.add_argument("--blocks", type=int, required=True, help="with an outer iteration, of the first run")
    parser.add_argument("--seconds", type=float, required=True, help="of the longest run, roughly")
    asked = parser.parse_args()
    print(json.dumps(measure_here(asked.options, asked.blocks, asked.seconds)))
