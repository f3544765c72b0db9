"""What every contender does, so that what is compared differs in nothing but who does it and how.

DQN with a target network on Gymnasium's own rewards and time limits. The loss (squared or Huber's), clipping and the
optimiser's remaining options are each library's own.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any, NamedTuple

BATCH, CAPACITY = 64, 3_000
UPDATE_EVERY, LEARNING_STARTS, TARGET_EVERY = 16, 1_000, 512  # environment steps
GAMMA, STEP_SIZE = 0.99, 1e-3  # Adam's
# Of steps without Adam, and far below the paper's: a round that diverges would stop, or compute with what is no number.
# What a step costs does not depend on its size.
GRADIENT_STEP_SIZE = 1e-6
EPSILON_START, EPSILON_END = 0.1, 0.001  # over all steps of a round

FIRST_UPDATE = -(-LEARNING_STARTS // UPDATE_EVERY) * UPDATE_EVERY

# Whatever is compiled or allocated when learning begins is so by then.
WARM_UP_STEPS = FIRST_UPDATE + 10 * UPDATE_EVERY


class Task(NamedTuple):
    """A task under the name that Gymnasium and gymnax have for it, and the steps after which they end an episode."""

    identifier: str
    time_limit: int


TASKS = {"MountainCar": Task("MountainCar-v0", 200), "CartPole": Task("CartPole-v1", 500)}


@dataclass(frozen=True)
class Job:
    """Rounds of a task, and how long they are measured."""

    task: str
    steps: int
    """Environment steps of a round."""
    seed: int
    rounds: int
    seconds: float | None
    """Measuring ends once so much time was spent learning, be all rounds over or not (none: with the last round)."""
    hidden: tuple[int, ...]
    together: bool
    """Wait for a line on standard input before measuring, as others are to be measured at the same time."""

    @property
    def gymnasium_id(self) -> str:
        """The task's name in Gymnasium and gymnax."""
        return TASKS[self.task].identifier

    @property
    def learning_steps(self) -> int:
        """The steps of a round from the first update on."""
        return self.steps - FIRST_UPDATE

    @property
    def updates(self) -> int:
        """The updates of a round, the first and the last included."""
        return self.learning_steps // UPDATE_EVERY + 1

    def is_spent(self, seconds: float) -> bool:
        """Whether so much time of learning ends the measurement."""
        return self.seconds is not None and seconds >= self.seconds

    def check_round(self, steps: int, updates: int) -> None:
        """Whoever made other steps or updates in a whole round has done another job."""
        if (steps, updates) != (self.steps, self.updates):
            raise RuntimeError(
                f"a round had {steps:,} steps and {updates:,} updates, but the job has {self.steps:,} and "
                f"{self.updates:,}."
            )


def job_parser(description: str | None) -> argparse.ArgumentParser:
    """The command line of a contender, to which one with variants adds its own options."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--steps", type=int, required=True, help="environment steps of a round")
    parser.add_argument("--seed", type=int, required=True, help="of the first round; the others count on from it")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="time to measure for, if not every round to its end")
    parser.add_argument("--hidden", type=int, nargs="+", default=[20, 20], help="widths of the hidden layers")
    parser.add_argument("--together", action="store_true", help="say when ready, and wait for a line before measuring")
    return parser


def job_of(options: argparse.Namespace) -> Job:
    """The job that a command line asks for."""
    if options.steps <= WARM_UP_STEPS or options.steps % UPDATE_EVERY:
        raise SystemExit(
            f"--steps is {options.steps}, but there is an update every {UPDATE_EVERY} steps, and nothing is measured "
            f"before step {WARM_UP_STEPS}. Give a larger multiple of {UPDATE_EVERY}."
        )
    return Job(
        options.task,
        options.steps,
        options.seed,
        options.rounds,
        options.seconds,
        tuple(options.hidden),
        options.together,
    )


def read_job(description: str | None) -> Job:
    """The job of a contender without options of its own."""
    return job_of(job_parser(description).parse_args())


def exploration(made: int, steps: int) -> float:
    """ε after so many of a round's steps."""
    return EPSILON_START + (EPSILON_END - EPSILON_START) * made / steps


Column = Any  # an array of NumPy's, JAX's or PyTorch's


class Transitions(NamedTuple):
    """Transitions as columns: of the replay memory, or of a batch drawn from it."""

    observation: Column
    action: Column
    reward: Column
    next_observation: Column
    terminated: Column
