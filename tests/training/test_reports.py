"""Reports while a run goes on, against the tables that the same run leaves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.training import Progress, Trained, train_rounds
from srgdqn.training.reports import RoundReport, SharedProgress, no_reports
from tiny import LANES, STUBBORN, levers, tiny

Heard = dict[int, list[RoundReport]]


def train(*run: Any, every: int = 1, **engine: Any) -> tuple[Trained, Heard]:
    """Trains, and asks for reports at every so many segments of a chunk, and at its last."""
    heard: Heard = defaultdict(list)
    asked: dict[Callable, int] = defaultdict(int)

    def listen(progress: Progress) -> None:
        asked[progress.reports] += 1
        if asked[progress.reports] % every == 0 or progress.ended:
            for report in progress.reports():
                heard[report.round].append(report)

    return train_rounds(*run, listener=listen, **engine), heard


def rows(trained: Trained, table: str, number: int) -> dict[str, np.ma.MaskedArray]:
    columns = trained.tables[table]
    return {name: np.ma.asarray(column)[columns["round"] == number] for name, column in columns.items()}


def check(trained: Trained, heard: Heard, rounds: int) -> None:
    """What must agree whatever the budget, the segments and the reports' moments."""
    assert sorted(heard) == list(range(rounds))
    for number, reports in heard.items():
        (end,) = zip(*rows(trained, "rounds", number).values(), strict=True)
        whole = dict(zip(trained.tables["rounds"], end, strict=True))
        last = reports[-1]
        for name in ("episodes", "outer_iterations", "queries", "gradient_evaluations"):
            assert getattr(last, name) == whole[name]
        assert last.step == sum(report.steps for report in reports) == whole["steps"]
        assert [report.step for report in reports] == np.cumsum([report.steps for report in reports]).tolist()
        assert last.diverged_at == (None if whole["diverged_at"] is np.ma.masked else whole["diverged_at"])

        episodes = rows(trained, "episodes", number)
        assert np.concatenate([report.returns for report in reports]).tolist() == episodes["return"].tolist()
        assert np.concatenate([report.lengths for report in reports]).tolist() == episodes["length"].tolist()
        counts = [int((episodes["step"] <= report.step).sum()) for report in reports]
        assert [report.episodes for report in reports] == counts

        judged = rows(trained, "evaluations", number)
        made = [each for report in reports for each in report.evaluations]
        assert np.concatenate([each.returns for each in made]).tolist() == judged["return"].tolist()
        assert np.concatenate([each.lengths for each in made]).tolist() == judged["length"].tolist()
        assert np.repeat([e.step for e in made], [len(e.returns) for e in made]).tolist() == judged["step"].tolist()


BUDGETS: list[dict[str, int]] = [dict(steps=330), dict(outer_iterations=30), dict(episodes=60)]


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: next(iter(budget)))
def test_reports_add_up_to_the_tables(budget: dict[str, int], every: int) -> None:
    cap = dict(episode_cap=6) if "episodes" in budget else {}
    chosen = levers(rounds=6, learning_starts=16, evaluation_interval=50, **budget, **cap)
    trained, heard = train(*chosen, STUBBORN, every=every, segment_blocks=2)
    check(trained, heard, 6)
    for number, reports in heard.items():
        # A window is a single step here: the steps of a report are as many windows.
        curves = rows(trained, "curves", number)
        edges = np.cumsum([report.steps for report in reports])
        for report, part in zip(reports, np.split(curves["reward"], edges[:-1]), strict=True):
            if report.steps:  # the last may hold nothing but the evaluation at the end
                assert report.reward == pytest.approx(part.mean(), rel=1e-12)


def test_diagnostics_are_those_of_the_curves(each_kernel: str) -> None:
    """With windows as long as the segments there is a report for every row."""
    trained, heard = train(*tiny(rounds=6, steps=192, window=48, kernel=each_kernel), segment_blocks=3)
    check(trained, heard, 6)
    for number, reports in heard.items():
        curves = rows(trained, "curves", number)
        assert [report.step for report in reports] == curves["step"].tolist()
        for name in ("reward", "loss", "max_q", "delta_norm", "theta_norm"):
            values = [getattr(report, name) for report in reports]
            expected = curves[name].filled(np.nan).tolist()
            assert values == pytest.approx(expected, rel=1e-12, nan_ok=True)
        for name in ("queries", "gradient_evaluations", "episodes"):
            assert [getattr(report, name) for report in reports] == curves[name].tolist()
    assert math.isfinite(reports[-1].loss)


def test_episodes_are_whole_whatever_the_segments() -> None:
    """Episodes that go on over many segments, on boards that are given up as rounds diverge."""
    options = dict(rounds=3 * LANES, steps=400, time_limit=None, eta=0.3, evaluation_interval=96)
    trained, heard = train(*tiny(**options), segment_blocks=1, workers=1)
    diverged = np.ma.count(trained.tables["rounds"]["diverged_at"])
    assert LANES < diverged < 3 * LANES
    assert max(trained.tables["episodes"]["length"]) > 48
    check(trained, heard, 3 * LANES)


def test_a_round_that_diverges_says_so_once_and_is_silent_then() -> None:
    trained, heard = train(*tiny(rounds=2, eta=1e6), segment_blocks=1)
    check(trained, heard, 2)
    for number, reports in heard.items():
        told = [report for report in reports if report.diverged_at is not None and report.steps]
        assert len(told) == 1
        assert told[0].step == told[0].diverged_at == trained.tables["rounds"]["diverged_at"][number]


@pytest.mark.parametrize(("budget", "expected"), [(dict(steps=160), 160), (dict(outer_iterations=10), 10)])
def test_epsilon_declines_over_the_budget(budget: dict[str, int], expected: int) -> None:
    _, heard = train(
        *tiny(rounds=1, epsilon_start=1.0, epsilon_end=0.2, epsilon_fraction=0.5, **budget), segment_blocks=1
    )
    spent = "step" if "steps" in budget else "outer_iterations"
    for report in heard[0]:
        share = min(getattr(report, spent) / expected / 0.5, 1.0)
        assert report.epsilon == pytest.approx(1.0 - 0.8 * share, abs=1e-6)


def test_what_nobody_asks_for_is_let_go() -> None:
    ends: list[Progress] = []
    train_rounds(*tiny(rounds=6), listener=lambda progress: ends.append(progress) if progress.ended else None)
    assert ends
    assert [progress.reports() for progress in ends] == [[] for _ in ends]


# Several jobs as one


def told(share: float, diverged: int = 0, steps: int = 16) -> Progress:
    return Progress(share, steps, 0.5, diverged, ended=share == 1.0, reports=no_reports)


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1), st.integers(0, 5)), max_size=20))
def test_it_is_the_mean_of_the_shares_and_the_sum_of_those_that_diverged(news: list[tuple[int, float, int]]) -> None:
    heard: list[Progress] = []
    shared = SharedProgress(heard.append, [1, 2, 5])
    listeners = [shared.of(number) for number in range(3)]
    shares, diverged = [0.0] * 3, [0] * 3
    for number, share, frozen in news:
        listeners[number](told(share, frozen))
        shares[number], diverged[number] = share, frozen
        assert heard[-1].share == pytest.approx((shares[0] + 2 * shares[1] + 5 * shares[2]) / 8)
        assert heard[-1].diverged == sum(diverged)
        assert heard[-1]._replace(share=share, diverged=frozen) == told(share, frozen)  # the rest is as it was told
    assert len(heard) == len(news)
    for number in range(3):
        shared.leave_out(number)
    listeners[0](told(0.5))
    assert heard[-1].share == pytest.approx(7.5 / 8)
