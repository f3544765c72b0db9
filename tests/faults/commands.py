"""The long commands that are disturbed: each takes some seconds, and makes a checkpoint twenty times in one."""

from __future__ import annotations

from typing import NamedTuple

EVERY = ("--checkpoint-every", "0.05")


class Command(NamedTuple):
    """A command line without its folder."""

    name: str
    words: tuple[str, ...]
    weight: int = 4  # how often it is chosen, beside the others

    def line(self, out: str = "out", *, resume: bool = False) -> list[str]:
        """The words, for a folder."""
        return [*self.words, "--out", out, *EVERY, "--quiet", *(["--resume"] if resume else [])]


_CAR = ("train", "MountainCar", "srg-dqn", "--evaluation-episodes", "3")
_SMALL = ("--kernel", "xla", "--lanes", "4", "--hidden", "4")
_HOST = ("train", "CartPole-v1", "dqn-adam", "--evaluation-episodes", "2", "--learning-starts", "200")

NATIVE = Command("compiled, native", (*_CAR, "--rounds", "8", "--steps", "400000"), 6)
XLA = Command("compiled, xla", (*_CAR, *_SMALL, "--rounds", "4", "--steps", "150000"))
CHUNKS = Command("compiled, several chunks", (*_CAR, "--rounds", "40", "--steps", "100000"))
# Some of its rounds diverge, and those that are left move together.
EPISODES = Command(
    "compiled, budget of episodes", ("train", "CartPole", "srg-dqn", *_SMALL, "--rounds", "12", "--episodes", "3000")
)
HOST = Command("host, one round", (*_HOST, "--steps", "12000", "--evaluation-interval", "3000"))
WORKERS = Command("host, rounds in processes", (*_HOST, "--steps", "4000", "--rounds", "3"))
IMAGES = Command(
    "host, images",
    (
        *("train", "dots:Dots-v0", "dqn-adam", "--steps", "600", "--learning-starts", "64", "--batch-size", "8"),
        *("--replay-capacity", "200", "--evaluation-episodes", "1", "--hidden", "8"),
    ),
    2,
)
GRID = Command(
    "sweep, grid",
    (
        *("sweep", "MountainCar", "srg-dqn", "--eta", "1e-3", "1e-2", "--batch-size", "16", "32"),
        *("--rounds", "4", "--steps", "100000"),
    ),
    3,
)
SEARCH = Command(
    "sweep, search",
    (
        *("sweep", "MountainCar", "srg-dqn", "--search", "eta=1e-4..1e-1", "--trials", "4", "--at-once", "2"),
        *("--rounds", "2", "--steps", "100000"),
    ),
    2,
)
REPRODUCE = Command("reproduce", ("reproduce", "figure-3-left", "training-time", "--quick"), 2)

ALL = (NATIVE, XLA, CHUNKS, EPISODES, HOST, WORKERS, IMAGES, GRID, SEARCH, REPRODUCE)

# Smaller ones, asked for again and again within one process.
DAMAGED = (
    Command("compiled, native", (*_CAR, "--rounds", "2", "--steps", "400000")),
    Command("compiled, xla", (*_CAR, *_SMALL, "--rounds", "2", "--steps", "60000")),
    Command("host, one round", (*_HOST, "--steps", "3000")),
    Command(
        "sweep, grid",
        ("sweep", "MountainCar", "srg-dqn", "--eta", "1e-3", "1e-2", "--rounds", "2", "--steps", "200000"),
    ),
)
