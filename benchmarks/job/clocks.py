"""How a contender is timed, by itself: environment steps made while it learned, and the seconds they took.

Imports are not timed. Everything else before the clock starts (compiling, the steps before learning) is its warm-up.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable

from job.settings import WARM_UP_STEPS, Job

READY = "ready"

Tick = Callable[[int], bool]
"""Takes, after updates, the steps that the round has made; returns false once it may stop."""


def measure_rounds(job: Job, train_round: Callable[[int, Tick], int]) -> None:
    """Times a contender that trains one round after the other, and steps its environment in Python.

    `train_round` gives the updates that it has made.
    """
    clock = _LearningClock(job)
    for seed in range(job.seed, job.seed + job.rounds):
        updates = train_round(seed, clock.new_round())
        if job.is_spent(clock.seconds):
            break
        job.check_round(clock.made, updates)
    _report(job, clock.steps, clock.seconds, clock.warm_up_seconds)


def measure_calls(job: Job, prepare: Callable[[], Callable[[int], int]]) -> None:
    """Times a contender that trains all rounds in one call, over and over with new seeds until the time is spent, or
    once where none is given.

    `prepare` compiles, and gives the function from a seed to the steps that were made while it learned.
    Where the same call fills the replay memory first, its time counts and its steps do not.
    """
    start = time.perf_counter()
    train = prepare()
    warm_up_seconds = time.perf_counter() - start
    _wait_for_the_others(job)
    steps, seconds, seed = 0, 0.0, job.seed
    while True:
        start = time.perf_counter()
        steps += train(seed)
        seconds += time.perf_counter() - start
        seed += job.rounds
        if job.seconds is None or job.is_spent(seconds):
            break
    _report(job, steps, seconds, warm_up_seconds)


class _LearningClock:
    """Adds up what rounds do between their warm-up and their end."""

    def __init__(self, job: Job) -> None:
        self.steps, self.seconds, self.warm_up_seconds = 0, 0.0, 0.0
        self.made = 0  # steps of the present round, as last reported
        self._job, self._created, self._first = job, time.perf_counter(), True

    def new_round(self) -> Tick:
        earlier_steps, earlier_seconds = self.steps, self.seconds
        start: tuple[int, float] | None = None

        def tick(made: int) -> bool:
            nonlocal start
            self.made = made
            if start is not None:
                self.steps = earlier_steps + made - start[0]
                self.seconds = earlier_seconds + time.perf_counter() - start[1]
            elif made >= WARM_UP_STEPS:
                self._end_of_warm_up()
                start = made, time.perf_counter()
            return not self._job.is_spent(self.seconds)

        return tick

    def _end_of_warm_up(self) -> None:
        if self._first:
            self._first, self.warm_up_seconds = False, time.perf_counter() - self._created
            _wait_for_the_others(self._job)


def _wait_for_the_others(job: Job) -> None:
    if job.together:
        print(READY, flush=True)
        sys.stdin.readline()


def _report(job: Job, steps: int, seconds: float, warm_up_seconds: float) -> None:
    answer = {
        "task": job.task,
        "rounds": job.rounds,
        "steps": steps,
        "seconds": seconds,
        "warm_up_seconds": warm_up_seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(answer), flush=True)
