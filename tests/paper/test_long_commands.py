"""The long commands on outcomes that are planted instead of computed."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srgdqn.paper import cells as commands
from srgdqn.paper import readings_study, tuning
from srgdqn.paper.cells import Console
from srgdqn.paper.claims import Judgement, rules
from srgdqn.paper.claims.rules import MeasuredContrast
from srgdqn.paper.scale import CONFIRMATORY
from srgdqn.results.statistics import Interval
from synthetic_outcomes import DOSES, PILOT, TASKS, planted_run

SCALE = dataclasses.replace(
    CONFIRMATORY,
    doses=DOSES,
    controls=dict.fromkeys(TASKS, ("sgd-inner", "sgd-inner-adam")),
)


class Heard:
    """A console that remembers."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, list[str]]] = []
        self.shares: list[tuple[str, float]] = []
        self.console = Console(
            lambda title, names: self.begun.append((title, list(names))),
            lambda name, share: self.shares.append((name, share)),
            lambda text: None,
        )


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RESAMPLES", 1_000)
    monkeypatch.setattr(tuning, "read_pilot", lambda: PILOT)


def answering(outcomes: dict[str, Any], folders: list[Path]) -> Any:
    """In place of `compute`: what was planted for the very cells that are asked for."""

    def compute(cells: Sequence[Any], folder: Path, *_: Any) -> dict[str, Any]:
        folders.append(folder)
        return {cell.name: outcomes[cell.name] for cell in cells}

    return compute


def test_tuned_arms_are_judged_on_what_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = dataclasses.replace(SCALE, lanes=3)
    asked: dict[str, Any] = {}

    def compute(cells: Sequence[Any], folder: Path, *_: Any) -> dict[str, Any]:
        assert folder == tmp_path / "tuned" / "cells"
        made = {}
        for cell in cells:
            asked[cell.name] = cell.configuration
            best = cell.name.endswith("-07")  # of all candidates
            ours = "-srg-dqn-tuned" in cell.name
            level = 0.0 if "random" in cell.name else 3.0 if best else 2.0 if ours else 1.0
            spread = np.array([-1.0, 0.0, 1.0]) * (0.01 if ours else 0.1)
            options = {name: cell.configuration.options()[name] for name in ("eta", "alpha")}
            task, algorithm = cell.configuration.task.task, cell.configuration.algorithm
            made[cell.name] = planted_run(task, algorithm, level + spread, **options)
        return made

    monkeypatch.setattr(commands, "compute", compute)
    evidence = tuning.tune(tmp_path, Heard().console, small)
    for task in ("MountainCar", "Pendulum", "CartPole"):
        for arm in tuning.ARMS:
            chosen = tuning.candidates(arm)[7].options(task)
            settings = asked[f"{task}-{arm}-tuned"].optimiser
            assert (settings.eta, settings.alpha) == pytest.approx((chosen["eta"], chosen["alpha"]))
    (found,) = evidence.judgements.values()
    assert [each.name for each in found] == ["C2", "C3", "C4"]
    assert all(c.interval.estimate == pytest.approx(1.0) for c in found[0].contrasts if "final reward" in c.label)
    scores, against = evidence.tables
    assert scores.name == "tuned-scores"
    assert set(against.frame["against"]) == set(tuning.ARMS) - {"srg-dqn"}
    assert evidence.about["seed"] == tuning.TUNED_SEED


def test_every_reading_is_judged_in_its_own_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SRG-DQN is ahead unless D is the newest transitions; in one run nobody gets anywhere on CartPole."""
    newest = next(i for i, reading in enumerate(readings_study.READINGS) if reading.row == "4")
    matrix = readings_study.design()

    def compute(cells: Sequence[Any], folder: Path, *_: Any) -> dict[str, Any]:
        assert folder == tmp_path / "readings" / "cells"
        made = {}
        for cell in cells:
            run = next(run for run in range(12) if readings_study.label(run) in cell.name)
            task, algorithm = cell.configuration.task.task, cell.configuration.algorithm
            ours, random = "srg-dqn-run" in cell.name, "random" in cell.name
            ahead = ours != matrix[run, newest]
            level = 0.0 if random else 2.0 if ahead else 1.0
            spread = np.array([-1.0, 0.0, 1.0, 0.5]) * (0.01 if ahead else 0.1)
            if cell.name.startswith("episodes"):
                lengths = (100.0 if ahead else 200.0) + 100 * spread
                made[cell.name] = planted_run(task, algorithm, np.zeros(4), lengths=lengths, episodes=101)
            else:
                stops = dict.fromkeys(range(4), 1_008) if task == "CartPole" and run == 5 and not random else None
                made[cell.name] = planted_run(task, algorithm, level + spread, diverged=stops)
        return made

    monkeypatch.setattr(commands, "compute", compute)
    evidence = readings_study.read_every_way(tmp_path, Heard().console, dataclasses.replace(SCALE, lanes=4))
    assert len(evidence.judgements) == 12
    for run, (name, judgements) in enumerate(evidence.judgements.items()):
        assert name == readings_study.label(run)
        assert [each.name for each in judgements] == ["C2", "C3", "C4", "C5a", "C6"]
        final = judgements[0].contrasts[0]
        assert (final.interval.estimate > 0) == (not matrix[run, newest])
        assert final.margin == pytest.approx(0.05 * 2.0, rel=0.1)  # of the run's own best over its own random
    shares, runs = evidence.tables
    decided = {row["claim"]: row["decided most by"] for row in shares.frame.to_dicts()}
    for claim in ("C2", "C3", "C6"):
        assert decided[claim].startswith("D is the N newest transitions (row 4): -")
    assert runs.frame["run"].to_list() == list(range(12))
    assert runs.frame["rows with the other option"][0] == "none (corrected)"
    assert all(re.fullmatch(r"\d+ of \d+", told) for told in runs.frame["diverged"])
    assert evidence.about["seed"] == CONFIRMATORY.seed + 2


def judgement(name: str, verdict: Any, *contrasts_: tuple[float, float]) -> Judgement:
    measured = tuple(MeasuredContrast("", Interval(estimate, -9.0, 9.0), 0.0, unit) for estimate, unit in contrasts_)
    return Judgement(name, verdict, measured)


def test_shares_and_main_effects_by_hand() -> None:
    """The weakest contrast of each run is 4 δ, less 3 δ with the first reading, plus δ with the sixth."""
    matrix = readings_study.design()
    judgements = {}
    for run in range(12):
        weakest = 4.0 - 3.0 * matrix[run, 0] + 1.0 * matrix[run, 5]
        odd = (float("inf"), 0.5), (5.0, 0.0)  # neither counts
        judgements[readings_study.label(run)] = [
            judgement(claim, "holds" if run < 5 else "fails", (weakest * 0.2, 0.2), (90.0, 0.5), *odd)
            for claim in readings_study.COMPARISONS
        ]
    frame = readings_study.shares_table(judgements).frame
    for row in frame.to_dicts():
        assert (row["holds"], row["fails"], row["undecided"]) == ("5 of 12", "7 of 12", "0 of 12")
        assert row["decided most by"] == "y frozen for the outer iteration (row 2): -3.0 δ"
        assert row["then by"] == "Adam divides by a norm (row 8): +1.0 δ"
    runs = readings_study.runs_table(judgements, [(run, 300) for run in range(12)]).frame
    first = [reading.row for reading, other in zip(readings_study.READINGS, matrix[1], strict=True) if other]
    assert runs["rows with the other option"][1] == ", ".join(first)
    assert runs["C4"].to_list() == ["holds"] * 5 + ["fails"] * 7
    assert runs["diverged"][11] == "11 of 300"


def test_a_claim_of_which_nothing_can_be_told_has_no_effects() -> None:
    nothing = [judgement(claim, "undecided", (np.nan, 0.1)) for claim in readings_study.COMPARISONS]
    frame = readings_study.shares_table({readings_study.label(run): nothing for run in range(12)}).frame
    assert set(frame["undecided"]) == {"12 of 12"}
    assert all(text.endswith(": +nan δ") for text in frame["decided most by"])
