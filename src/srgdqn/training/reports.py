"""What each round did since it was last asked about: the rows that whoever watches a run hears while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from srgdqn.acting import epsilon
from srgdqn.learner import evaluations_per_iteration, queries_per_iteration
from srgdqn.settings import Configuration
from srgdqn.training.chunk import Segment
from srgdqn.training.clock import budget_of, limits_of, steps_within
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.lane import LIVED, TERMINATED, TRUNCATED, BlockLog


class GreedyEpisodes(NamedTuple):
    """One greedy evaluation on the raw reward."""

    step: int  # environment steps trained before it
    returns: np.ndarray
    lengths: np.ndarray


class RoundReport(NamedTuple):
    """What one round did since its last report, and where it is."""

    round: int
    step: int  # environment steps so far
    steps: int  # environment steps since
    reward: float  # their mean; NaN if there were none
    returns: np.ndarray  # of the episodes that ended since
    lengths: np.ndarray
    episodes: int  # ended so far
    outer_iterations: int  # made so far
    queries: int  # so far, by the estimator's formula
    gradient_evaluations: int  # so far, really done
    epsilon: float  # the probability of a random action at the next step
    # Means over the outer iterations since, of the values that are finite; NaN if there are none.
    loss: float = np.nan
    max_q: float = np.nan
    delta_norm: float = np.nan
    theta_norm: float = np.nan
    diverged_at: int | None = None  # the environment step, if it went non-finite
    evaluations: tuple[GreedyEpisodes, ...] = ()  # made since
    gradient_variance: float | None = None  # these two only where they are measured
    anchor_distance: float | None = None


Reports = Callable[[], list[RoundReport]]
"""What some rounds did since this same function was last called; a round that did nothing is left out."""


def no_reports() -> list[RoundReport]:
    """For rounds that nobody can ask about."""
    return []


class _Unread(NamedTuple):
    """What is kept of a segment until somebody asks: references to arrays that the chunk keeps anyway."""

    blocks_done: int
    log: BlockLog
    evaluation: Evaluation | None
    last: bool


class _SoFar(NamedTuple):
    """Where a round was at its last report."""

    step: int = 0
    episodes: int = 0
    outer_iterations: int = 0
    judged_at: int = -1  # the step of its last evaluation
    # The rewards of the episode under way, in pieces: a return is then summed in the same order as in the tables, and
    # an episode that never ends costs nothing at each report.
    open_rewards: tuple[np.ndarray, ...] = ()


class ChunkReports:
    """The reports of a chunk's rounds, computed from its segments when they are asked for."""

    def __init__(self, configuration: Configuration, rounds: Sequence[int]) -> None:
        self._configuration, self._rounds = configuration, rounds
        self._unread: list[_Unread] = []
        self._so_far = [_SoFar() for _ in rounds]
        self._blocks_read = 0
        self._diverged_at = np.full(len(rounds), -1)

    def keep(self, segment: Segment) -> None:
        """Takes note of a segment. Its lanes are only valid now, its log stays."""
        self._unread.append(
            _Unread(segment.blocks_done, segment.log._replace(probed=None), segment.evaluation, segment.last)
        )
        self._diverged_at = np.array(segment.lanes.diverged_at)

    def forget(self) -> None:
        """Lets go of what nobody asked for."""
        self._unread = []

    def read(self) -> list[RoundReport]:
        """What each round did since the last call."""
        unread, self._unread = self._unread, []
        if not unread:
            return []
        reports = []
        for lane, number in enumerate(self._rounds):
            before = self._so_far[lane]
            self._so_far[lane], report = self._read_round(unread, lane, number, before)
            if report.steps or report.evaluations:
                reports.append(report)
        self._blocks_read = unread[-1].blocks_done
        return _with_epsilon(self._configuration, reports)

    def _read_round(self, unread: list[_Unread], lane: int, number: int, before: _SoFar) -> tuple[_SoFar, RoundReport]:
        settings = self._configuration.training
        flags = np.concatenate([part.log.flags[lane].ravel() for part in unread])
        lived = int((flags & LIVED).astype(bool).sum())  # a lane that stops never starts again
        ended = (flags[:lived] & (TERMINATED | TRUNCATED)) > 0
        steps = steps_within(budget_of(settings), ended, steps=before.step, episodes=before.episodes)
        rewards = np.concatenate([part.log.reward[lane].ravel() for part in unread])[:steps]
        ends = np.flatnonzero(ended[:steps]) + 1
        returns, lengths, still_open = _episodes(before.open_rewards, rewards, ends)

        limits = limits_of(settings)
        blocks = self._blocks_read + np.arange(lived // settings.learning_frequency)
        learned = (blocks >= int(limits.first_learning)) & (blocks < int(limits.last_block))
        made = before.outer_iterations + int(learned.sum())
        step = before.step + steps
        judged_at, evaluations = _evaluations(unread, lane, settings.learning_frequency, step, before.judged_at)
        diverged_at = int(self._diverged_at[lane])

        def mean(name: str) -> float:
            values = np.concatenate([getattr(part.log, name)[lane] for part in unread])[: len(blocks)][learned]
            finite = values[np.isfinite(values)].astype(np.float64)
            return float(finite.mean()) if len(finite) else np.nan

        report = RoundReport(
            round=number,
            step=step,
            steps=steps,
            reward=float(rewards.mean(dtype=np.float64)) if steps else np.nan,
            returns=returns,
            lengths=lengths,
            episodes=before.episodes + len(ends),
            outer_iterations=made,
            queries=made * queries_per_iteration(self._configuration),
            gradient_evaluations=made * evaluations_per_iteration(self._configuration),
            epsilon=np.nan,  # for all rounds at once, at the end
            loss=mean("loss"),
            max_q=mean("max_q"),
            delta_norm=mean("delta_norm"),
            theta_norm=mean("theta_norm"),
            diverged_at=None if diverged_at < 0 else min(diverged_at, step),
            evaluations=evaluations,
        )
        return _SoFar(step, report.episodes, made, judged_at, still_open), report


def _episodes(
    before: tuple[np.ndarray, ...], rewards: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Returns and lengths of the episodes that ended, and the rewards of the one that has not."""
    if not len(ends):
        return np.zeros(0), np.zeros(0, np.int32), (*before, rewards) if len(rewards) else before
    behind = sum(map(len, before))
    whole = np.concatenate([*before, rewards[: ends[-1]]]).astype(np.float64)
    ends = ends + behind
    starts = np.append(0, ends[:-1])
    left = rewards[len(whole) - behind :]
    return np.add.reduceat(whole, starts), (ends - starts).astype(np.int32), (left,) if len(left) else ()


def _evaluations(
    unread: list[_Unread], lane: int, block: int, step: int, judged_at: int
) -> tuple[int, tuple[GreedyEpisodes, ...]]:
    """Those made of a round, whose state is judged once only: a stopped round's at the end of all."""
    made = []
    for part in unread:
        at = min(part.blocks_done * block, step)
        stopped_before = step <= (part.blocks_done - 1) * block
        if part.evaluation is None or at == judged_at or (stopped_before and not part.last):
            continue
        judged_at = at
        made.append(
            GreedyEpisodes(
                at,
                np.asarray(part.evaluation.total_reward[lane], np.float64),
                np.asarray(part.evaluation.length[lane], np.int32),
            )
        )
    return judged_at, tuple(made)


def _with_epsilon(configuration: Configuration, reports: list[RoundReport]) -> list[RoundReport]:
    budget = budget_of(configuration.training)
    unit = {"steps": "step"}.get(budget.unit, budget.unit)
    spent = np.array([getattr(report, unit) for report in reports]) / budget.amount
    chances = np.asarray(epsilon(configuration.acting, jnp.asarray(spent))).tolist()
    return [report._replace(epsilon=chance) for report, chance in zip(reports, chances, strict=True)]
