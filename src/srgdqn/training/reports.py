"""Progress of rounds for whoever watches a run, with reports of what each round did since the last one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from srgdqn.config import Configuration
from srgdqn.learner.exploration import epsilon
from srgdqn.learner.outer_iteration import evaluations_per_iteration, queries_per_iteration
from srgdqn.training.budget import budget_of
from srgdqn.training.recorder import GreedyEpisodes, MeasuredDirection, Recorder


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
    directions: tuple[MeasuredDirection, ...] = ()  # measured since, where that is asked for
    gradient_variance: float | None = None  # these two only where they are measured
    anchor_distance: float | None = None
    logged: Mapping[str, float] = {}  # by the estimator: means like those above


Reports = Callable[[], list[RoundReport]]
"""Returns what some rounds did since this same function was last called; a round that did nothing is left out."""


def no_reports() -> list[RoundReport]:
    """The reports of rounds that nobody can ask about."""
    return []


class Progress(NamedTuple):
    """How far some rounds are."""

    share: float  # of the whole run's budget
    steps: int  # environment steps since the last progress, over these rounds
    reward: float  # their mean reward
    diverged: int  # rounds frozen so far
    ended: bool = False  # whether they are done: what they have to report is dropped after this
    reports: Reports = no_reports  # the same for all progress of these rounds; computes nothing before it is called


Listener = Callable[[Progress], None]


def finished(diverged: int) -> Progress:
    """The progress of rounds that had come to their end before, so many of which have diverged."""
    return Progress(1.0, 0, float("nan"), diverged, ended=True)


class ProgressReporter:
    """Reports the progress of a recorder's rounds to a listener."""

    def __init__(
        self,
        recorder: Recorder,
        configuration: Configuration,
        rounds: Sequence[int],
        listener: Listener,
        *,
        steps_before: int = 0,
        measure_noise: Callable[[], tuple[float | None, float | None]] | None = None,
    ) -> None:
        """Of these rounds, from what is recorded by now. The first `steps_before` steps are not part of the budget.
        `measure_noise` measures the gradients' variance and the anchor's distance at every report.
        """
        self._recorder, self._configuration, self._rounds, self._listener = recorder, configuration, rounds, listener
        self._steps_before, self._measure_noise = steps_before, measure_noise
        self._diverged_at = np.full(len(rounds), -1)
        self._evaluations: list[GreedyEpisodes] = []
        self._ended = False
        recorder.news()  # of what was there before

    def report(self, diverged_at: np.ndarray, *, whole: bool = False, ended: bool = False) -> None:
        """Reports what has been recorded since the last call, given at which step each round diverged (-1: it did not).
        `whole`: the rounds have come to their end; `ended`: nothing more will be reported.
        """
        self._diverged_at = np.array(diverged_at)[: len(self._rounds)]
        steps, reward = self._recorder.totals()
        diverged = int((self._diverged_at >= 0).sum())
        self._listener(Progress(1.0 if whole else self._progress(), steps, reward, diverged, ended, self.read))
        self._ended = ended

    def add_evaluation(self, step: int, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Adds greedy episodes that were played outside of the recorded evaluations, for the next report."""
        self._evaluations.append(GreedyEpisodes(step, returns, lengths))

    def read(self) -> list[RoundReport]:
        """What each round did since the last call."""
        if self._ended:
            return []
        others, self._evaluations = tuple(self._evaluations), []
        queries, evaluations = (
            queries_per_iteration(self._configuration),
            evaluations_per_iteration(self._configuration),
        )
        reports = []
        for number, diverged_at, news in zip(self._rounds, self._diverged_at, self._recorder.news(), strict=True):
            news = news._replace(evaluations=news.evaluations + others)
            if not news.steps and not news.evaluations:
                continue
            variance, distance = (None, None) if self._measure_noise is None else self._measure_noise()
            spent = self._share(news.step, news.outer_iterations, news.episodes)
            reports.append(
                RoundReport(
                    round=number,
                    **news._asdict(),
                    queries=news.outer_iterations * queries,
                    gradient_evaluations=news.outer_iterations * evaluations,
                    epsilon=float(epsilon(self._configuration.acting, np.float64(spent), news.outer_iterations > 0)),
                    diverged_at=None if diverged_at < 0 else min(int(diverged_at), news.step),
                    gradient_variance=variance,
                    anchor_distance=distance,
                )
            )
        return reports

    def _progress(self) -> float:
        """The share of the budget that the rounds have spent, as far as they have not stopped."""
        recorder, settings = self._recorder, self._configuration.training
        iterations = settings.gradient_steps * (recorder.blocks - settings.first_learning_block)
        return self._share(recorder.steps, max(iterations, 0), recorder.episodes / len(self._rounds))

    def _share(self, steps: int, iterations: int, episodes: float) -> float:
        budget = budget_of(self._configuration.training)
        spent = {"steps": steps - self._steps_before, "outer_iterations": iterations, "episodes": episodes}[budget.unit]
        return float(min(spent / budget.amount, 1.0))


class SharedProgress:
    """The progress of several jobs as one, each with its weight, reported from any thread."""

    def __init__(self, listener: Listener, weights: Sequence[int]) -> None:
        self._listener, self._lock, self._weights = listener, threading.Lock(), np.array(weights, float)
        self._shares, self._diverged = np.zeros(len(weights)), np.zeros(len(weights), int)

    def leave_out(self, number: int) -> None:
        """Counts one of them as done."""
        with self._lock:
            self._shares[number] = 1.0

    def of(self, number: int) -> Listener:
        """A listener for one of them."""

        def listen(progress: Progress) -> None:
            with self._lock:
                self._shares[number], self._diverged[number] = progress.share, progress.diverged
                done = float(np.average(self._shares, weights=self._weights))
                whole = progress._replace(share=done, diverged=int(self._diverged.sum()))
                self._listener(whole)

        return listen
