"""What a round on the host did since somebody last asked: the same rows as those of compiled rounds."""

from __future__ import annotations

import numpy as np

from srgdqn.learner.outer_iteration import evaluations_per_iteration, queries_per_iteration
from srgdqn.training.host.gradient_noise import GradientNoise
from srgdqn.training.host.round import HostRound
from srgdqn.training.reports import GreedyEpisodes, RoundReport
from srgdqn.training.window_rows import Carry, OpenEpisodes, ended_episodes


class RoundReports:
    """The reports of one round, computed when they are asked for."""

    def __init__(
        self,
        round_: HostRound,
        noise: GradientNoise | None = None,
        *,
        midway: bool = False,
        reached: Carry | None = None,
    ) -> None:
        """`noise` measures the gradients' at every report, where it is given. `midway`: episodes are open whose
        beginnings were not seen, and which are not told of. `reached`: what the round has come to by now, if anything.
        """
        self._round, self._noise = round_, noise
        self._read = round_.blocks
        self._evaluations: list[GreedyEpisodes] = []
        seats = round_.configuration.training.environments
        self._episodes = 0 if reached is None else reached.episodes
        self._open = OpenEpisodes(np.zeros(seats), np.zeros(seats, np.int64))
        if reached is not None:
            self._open = reached.open_episodes
        elif midway:
            self._open = OpenEpisodes(np.full(seats, np.nan), np.ones(seats, np.int64))
        self._news = _News()

    @property
    def up_to_date(self) -> bool:
        """Whether everything that was lived has been read."""
        return self._read == self._round.blocks and not self._news.steps

    def judged(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Takes note of an evaluation."""
        self._evaluations.append(GreedyEpisodes(self._round.steps, returns, lengths))

    def note(self) -> None:
        """Takes note of the newest blocks, before the round forgets them."""
        round_, diary, news = self._round, self._round.diary, self._news
        first = self._read - round_.blocks_forgotten
        rewards, flags, seats = (part[first:].ravel() for part in (diary.reward, diary.flags, diary.seats))
        self._read = round_.blocks
        if not rewards.size:
            return
        rewards = rewards.astype(np.float64)
        several = len(self._open.returns) > 1
        self._open, ended = ended_episodes(self._open, rewards, flags, seats if several else None)
        known = np.isfinite(ended["return"])  # the others began before anybody saw
        news.returns.append(ended["return"][known])
        news.lengths.append(ended["length"][known])
        news.steps += rewards.size
        news.reward += float(rewards.sum())
        learnt = diary.diagnostics[first:]
        finite = np.isfinite(learnt)
        news.sums += np.where(finite, learnt, 0.0).sum(0)
        news.counts += finite.sum(0)

    def read(self) -> list[RoundReport]:
        """What the round did since the last call; nothing if it did nothing."""
        self.note()
        round_, news, evaluations = self._round, self._news, tuple(self._evaluations)
        if not news.steps and not evaluations:
            return []
        self._news, self._evaluations = _News(), []
        returns, lengths = np.concatenate([np.zeros(0), *news.returns]), np.concatenate([np.zeros(0), *news.lengths])
        self._episodes += len(returns)
        configuration = round_.configuration
        variance, distance = (None, None) if self._noise is None else self._noise.measure(round_)
        return [
            RoundReport(
                round=round_.number,
                step=round_.steps,
                steps=news.steps,
                reward=news.reward / news.steps if news.steps else np.nan,
                returns=returns,
                lengths=lengths.astype(np.int32),
                episodes=self._episodes,
                outer_iterations=round_.iterations,
                queries=round_.iterations * queries_per_iteration(configuration),
                gradient_evaluations=round_.iterations * evaluations_per_iteration(configuration),
                epsilon=round_.exploration_rate,
                **dict(zip(("loss", "max_q", "delta_norm", "theta_norm"), news.means(), strict=True)),
                diverged_at=round_.diverged_at,
                evaluations=evaluations,
                gradient_variance=variance,
                anchor_distance=distance,
            )
        ]


class _News:
    """What happened since the last report."""

    def __init__(self) -> None:
        self.steps, self.reward = 0, 0.0
        self.returns: list[np.ndarray] = []
        self.lengths: list[np.ndarray] = []
        self.sums, self.counts = np.zeros(4), np.zeros(4, int)

    def means(self) -> list[float]:
        """Of the diagnostics that are finite."""
        totals = zip(self.sums.tolist(), self.counts.tolist(), strict=True)
        return [total / count if count else np.nan for total, count in totals]
