"""Loggers receive all reports as named numbers, and nothing they do ends a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from reported import report
from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.integrations import logging_to
from srgdqn.integrations.loggers import Scalars
from srgdqn.training import Progress, train_rounds
from srgdqn.training.reports import GreedyEpisodes, RoundReport
from tiny import tiny


class Notes:
    """A logger that remembers, and may fail."""

    def __init__(self, fails: str = "", error: BaseException | None = None) -> None:
        self.calls: list[str] = []
        self.reports: list[RoundReport] = []
        self._fails, self._error = fails, error or OSError("the disk is full")

    def __str__(self) -> str:
        return "the notebook"

    def start(self, configuration: Configuration, about: Any) -> None:
        self.configuration, self.about = configuration, about
        self._note("start")

    def log(self, reports: Sequence[RoundReport]) -> None:
        self._note("log")
        self.reports += reports

    def close(self) -> None:
        self._note("close")

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call == self._fails:
            raise self._error


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("srgdqn.integrations.loggers.time.monotonic", lambda: self.now)


def progress(share: float, reports: Any, ended: bool = False) -> Progress:
    return Progress(share, 0, 0.0, 0, ended, reports)


def test_reports_add_up_to_the_run() -> None:
    configuration, task = tiny(rounds=6, steps=400)
    notes, shares = Notes(), []
    with logging_to(configuration, [notes], lambda progress: shares.append(progress.share)) as listener:
        trained = train_rounds(configuration, task, listener=listener, segment_blocks=1)
    assert notes.configuration == configuration
    assert notes.about["versions"]["jax"]
    assert len(shares) > 20
    for number in range(6):
        mine = [each for each in notes.reports if each.round == number]
        assert sum(each.steps for each in mine) == 400
        episodes = trained.tables["episodes"]
        returns = np.concatenate([each.returns for each in mine])
        assert returns.tolist() == episodes["return"][episodes["round"] == number].tolist()
    assert notes.calls[0] == "start"
    assert notes.calls[-1] == "close"
    assert set(notes.calls[1:-1]) == {"log"}


def test_rounds_are_asked_by_share_or_by_the_clock_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(monkeypatch), []

    def reports(name: str) -> Any:
        def read() -> list[RoundReport]:
            asked.append(name)
            return [report()]

        return read

    a, b, c = (reports(name) for name in "abc")
    notes = Notes()
    with logging_to(tiny()[0], [notes]) as listener:
        for share in (0.001, 0.002, 0.003):
            listener(progress(share, a))
        assert asked == ["a"]
        listener(progress(0.0065, a))  # more than half a per cent on
        assert asked == ["a", "a"]
        listener(progress(0.0066, b))  # another chunk
        listener(progress(0.0067, b))
        assert asked == ["a", "a", "b"]
        clock.now = 0.3
        listener(progress(0.0068, b))
        listener(progress(0.0069, b))
        assert asked == ["a", "a", "b", "b"]
        clock.now = 10_000.0
        listener(progress(0.0070, c))
        clock.now += 4.9  # in a long run, seldomer
        listener(progress(0.0071, c))
        assert asked == ["a", "a", "b", "b", "c"]
        listener(progress(0.0072, c, ended=True))
        assert asked == ["a", "a", "b", "b", "c", "c"]
    assert asked == ["a", "a", "b", "b", "c", "c", "b"]  # which had more to tell
    assert len(notes.reports) == 7


@pytest.mark.parametrize("call", ["start", "log", "close"])
def test_a_logger_that_fails_is_dropped_with_one_warning(call: str, capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = Notes(fails=call), Notes()
    with logging_to(tiny()[0], [bad, good]) as listener:
        for share in (0.1, 0.2, 0.3):
            listener(progress(share, lambda: [report()]))
    warning = "warning: the notebook is no longer written: the disk is full. Training continues.\n"
    assert capsys.readouterr().err == warning
    assert good.calls == ["start", "log", "log", "log", "close"]
    assert bad.calls.count("log") == {"start": 0, "log": 1, "close": 3}[call]


def test_an_input_error_ends_the_run_before_it_begins() -> None:
    first, second = Notes(), Notes(fails="start", error=InputError("no such project."))
    with (
        pytest.raises(InputError, match="no such project"),
        logging_to(tiny()[0], [first, second]),
    ):
        raise AssertionError("the run began")
    assert first.calls == ["start", "close"]


def test_an_interrupt_is_no_failure_of_a_logger() -> None:
    notes = Notes(fails="log", error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), logging_to(tiny()[0], [notes]) as listener:
        listener(progress(0.1, lambda: [report()]))
    assert notes.calls[-1] == "close"


NUMBERS = st.floats(-1e3, 1e3)


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.tuples(NUMBERS, st.integers(1, 500)), max_size=130))))
def test_means_are_over_each_rounds_last_hundred_episodes(heard: list) -> None:
    scalars = Scalars()
    ended: dict[int, list] = {0: [], 1: [], 2: []}
    for number, episodes in heard:
        ended[number] += episodes
        returns, lengths = [e[0] for e in episodes], [e[1] for e in episodes]
        ((_, values),) = scalars.rows(report(number, returns=returns, lengths=lengths), 1.0)
        last = ended[number][-100:]
        if not last:
            assert values["rollout/ep_rew_mean"] is values["rollout/ep_len_mean"] is None
        else:
            assert values["rollout/ep_rew_mean"] == pytest.approx(np.mean([e[0] for e in last]), abs=1e-9)
            assert values["rollout/ep_len_mean"] == pytest.approx(np.mean([e[1] for e in last]))


def test_numbers_are_named_as_in_stable_baselines3() -> None:
    given = report(step=320, reward=-1.5, episodes=7, gradient_variance=0.125, anchor_distance=5.0)
    assert Scalars().rows(given, 4.0) == [
        (
            320,
            {
                "rollout/ep_rew_mean": None,
                "rollout/ep_len_mean": None,
                "rollout/reward": -1.5,
                "rollout/exploration_rate": 0.1,
                "time/episodes": 7,
                "time/fps": 80.0,
                "train/loss": 0.25,
                "train/n_updates": 20,
                "train/max_q": 2.0,
                "train/delta_norm": 3.0,
                "train/theta_norm": 4.0,
                "train/gradient_variance": 0.125,
                "train/anchor_distance": 5.0,
                "train/queries": 160,
                "train/gradient_evaluations": 180,
            },
        )
    ]


def test_what_is_not_finite_is_none() -> None:
    ((_, values),) = Scalars().rows(report(returns=[np.inf], reward=np.nan, loss=np.nan, max_q=np.inf), 0.0)
    missing = {name for name, value in values.items() if value is None}
    assert missing >= {"rollout/ep_rew_mean", "rollout/reward", "time/fps", "train/loss", "train/max_q"}


def test_evaluations_stand_at_their_own_steps_and_in_order() -> None:
    made = [GreedyEpisodes(step, np.array([step, step + 2.0]), np.array([3, 4])) for step in (60, 80, 100)]
    first, second, last = Scalars().rows(report(step=100, evaluations=tuple(made)), 1.0)
    assert first == (60, {"eval/mean_reward": 61.0, "eval/mean_ep_length": 3.5})
    assert second == (80, {"eval/mean_reward": 81.0, "eval/mean_ep_length": 3.5})
    assert last[0] == 100
    assert last[1]["eval/mean_reward"] == 101.0
    assert last[1]["train/loss"] == 0.25
