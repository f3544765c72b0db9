"""Scores of made-up cells: divergence is counted, and never a gain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from srgdqn.errors import InputError
from srgdqn.results.comparison import areas, final_rewards
from srgdqn.results.scores import worst_finished
from srgdqn.sweeps.grid import Base, GridPlan
from srgdqn.sweeps.heat_maps import sweep_figure
from srgdqn.sweeps.scores import row_of, score_of
from srgdqn.sweeps.sweep import Sweep
from synthetic_runs import synthetic


def made(cells: Sequence[tuple[float, Sequence[int]]], *, rounds: int = 3, score: str = "final-reward") -> Sweep:
    """A sweep of one cell for each pair: the reward it is about, and which of its rounds diverge early on."""
    etas = [10.0**-place for place in range(len(cells))]
    grid = GridPlan(Base("MountainCar", "srg-dqn", options={"rounds": rounds, "steps": 5_000}), {"eta": etas})
    results = tuple(
        synthetic(rounds=rounds, steps=5_000, noise=place, level=level, diverged=dict.fromkeys(lost, 1_500) or None)
        for place, (level, lost) in enumerate(cells)
    )
    finished = tuple(cell.values for cell in grid.cells.values())
    asked: Any = score
    return Sweep(grid.base, grid.as_words(), score=asked, finished=finished, results=results, planned=len(cells))


def test_a_diverged_round_scores_the_worst_that_finished_in_any_cell() -> None:
    sweep = made([(0.0, ()), (50.0, (1,)), (100.0, (0, 1, 2))])
    worst = min(final_rewards(sweep.result(0)).values())
    assert sweep.diverged_score == pytest.approx(worst)
    kept = final_rewards(sweep.result(1))
    assert set(kept) == {0, 2}
    scores = sweep.table["score"].to_list()
    assert scores[1] == pytest.approx((kept[0] + kept[2] + worst) / 3)
    assert scores[2] == pytest.approx(worst)  # however good it was before
    assert scores[0] > scores[2]


def test_by_area_a_diverged_round_scores_the_worst_and_by_solved_nothing() -> None:
    """Synthetic runs are evaluated once, so that their area is their last return."""
    sweep = made([(0.0, ()), (0.0, (1,))], score="area")
    one, other = (areas(result) for result in sweep.results)
    worst = min(*one.values(), other[0], other[2])
    assert sweep.diverged_score == worst
    assert sweep.table["score"].to_list() == pytest.approx([sum(one.values()) / 3, (other[0] + worst + other[2]) / 3])
    solving = dataclasses.replace(sweep, score="solved", threshold=-150.0)
    solved = [[value >= -150 for value in one.values()], [other[0] >= -150, False, other[2] >= -150]]
    assert solving.table["score"].to_list() == pytest.approx([sum(each) / 3 for each in solved])
    assert solving.diverged_score is None


def test_a_tie_is_one_but_for_rounding() -> None:
    sweep = made([(0.0, ()), (0.0, ()), (-50.0, ())])
    vars(sweep)["table"] = sweep.table.with_columns(score=pl.Series([0.1 + 0.2, 0.3, 0.2]))
    assert sweep.tied == (0, 1)
    with pytest.raises(InputError, match="cells 0, 1 tie by their final-reward"):
        _ = sweep.best


def test_a_round_that_diverged_at_the_very_end_is_no_finished_one() -> None:
    result = synthetic(rounds=3, steps=5_000, diverged={1: 4_900})  # in the midst of the final stretch
    rewards = final_rewards(result)
    assert set(rewards) == {0, 1, 2}
    assert worst_finished([result], "final-reward") == min(rewards[0], rewards[2])
    score = score_of(result, "final-reward", -7.0)
    assert (score.rounds, score.mean) == (3, pytest.approx((rewards[0] - 7.0 + rewards[2]) / 3))


def test_where_no_round_finished_there_is_no_score() -> None:
    sweep = made([(0.0, (0, 1, 2)), (5.0, (0, 1, 2))])
    assert (sweep.diverged_score, sweep.table["score"].to_list()) == (None, [None, None])
    with pytest.raises(InputError, match=r"none is the best\. Let some rounds finish"):
        _ = sweep.best
    sweep_figure(sweep).draw_without_rendering()
    assert worst_finished([], "final-reward") is None


def test_what_often_diverges_is_best_only_if_there_is_no_other() -> None:
    better = made([(0.0, ()), (50.0, (1,))])
    assert better.table["score"][1] > better.table["score"][0]
    assert (better.table["often_diverged"].to_list(), better.best) == ([False, True], 0)
    by_return = made([(0.0, ()), (50.0, (1,))], score="greedy-return")
    assert (by_return.diverged_score, by_return.best) == (None, 0)
    alone = made([(9.0, (0, 1)), (0.0, (0,)), (5.0, (1,))])
    assert (alone.tied, alone.best) == ((2,), 2)  # of those that lost the smallest share, the highest score


def test_a_twentieth_is_not_too_many() -> None:
    sweep = made([(0.0, ()), (50.0, (3,)), (100.0, (3, 4))], rounds=20)
    assert sweep.table["often_diverged"].to_list() == [False, False, True]
    assert sweep.best == 1


def test_by_greedy_return_every_round_counts_with_its_last_parameters() -> None:
    result = synthetic(rounds=3, steps=5_000, diverged={1: 4_900})
    last = result.evaluations.filter(pl.col("step") == pl.col("step").max().over("round"))
    means = last.group_by("round").agg(pl.col("return").mean())["return"]
    row = row_of(result, "greedy-return", None)
    assert (row["score"], row["diverged"], row["often_diverged"]) == (pytest.approx(means.mean()), 1, True)
    assert score_of(result, "greedy-return", None).rounds == 3


def test_the_figure_marks_what_often_diverges_and_says_what_it_scores() -> None:
    often = sweep_figure(made([(0.0, ()), (50.0, (1,))]))
    assert [text.get_text() for text in often.axes[0].texts] == ["×1†"]
    caption = " ".join(often._supxlabel.get_text().split())  # type: ignore[attr-defined]
    assert "scored as the worst that finished (-" in caption
    assert "†: more than a twentieth" in caption
    seldom = sweep_figure(made([(0.0, ()), (50.0, (3,))], rounds=20))
    assert [text.get_text() for text in seldom.axes[0].texts] == ["×1"]
    assert "†" not in seldom._supxlabel.get_text()  # type: ignore[attr-defined]


def test_in_a_heat_map_over_others_what_often_diverges_comes_after_them() -> None:
    values: dict[str, Any] = {"eta": [0.1, 0.2], "gamma": [0.5], "batch_size": list(range(1, 14))}
    grid = GridPlan(Base("MountainCar", "srg-dqn", options={"rounds": 3, "steps": 5_000}), values)
    best: dict[str, Any] = {"level": 50.0, "diverged": {0: 1_500}}
    made_up = [synthetic(rounds=3, steps=5_000, noise=place, **(best if place == 4 else {})) for place in range(26)]
    finished = tuple(cell.values for cell in grid.cells.values())
    sweep = Sweep(
        grid.base, grid.as_words(), score="final-reward", finished=finished, results=tuple(made_up), planned=26
    )
    scores = sweep.table["score"].to_list()
    assert max(scores) == scores[4]
    [axes] = [axes for axes in sweep_figure(sweep).axes if axes.get_label() != "<colorbar>"]
    shown = axes.images[0].get_array()
    assert shown is not None
    steady = [score for place, score in enumerate(scores[:13]) if place != 4]
    assert shown.ravel().tolist() == pytest.approx([max(steady), max(scores[13:])])
