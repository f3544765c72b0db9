"""What a round on the host did since somebody last asked: the same rows as those of compiled rounds."""

from __future__ import annotations

import numpy as np

from srgdqn.host.gradient_noise import GradientNoise
from srgdqn.host.round import HostRound
from srgdqn.learner import evaluations_per_iteration, queries_per_iteration
from srgdqn.training.lane import TERMINATED, TRUNCATED
from srgdqn.training.reports import GreedyEpisodes, RoundReport


class RoundReports:
    """The reports of one round, computed when they are asked for."""

    def __init__(self, round_: HostRound, noise: GradientNoise | None = None, *, midway: bool = False) -> None:
        """`noise` measures the gradients' at every report, where it is given. `midway`: episodes are open whose
        beginnings were not seen, and which are not told of.
        """
        self._round, self._noise = round_, noise
        self._read, self._episodes = round_.blocks, 0
        self._evaluations: list[GreedyEpisodes] = []
        seats = round_.configuration.training.environments
        self._open_returns, self._open_lengths = np.zeros(seats), np.zeros(seats, int)
        self._seen_whole = np.full(seats, not midway)

    @property
    def up_to_date(self) -> bool:
        """Whether everything that was lived has been read."""
        return self._read == self._round.blocks

    def judged(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Takes note of an evaluation."""
        self._evaluations.append(GreedyEpisodes(self._round.steps, returns, lengths))

    def read(self) -> list[RoundReport]:
        """What the round did since the last call; nothing if it did nothing."""
        round_, diary = self._round, self._round.diary
        first = self._read - round_.blocks_forgotten
        rewards, flags, seats = diary.reward[first:], diary.flags[first:], diary.seats[first:]
        if not len(rewards) and not self._evaluations:
            return []
        self._read = round_.blocks
        returns, lengths = self._ended_episodes(rewards, flags, seats)
        self._episodes += len(returns)
        evaluations, self._evaluations = tuple(self._evaluations), []
        learnt = diary.diagnostics[first:]
        configuration = round_.configuration
        variance, distance = (None, None) if self._noise is None else self._noise.measure(round_)
        return [
            RoundReport(
                round=round_.number,
                step=round_.steps,
                steps=rewards.size,
                reward=float(np.mean(rewards, dtype=np.float64)) if rewards.size else np.nan,
                returns=np.array(returns),
                lengths=np.array(lengths, np.int32),
                episodes=self._episodes,
                outer_iterations=round_.iterations,
                queries=round_.iterations * queries_per_iteration(configuration),
                gradient_evaluations=round_.iterations * evaluations_per_iteration(configuration),
                epsilon=round_.exploration_rate,
                **dict(zip(("loss", "max_q", "delta_norm", "theta_norm"), _finite_means(learnt), strict=True)),
                diverged_at=round_.diverged_at,
                evaluations=evaluations,
                gradient_variance=variance,
                anchor_distance=distance,
            )
        ]

    def _ended_episodes(
        self, rewards: np.ndarray, flags: np.ndarray, seats: np.ndarray
    ) -> tuple[list[float], list[int]]:
        returns, lengths = [], []
        ended = (flags & (TERMINATED | TRUNCATED)) > 0
        for reward, end, seat in zip(*(part.ravel().tolist() for part in (rewards, ended, seats)), strict=True):
            self._open_returns[seat] += reward
            self._open_lengths[seat] += 1
            if end:
                if self._seen_whole[seat]:
                    returns.append(float(self._open_returns[seat]))
                    lengths.append(int(self._open_lengths[seat]))
                self._seen_whole[seat] = True
                self._open_returns[seat], self._open_lengths[seat] = 0.0, 0
        return returns, lengths


def _finite_means(values: np.ndarray) -> list[float]:
    finite = np.isfinite(values)
    counts = finite.sum(0)
    sums = np.where(finite, values, 0.0).sum(0)
    return [float(total / count) if count else np.nan for total, count in zip(sums, counts, strict=True)]
