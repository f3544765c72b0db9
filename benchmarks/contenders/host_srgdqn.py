"""srgdqn on Gymnasium's own environment, which is stepped on the host.

What is timed is a call of `srgdqn.train` as a user makes it, with its tables and the evaluation at its end; a shorter
one before has compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

import srgdqn
from job.clocks import measure_calls
from job.our_options import TARGET_NETWORK, shared_options
from job.settings import FIRST_UPDATE, WARM_UP_STEPS, Job, job_of, job_parser

ALGORITHMS = ("dqn-adam", "srg-dqn", "svr-dqn")


def prepare(job: Job, algorithm: str, environments: int) -> Callable[[int], int]:
    options: dict[str, Any] = dict(environments=environments, **shared_options(job.hidden, algorithm), **TARGET_NETWORK)
    srgdqn.train(job.gymnasium_id, algorithm, rounds=1, steps=WARM_UP_STEPS, seed=job.seed, **options)

    def run(seed: int) -> int:
        result = srgdqn.train(job.gymnasium_id, algorithm, rounds=1, steps=job.steps, seed=seed, **options)
        job.check_round(int(result.rounds["steps"].item()), int(result.rounds["outer_iterations"].item()))
        compiling = result.timings.filter(pl.col("phase") == "compile")["seconds"].sum()
        if compiling > 0:
            raise RuntimeError(f"{compiling:.2f} s of what was timed went into compiling.")
        return job.steps - FIRST_UPDATE

    return run


if __name__ == "__main__":
    parser = job_parser(__doc__)
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="dqn-adam")
    parser.add_argument("--environments", type=int, default=1, help="copies that are stepped side by side")
    asked = parser.parse_args()
    measure_calls(job_of(asked), lambda: prepare(job_of(asked), asked.algorithm, asked.environments))
