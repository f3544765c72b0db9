"""What each round did since it was last asked about: the rows that whoever watches a run hears while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from srgdqn.config import Configuration
from srgdqn.learner.outer_iteration import evaluations_per_iteration, queries_per_iteration
from srgdqn.training.checkpoint_rows import Judged
from srgdqn.training.clock import budget_of, limits_of, steps_within
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.lane import LIVED, TERMINATED, TRUNCATED, BlockLog
from srgdqn.training.loop import Segment
from srgdqn.training.recorder import Recorder


class GreedyEpisodes(NamedTuple):
    """One greedy evaluation on the raw reward."""

    step: int  # environment steps trained before it
    returns: np.ndarray
    lengths: np.ndarray


_DIAGNOSTICS = ("loss", "max_q", "delta_norm", "theta_norm")


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


class Progress(NamedTuple):
    """What a listener hears now and then."""

    share: float  # of the whole run's budget
    steps: int  # environment steps since the last report, over the rounds of the chunk
    reward: float  # their mean reward
    diverged: int  # rounds frozen so far
    ended: bool = False  # whether the chunk is done: what it has to report is forgotten after this
    reports: Reports = no_reports  # the same for all segments of a chunk; computes nothing before it is called


Listener = Callable[[Progress], None]


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
    seen_whole: bool = True  # whether the beginning of that episode was heard of


class ChunkReports:
    """The reports of a chunk's rounds, computed from its segments when they are asked for."""

    def __init__(self, configuration: Configuration, rounds: Sequence[int]) -> None:
        self._configuration, self._rounds = configuration, rounds
        self._work = queries_per_iteration(configuration), evaluations_per_iteration(configuration)
        self._unread: list[_Unread] = []
        self._so_far = [_SoFar() for _ in rounds]
        self._blocks_read = 0
        self._diverged_at = np.full(len(rounds), -1)

    def resume(self, recorder: Recorder, evaluations: Judged) -> None:
        """Goes on from where the rounds stand: of episodes that are open now, no return will be told."""
        block = self._configuration.training.learning_frequency
        for lane in range(len(self._rounds)):
            carry = recorder.reached(lane)
            judged_at = -1
            for blocks, last, _ in evaluations:
                if (at := _judged_at(blocks, block, carry.steps, judged_at, last=last)) is not None:
                    judged_at = at
            known = (carry.steps, carry.episodes, carry.iterations, judged_at)
            self._so_far[lane] = _SoFar(*known, seen_whole=not carry.open_lengths.any())
        self._blocks_read = recorder.blocks

    def keep(self, segment: Segment) -> None:
        """Takes note of a segment: its lanes are only valid now, its log stays, as the chunk keeps it anyway."""
        log = segment.log._replace(probed=None)
        self._unread.append(_Unread(segment.blocks_done, log, segment.evaluation, segment.last))
        self._diverged_at = segment.divergence

    def forget(self) -> None:
        """Lets go of what nobody asked for."""
        self._unread = []

    def read(self) -> list[RoundReport]:
        """What each round did since the last call."""
        unread, self._unread = self._unread, []
        if not unread:
            return []
        news = self._news(unread)
        reports = []
        for lane in range(len(self._rounds)):
            report = self._read_round(news, lane)
            if report.steps or report.evaluations:
                reports.append(report)
        self._blocks_read = unread[-1].blocks_done
        return reports

    def _news(self, unread: list[_Unread]) -> _News:
        count, settings = len(self._rounds), self._configuration.training
        limits = limits_of(settings)

        def joined(name: str) -> np.ndarray:
            return np.concatenate([getattr(part.log, name)[:count] for part in unread], axis=1)

        flags = joined("flags").reshape(count, -1)
        lived = (flags & LIVED).astype(bool).sum(1)  # a lane that stops never starts again
        blocks = np.arange(flags.shape[1] // settings.learning_frequency)
        due = self._blocks_read + blocks
        learned = (due >= int(limits.first_learning)) & (due < int(limits.last_block))
        learned = learned & (blocks < lived[:, None] // settings.learning_frequency)
        return _News(
            reward=joined("reward").reshape(count, -1),
            lived=lived,
            ended=(flags & (TERMINATED | TRUNCATED)) > 0,
            outer_iterations=learned.sum(1),
            diagnostics={name: _finite_means(joined(name), learned) for name in _DIAGNOSTICS},
            segments=unread,
        )

    def _read_round(self, news: _News, lane: int) -> RoundReport:
        settings, before = self._configuration.training, self._so_far[lane]
        ended = news.ended[lane, : news.lived[lane]]
        steps = steps_within(budget_of(settings), ended, steps=before.step, episodes=before.episodes)
        rewards = news.reward[lane, :steps]
        ends = np.flatnonzero(ended[:steps]) + 1
        returns, lengths, still_open = _episodes(before.open_rewards, rewards, ends)
        if not before.seen_whole:
            returns, lengths = returns[1:], lengths[1:]

        made = before.outer_iterations + int(news.outer_iterations[lane])
        step = before.step + steps
        judged_at, evaluations = _evaluations(news.segments, lane, settings.learning_frequency, step, before.judged_at)
        queries, gradient_evaluations = self._work
        diverged_at = int(self._diverged_at[lane])
        report = RoundReport(
            round=self._rounds[lane],
            step=step,
            steps=steps,
            reward=float(rewards.mean(dtype=np.float64)) if steps else np.nan,
            returns=returns,
            lengths=lengths,
            episodes=before.episodes + len(ends),
            outer_iterations=made,
            queries=made * queries,
            gradient_evaluations=made * gradient_evaluations,
            epsilon=_epsilon(self._configuration, step, made, before.episodes + len(ends)),
            **{name: float(means[lane]) for name, means in news.diagnostics.items()},
            diverged_at=None if diverged_at < 0 else min(diverged_at, step),
            evaluations=evaluations,
        )
        self._so_far[lane] = _SoFar(
            step, report.episodes, made, judged_at, still_open, before.seen_whole or len(ends) > 0
        )
        return report


class _News(NamedTuple):
    """What all rounds did since they were last asked, with an axis of rounds first."""

    reward: np.ndarray  # of each step
    lived: np.ndarray  # steps, with those beyond the budget in the last block
    ended: np.ndarray  # whether each step ended an episode
    outer_iterations: np.ndarray
    diagnostics: dict[str, np.ndarray]
    segments: list[_Unread]


def _finite_means(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Each row's mean over the chosen values that are finite; NaN where there are none."""
    chosen = chosen & np.isfinite(values)
    counts = chosen.sum(1)
    return np.where(counts > 0, values.sum(1, dtype=np.float64, where=chosen) / np.maximum(counts, 1), np.nan)


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
    segments: list[_Unread], lane: int, block: int, step: int, judged_at: int
) -> tuple[int, tuple[GreedyEpisodes, ...]]:
    """Those made of a round, whose state is judged once only: a stopped round's at the end of all."""
    made = []
    for part in segments:
        at = _judged_at(part.blocks_done, block, step, judged_at, last=part.last)
        if part.evaluation is None or at is None:
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


def _judged_at(blocks_done: int, block: int, step: int, before: int, *, last: bool) -> int | None:
    """The step at which an evaluation judges a round that is at `step`; None if it judges others alone."""
    at = min(blocks_done * block, step)
    stopped_before = step <= (blocks_done - 1) * block
    return None if at == before or (stopped_before and not last) else at


def _epsilon(configuration: Configuration, step: int, outer_iterations: int, episodes: int) -> float:
    """What `srgdqn.learner.exploration` computes in the loop; called here, jax would compile it first."""
    budget, acting = budget_of(configuration.training), configuration.acting
    spent = {"steps": step, "outer_iterations": outer_iterations, "episodes": episodes}[budget.unit]
    ends = acting.epsilon_start, acting.epsilon_end
    return float(np.interp(spent / budget.amount, (0.0, acting.epsilon_fraction), ends))
