"""Scores of cells. Every score counts the rounds that diverged.

`greedy-return` is the mean over all rounds of the return in the last greedy evaluation, on the raw reward; a round that
diverged is evaluated with its last finite parameters. `final-reward` is the mean over all rounds of the reward per
action in the last fifth of the budget; a round that diverged scores as the random policy does with the same options.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.results.comparison import Spread, final_rewards, greedy_returns, spread_of
from srgdqn.results.result import Result
from srgdqn.session.cache import CellFolder, TrainingCell
from srgdqn.sweeps.cells import train_each
from srgdqn.sweeps.grid import Score


def diverged_rounds(result: Result) -> set[int]:
    """The rounds that went non-finite."""
    return {number for number, step in result.rounds.select("round", "diverged_at").iter_rows() if step is not None}


def random_policy(configuration: Configuration) -> Configuration:
    """A policy that always explores and never learns, in the same compiled program as the configuration."""
    return configuration.with_options({"epsilon_start": 1.0, "epsilon_end": 1.0, "eta": 0.0, "alpha": 0.0})


def score_of(result: Result, score: Score, chance: float | None) -> Spread:
    """The cell's score over its rounds; `chance` is the random policy's final reward, where that is needed."""
    if score == "greedy-return":
        return spread_of(greedy_returns(result).values())
    lost = diverged_rounds(result)
    reached = final_rewards(result)
    return spread_of(chance if number in lost else reached.get(number) for number in result.rounds["round"])


def row_of(result: Result, score: Score, chance: float | None) -> dict[str, Any]:
    """The cell's columns in the table, beside its values."""
    greedy = score_of(result, "greedy-return", None)
    spreads = {
        "score": greedy if score == "greedy-return" else score_of(result, score, chance),
        "final_reward": spread_of(final_rewards(result).values()),
        "greedy_return": greedy,
    }
    row: dict[str, Any] = {"rounds": result.rounds.height, "diverged": len(diverged_rounds(result))}
    for name, spread in spreads.items():
        row |= {name: spread.mean, f"{name}_low": spread.low, f"{name}_high": spread.high}
    return row | {"final_reward_rounds": spreads["final_reward"].rounds}


class RandomPolicy:
    """The random policy's final reward, computed the first time that some score needs it."""

    def __init__(self, score: Score, configuration: Configuration, folder: CellFolder) -> None:
        self._score, self._folder = score, folder
        self._cell = TrainingCell("random-policy", random_policy(configuration))
        self.chance: float | None = None

    def score_of(self, result: Result) -> Spread:
        """A cell's score, for which this was prepared."""
        return score_of(result, self._score, self.chance)

    def prepare(self, results: Sequence[Result]) -> None:
        """Sets `chance` if a score of these results depends on it."""
        if self._score != "final-reward" or self.chance is not None or not any(map(diverged_rounds, results)):
            return
        found = self._folder.find(self._cell)
        if found is None:
            found = self._trained()
            self._folder.store(self._cell, found)
        self.chance = spread_of(final_rewards(found).values()).mean
        if self.chance is None:
            raise InputError("the random policy never reached the end of the budget. Give score = greedy-return.")

    def _trained(self) -> Result:
        trained: list[Result] = []
        try:
            train_each([self._cell.configuration], lambda place, result: trained.append(result))
        except EnvironmentFailedError as error:
            raise InputError(
                f"the random policy, which rounds that diverged score as, could not be tried: {error} Or give "
                "score = greedy-return."
            ) from error
        [found] = trained
        return found
