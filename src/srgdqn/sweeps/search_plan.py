"""What a search asks: its space, how many trials, and how they are asked for. Free of jax and of Optuna."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from srgdqn.config.coercion import shown
from srgdqn.errors import InputError
from srgdqn.extras import require
from srgdqn.sweeps.grid import Base, Cell, cells_of
from srgdqn.sweeps.ranges import Space

AT_ONCE = 8  # trials that run side by side where one program serves them all
MOST_AT_ONCE = 10**4
_MOST_CORNERS = 256
_LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class SearchPlan:
    """A search that was checked."""

    space: Space
    trials: int
    at_once: int
    """Trials asked for before any of them is told."""
    sampler_seed: int

    def as_words(self) -> dict[str, Any]:
        """The same in JSON's values."""
        return {
            "space": {name: str(part) for name, part in self.space.items()},
            "trials": self.trials,
            "at_once": self.at_once,
            "sampler_seed": self.sampler_seed,
        }


def search_plan(
    base: Base, space: Space, *, trials: int = 40, at_once: int | None = None, sampler_seed: int = 0
) -> SearchPlan:
    """The plan, if every end of every range can be run, and Optuna is installed.

    By default eight trials are asked for at once where they differ in numbers alone, and one otherwise.
    """
    for name, value, least, most in (
        ("trials", trials, 1, 10**6),
        ("at_once", AT_ONCE if at_once is None else at_once, 1, MOST_AT_ONCE),
        ("sampler_seed", sampler_seed, 0, _LARGEST_SEED),
    ):
        if type(value) is not int or not least <= value <= most:
            raise InputError(f"{name} is {shown(value)}, but must be a whole number from {least} to {most}.")
    require("optuna", "optuna", "Searching")
    corners = _corners(base, space)
    alike = len({corner.configuration.shape() for corner in corners}) == 1
    return SearchPlan(space, trials, (AT_ONCE if alike else 1) if at_once is None else at_once, sampler_seed)


def _corners(base: Base, space: Space) -> list[Cell]:
    """The cells at the ends of all ranges or, where these are too many, of one at a time."""
    ends = {name: part.ends() for name, part in space.items()}
    if math.prod(map(len, ends.values())) <= _MOST_CORNERS:
        return cells_of(base, ends)
    firsts = {name: values[:1] for name, values in ends.items()}
    return [cell for name, values in ends.items() for cell in cells_of(base, {**firsts, name: values})]
