"""The stages of a search: what runs, what it scores, and that nothing runs twice."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.config.algorithms import ADAM_STEPS, ALGORITHMS
from srgdqn.config.presets import PRESETS
from srgdqn.interrupts import StopRequestedError
from srgdqn.paper import cells as cells_module
from srgdqn.paper.cells import QUIET, Console, RunCell, compute
from srgdqn.paper.halving import PAPERS_OWN, Candidate, Grid
from srgdqn.paper.scores import values_of
from srgdqn.paper.tuning_search import (
    PROCEDURE,
    Arm,
    Procedure,
    Stage,
    StageCell,
    scores_of,
    step_sizes,
    trial_of,
    tune,
)
from srgdqn.runs.measurement import Measured
from tiny import TINY, tiny

SETTINGS = ({"eta": 0.01, "alpha": 0.001}, {"eta": 0.1, "alpha": 0.001}, {"eta": 1e30, "alpha": 0.001})


def cell(**options: Any) -> StageCell:
    return StageCell("stage", tiny(rounds=3, steps=None, episodes=120, **options)[0], SETTINGS)


def test_the_procedure_is_what_the_rules_ask_for() -> None:
    rounds, seeds = zip(*PROCEDURE.stages, strict=True)
    assert rounds[-1] >= 100
    assert list(rounds) == sorted(rounds)
    assert len(set(seeds)) == len(seeds)
    assert all(10_000 <= seed < 20_000 for seed in seeds)
    for task, preset in PRESETS.items():
        configuration = PROCEDURE.configuration(Arm(task, "srg-dqn", "mnih"), 2)
        training = configuration.training
        assert (training.steps, training.episodes) == (preset.get("steps"), preset.get("episodes"))  # the whole budget
        assert (training.rounds, training.seed, configuration.readings) == (*PROCEDURE.stages[2], "mnih")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_grids_have_the_step_sizes_that_count(algorithm: str) -> None:
    grid = PROCEDURE.grid(algorithm)
    plain = "no-adam" in algorithm or algorithm in ("sgd-inner", "dqn-gd") or algorithm.startswith("dqn-sgd")
    only_alpha = algorithm in (*ADAM_STEPS, "dqn-adam", "dqn-adam-repeated", "dqn-storm", "dqn-mars")
    expected = Grid((-2, 2), (0, 0)) if plain else Grid((0, 0), (-2, 2)) if only_alpha else Grid((-2, 2), (-2, 2))
    assert grid == expected
    assert step_sizes(algorithm) == (not only_alpha, not plain)


def test_candidates_are_factors_on_the_papers_own() -> None:
    arm = Arm("Pendulum", "srg-dqn", "corrected")
    assert PROCEDURE.settings(arm, PAPERS_OWN) == {"eta": 1e-3, "alpha": 1e-3}
    assert PROCEDURE.settings(arm, Candidate(2, -1)) == pytest.approx({"eta": 1e-2, "alpha": 1e-3 / 10**0.5})


@pytest.mark.parametrize(("fineness", "reach", "widening"), [(1, 1, 1), (2, 2, 1), (4, 4, 2)])
def test_a_finer_grid_reaches_as_far(fineness: int, reach: int, widening: int) -> None:
    """A decade to either side of the paper's own, and half a decade more each time (a whole one if there is none)."""
    fine = Procedure(values_per_decade=fineness)
    assert fine.grid("dqn-sgd") == Grid((-reach, reach), (0, 0))
    assert fine.settings(Arm("CartPole", "dqn-sgd", "mnih"), Candidate(reach, 0))["eta"] == pytest.approx(0.1)
    assert fine.widening == widening


def test_candidates_trained_together_score_as_each_does_alone(tmp_path: Path) -> None:
    mine = cell()
    alone = [RunCell(f"alone-{n}", mine.configuration.with_options(each)) for n, each in enumerate(SETTINGS)]
    outcomes = compute([mine, *alone], tmp_path)
    found = scores_of(outcomes["stage"])
    assert len(found) == 3
    for scores, run in zip(found, alone, strict=True):
        np.testing.assert_array_equal(scores, values_of(outcomes[run.name], "final").means)
    assert np.isnan(found[2]).all()  # it diverges
    assert np.isfinite(found[0]).all()


def test_a_stored_stage_is_valid_only_for_its_question(tmp_path: Path) -> None:
    said: list[str] = []
    console = Console(say=said.append)
    first = compute([cell()], tmp_path, console)["stage"]
    second = compute([cell()], tmp_path, console)["stage"]
    assert said == []
    assert second.tables["scores"].equals(first.tables["scores"])
    assert second.about == first.about
    others = StageCell("stage", cell().configuration, SETTINGS[:2])
    assert len(scores_of(compute([others], tmp_path, console)["stage"])) == 2
    compute([StageCell("stage", cell(seed=7).configuration, SETTINGS[:2])], tmp_path, console)
    assert said == ["stage is computed again: its candidates or their configuration have changed."] * 2


def test_a_stage_stops_when_asked_to() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(StopRequestedError):
        cell().compute(lambda share: None, stop, None, "local")


def test_scores_are_read_by_candidate_and_round() -> None:
    rows = {"candidate": [1, 0, 1, 0], "round": [1, 1, 0, 0], "score": [4.0, None, 3.0, 1.0]}
    found = scores_of(Measured({"scores": pl.DataFrame(rows)}, {}))
    np.testing.assert_array_equal(found, [[1.0, np.nan], [3.0, 4.0]])


def test_a_diverged_round_scores_the_floor() -> None:
    assert trial_of(np.array([1.0, np.nan]), -3.0) == (-1.0, 0.5)


# Whole searches in worlds that are made up


class World:
    """In place of `compute`: the scores that a rule gives to step sizes."""

    def __init__(self, rule: Any) -> None:
        self.rule, self.asked = rule, []

    def __call__(self, cells: Sequence[StageCell], folder: Path, console: Console) -> dict[str, Measured]:
        made = {}
        for each in cells:
            self.asked.append(each.name)
            training = each.configuration.training
            rows = []
            for place, settings in enumerate(each.settings):
                values = self.rule(each, settings)
                rounds = np.resize(np.asarray(values, float), training.rounds)
                scores = pl.Series("score", rounds).fill_nan(None)
                rows.append(pl.DataFrame({"candidate": place, "round": np.arange(training.rounds), "score": scores}))
            made[each.name] = Measured({"scores": pl.concat(rows)}, {"seconds": 0.5})
        return made


SMALL = Procedure(stages=(Stage(4, 10_001), Stage(8, 10_002), Stage(16, 10_003)))


def test_every_arm_gets_its_own_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best η is ten times the paper's for one arm and a tenth for another; α does not matter."""

    def rule(each: StageCell, settings: dict[str, float]) -> float:
        if "random" in each.name:
            return 0.0
        factor = settings["eta"] / PRESETS[each.configuration.task.task]["eta"]
        return 5.0 - abs(np.log10(factor) - (0.5 if "svr" in each.name else -0.5))

    world = World(rule)
    monkeypatch.setattr(cells_module, "compute", world)
    arms = [Arm(task, name, "mnih") for task in ("Pendulum", "CartPole") for name in ("svr-dqn", "srg-dqn")]
    found = tune(arms, tmp_path, QUIET, SMALL)
    for arm in arms:
        choice = found.choices[arm]
        assert choice.candidate == Candidate(1 if "svr" in arm.algorithm else -1, 0)
        assert (choice.widenings, choice.trial) == (0, (5.0, 0.0))
    assert len(world.asked) == len(set(world.asked))  # no cell runs twice
    assert sum("random" in name for name in world.asked) == 2
    assert found.seconds == pytest.approx(0.5 * len(world.asked))
    again = World(rule)
    monkeypatch.setattr(cells_module, "compute", again)
    assert tune(arms, tmp_path, QUIET, SMALL) == found
    assert again.asked == world.asked  # so that what is stored is found


def test_divergence_is_no_gain_in_tuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The random policy is above all that finishes; one of twenty rounds diverges with the largest steps."""

    def rule(each: StageCell, settings: dict[str, float]) -> Any:
        if "random" in each.name:
            return 6.0
        factor = settings["eta"] / PRESETS["CartPole"]["eta"]
        return [*[2.0] * 31, np.nan] if factor > 1.5 else [*[2.0] * 31, 1.0] if factor > 0.9 else 1.5

    monkeypatch.setattr(cells_module, "compute", World(rule))
    many = Procedure(stages=(Stage(32, 10_001), Stage(32, 10_002)))
    choice = tune([Arm("CartPole", "dqn-sgd", "corrected")], tmp_path, QUIET, many)
    [found] = choice.choices.values()
    # The diverged round scores the worst finished one of the paper's own settings, 1: a tie, which these win.
    assert (found.candidate, found.trial) == (PAPERS_OWN, (63 / 32, 0.0))


def test_the_floor_comes_from_the_reference_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(each: StageCell, settings: dict[str, float]) -> Any:
        if "random" in each.name:
            return 0.0
        if "dqn-adam" in each.name:
            return -7.0
        return [*[2.0] * 31, np.nan]

    monkeypatch.setattr(cells_module, "compute", World(rule))
    once = Procedure(stages=(Stage(32, 10_001),))
    arms = [Arm("Pendulum", name, "mnih") for name in ("dqn-sgd", "dqn-adam")]
    for reference, floor in (("dqn-sgd",), 0.0), (("dqn-sgd", "dqn-adam"), -7.0):
        found = tune(arms, tmp_path, QUIET, once, reference)
        assert found.choices[arms[0]].trial == ((31 * 2.0 + floor) / 32, 1 / 32)


def test_a_tiny_search_for_real(tmp_path: Path) -> None:
    options = {name: value for name, value in TINY.items() if name not in ("steps", "evaluation_interval")}
    small = Procedure((Stage(2, 10_001), Stage(3, 10_002)), 1, {"CartPole": {**options, "episodes": 101}})
    arms = [Arm("CartPole", "srg-dqn", "mnih"), Arm("CartPole", "dqn-sgd", "mnih")]
    said: list[str] = []
    found = tune(arms, tmp_path, Console(say=said.append), small)
    assert set(found.choices) == set(arms)
    stored = {path.name for path in (tmp_path / "cells").iterdir()}
    assert {"CartPole-random-mnih-stage-2-1", "CartPole-srg-dqn-mnih-stage-1-1"} <= stored
    again = tune(arms, tmp_path, Console(say=said.append), small)
    assert again == found
    assert said == []
