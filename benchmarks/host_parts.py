"""Where the time of a step on the host goes: environment, acting, bookkeeping and learning.

    python benchmarks/host_parts.py --algorithm dqn-adam --steps 50000

trains twice in one process, with learning and with next to none, and prints what each run took. The environment times
itself, acting is timed where `ACTING_BY` says, and the rest follows by differences. `measure_parts` asks such a
process, and `microseconds_per_step` makes parts of its answer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any, NamedTuple

from arrangements import ContenderError
from host_stopwatch import Watch, watch_function, watched_environment
from job.our_options import TARGET_NETWORK, shared_options
from job.settings import FIRST_UPDATE, WARM_UP_STEPS
from lineup import ONE_THREAD
from measuring import pinned_to, usable, without_a_cache_of_programs

# The function that chooses actions while training, as `watch_function` takes it; without one, acting counts as
# bookkeeping.
ACTING_BY: str | None = "srgdqn.training.host.learner:_KernelPolicy.one"

ENVIRONMENT, ACTING, BOOKKEEPING, LEARNING = "environment", "acting", "bookkeeping", "learning"
IDLE, LEARNED = "idle", "learned"

_HIDDEN = (20, 20)


class Spent(NamedTuple):
    """What a training run took."""

    seconds: float
    environment_seconds: float  # of these
    acting_seconds: float | None  # of these, where it is known
    environment_steps: int  # with those of the evaluation at the end

    def beside(self, acting: float) -> float:
        """The seconds that neither the environment took nor acting, at so many seconds for each step."""
        return self.seconds - self.environment_seconds - acting * self.environment_steps


def microseconds_per_step(spent: dict[str, Spent], steps: int) -> dict[str, float]:
    """The parts of a step once learning has started, from what two runs of so many steps took.

    Learning is what a run takes longer than one that does not learn. Bookkeeping is what is left of the latter, with a
    call's beginning and end. Acting is taken from there, too, as otherwise it may have to wait for what was learned.
    """
    idle, learned = spent[IDLE], spent[LEARNED]
    known = idle.acting_seconds is not None
    acting = idle.acting_seconds / idle.environment_steps if idle.acting_seconds is not None else 0.0
    parts = {
        ENVIRONMENT: learned.environment_seconds / learned.environment_steps,
        **({ACTING: acting} if known else {}),
        BOOKKEEPING if known else f"{ACTING} and {BOOKKEEPING}": idle.beside(acting) / steps,
        LEARNING: (learned.beside(acting) - idle.beside(acting)) / (steps - FIRST_UPDATE),
    }
    return {part: 1e6 * seconds for part, seconds in parts.items()}


def measure_parts(algorithm: str, steps: int, limit: float) -> dict[str, float]:
    """The parts, measured in a process of its own on one core."""
    command = [sys.executable, __file__, "--algorithm", algorithm, "--steps", str(steps)]
    variables = {**without_a_cache_of_programs(), **ONE_THREAD}
    try:
        with pinned_to(usable()[:1]):
            answer = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=variables)
    except subprocess.TimeoutExpired as late:
        raise ContenderError(f"took longer than {limit:.0f} s") from late
    if answer.returncode != 0:
        raise ContenderError((answer.stderr.strip().splitlines() or [f"ended with code {answer.returncode}"])[-1])
    spent = json.loads(answer.stdout.splitlines()[-1])
    return microseconds_per_step({run: Spent(**each) for run, each in spent.items()}, steps)


def _runs(algorithm: str, steps: int) -> dict[str, Spent]:
    import srgdqn

    resets, moves, acting = Watch(), Watch(), Watch()
    task = watched_environment(resets, moves)
    if ACTING_BY is not None:
        watch_function(ACTING_BY, acting)

    def train(steps: int, **changed: Any) -> Spent:
        before = resets.seconds + moves.seconds, acting.seconds, moves.calls
        options = {**shared_options(_HIDDEN, algorithm), **TARGET_NETWORK, **changed}
        began = time.perf_counter()
        srgdqn.train(task, algorithm, rounds=1, steps=steps, **options)
        return Spent(
            time.perf_counter() - began,
            resets.seconds + moves.seconds - before[0],
            None if ACTING_BY is None else acting.seconds - before[1],
            moves.calls - before[2],
        )

    train(WARM_UP_STEPS)  # compiles
    return {IDLE: train(steps, learning_starts=steps), LEARNED: train(steps)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", required=True)
    parser.add_argument("--steps", type=int, required=True)
    asked = parser.parse_args()
    print(json.dumps({run: spent._asdict() for run, spent in _runs(asked.algorithm, asked.steps).items()}))
