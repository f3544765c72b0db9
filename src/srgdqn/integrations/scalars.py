"""What a round did as named numbers: the names that people know from Stable-Baselines3, and ours."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srgdqn.training.reports import GreedyEpisodes, RoundReport

RECENT = 100
"""Episodes that the means of returns and lengths are over: the last ones."""

RETURN, LENGTH = "rollout/ep_rew_mean", "rollout/ep_len_mean"
REWARD = "rollout/reward"
EPSILON = "rollout/exploration_rate"
EPISODES = "time/episodes"
ITERATIONS = "train/n_updates"
LOSS, MAX_Q = "train/loss", "train/max_q"

Values = dict[str, float | None]


class Scalars:
    """The numbers of all rounds' reports. It remembers their last episodes."""

    def __init__(self) -> None:
        self._returns: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))
        self._lengths: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))

    def rows(self, report: RoundReport, seconds: float) -> list[tuple[int, Values]]:
        """Steps and the numbers that belong to them, in order; None for a number that there is not. `seconds` have
        passed since the run began.
        """
        greedy = {evaluation.step: _greedy(evaluation) for evaluation in report.evaluations}
        last = {**self._training(report, seconds), **greedy.pop(report.step, {})}
        return [*greedy.items(), (report.step, last)]

    def _training(self, report: RoundReport, seconds: float) -> Values:
        returns, lengths = self._returns[report.round], self._lengths[report.round]
        returns.extend(report.returns.tolist())
        lengths.extend(report.lengths.tolist())
        return {
            RETURN: _mean(returns),
            LENGTH: _mean(lengths),
            REWARD: _finite(report.reward),
            EPSILON: _finite(report.epsilon),
            EPISODES: report.episodes,
            "time/fps": report.step / seconds if seconds > 0 else None,
            LOSS: _finite(report.loss),
            ITERATIONS: report.outer_iterations,
            MAX_Q: _finite(report.max_q),
            "train/delta_norm": _finite(report.delta_norm),
            "train/theta_norm": _finite(report.theta_norm),
            "train/gradient_variance": _finite(report.gradient_variance),
            "train/anchor_distance": _finite(report.anchor_distance),
            "train/queries": report.queries,
            "train/gradient_evaluations": report.gradient_evaluations,
        }


def _greedy(evaluation: GreedyEpisodes) -> Values:
    return {
        "eval/mean_reward": float(evaluation.returns.mean()),
        "eval/mean_ep_length": float(evaluation.lengths.mean()),
    }


def _mean(values: deque[float]) -> float | None:
    return _finite(sum(values) / len(values)) if values else None


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
