"""srgdqn, all rounds in one process: DQN as the others have it, or SRG-DQN as the paper has it.

What is timed is a call of `srgdqn.train` as a user makes it, with its tables and the evaluation at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import srgdqn
from job.clocks import measure_calls
from job.our_options import TARGET_NETWORK, shared_options
from job.settings import FIRST_UPDATE, TASKS, WARM_UP_STEPS, Job, job_of, job_parser

ALGORITHMS = ("dqn-adam", "dqn-sgd", "srg-dqn")


def options_of(job: Job, algorithm: str, kernel: str = "auto") -> dict[str, Any]:
    shared = dict(kernel=kernel, **shared_options(job.hidden, algorithm))
    if job.rounds == 1:
        shared["lanes"] = 1
    if algorithm == "srg-dqn":
        return shared  # and the rest from the paper
    return dict(**shared, reward="raw", time_limit=TASKS[job.task].time_limit, **TARGET_NETWORK)


def prepare(job: Job, algorithm: str, kernel: str) -> Callable[[int], int]:
    options = options_of(job, algorithm, kernel)
    # The programs do not depend on how many rounds and steps there are.
    srgdqn.train(job.task, algorithm, rounds=1, steps=WARM_UP_STEPS, seed=job.seed, **options)

    def run(seed: int) -> int:
        result = srgdqn.train(job.task, algorithm, rounds=job.rounds, steps=job.steps, seed=seed, **options)
        # Counted, as a round that diverges stops before its last step.
        return int(result.rounds["steps"].sum()) - job.rounds * FIRST_UPDATE

    return run


if __name__ == "__main__":
    parser = job_parser(__doc__)
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="dqn-adam")
    parser.add_argument("--kernel", choices=("auto", "native", "xla"), default="auto")
    asked = parser.parse_args()
    measure_calls(job_of(asked), lambda: prepare(job_of(asked), asked.algorithm, asked.kernel))
