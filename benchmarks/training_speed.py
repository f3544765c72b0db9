"""How fast training is once it learns: steps per second of one full chunk of lanes, by the run's own table."""

from __future__ import annotations

import functools
from typing import Any

import polars as pl

import srgdqn
from job.our_options import used_step_sizes
from srgdqn.kernel.build import NoKernelError, library

LANES = 32  # whole teams of the kernel's; what a lane of XLA's costs is the same from 8 on
SEGMENT = 4_096  # steps of a round that one row of the table stands for, with 16 to a block

# No round may diverge: it would stop, and leave its lane idle. The cost of a step does not depend on its size.
STILL = dict(eta=1e-6, alpha=1e-6)


def steps_per_second(task: str, algorithm: str, *, segments: int, learning: bool = True, **options: Any) -> float:
    """The rate of all lanes together over so many segments, between a first and a last one that are not counted.

    Learning starts in the first, or only in the last.
    """
    steps = (segments + 2) * SEGMENT
    result = srgdqn.train(
        task,
        algorithm,
        rounds=LANES,
        lanes=LANES,
        steps=steps,
        learning_starts=64 if learning else steps,
        evaluation_interval=None,
        evaluation_episodes=1,
        progress=False,
        **used_step_sizes(algorithm, **STILL),
        **options,
    )
    if result.rounds["diverged_at"].count():
        raise RuntimeError(f"rounds of {algorithm} on {task} have diverged and stopped, so that they cannot be timed.")
    rows = result.timings.filter(pl.col("phase") == "train").sort("step")
    return LANES * (rows["step"][-2] - rows["step"][0]) / rows["seconds"][1:-1].sum()


@functools.cache
def kernels() -> dict[str, dict[str, Any]]:
    """The kernels that training can run on here, each with the options that choose it."""
    try:
        library()
    except NoKernelError:
        return {"xla": {"kernel": "xla"}}
    return {name: {"kernel": name} for name in ("native", "xla")}
