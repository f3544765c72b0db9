"""The long commands on outcomes that are planted instead of computed."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srgdqn.paper import cells as commands
from srgdqn.paper import confirmatory, readings_study, tuning
from srgdqn.paper.cells import Console
from srgdqn.paper.claims import CLAIMS, Judgement, rules
from srgdqn.paper.claims.rules import MeasuredContrast
from srgdqn.paper.scale import CONFIRMATORY
from srgdqn.results.statistics import Interval
from synthetic_outcomes import DOSES, PILOT, ROUNDS, TASKS, planted_run, world

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
    for module in (confirmatory, tuning):
        monkeypatch.setattr(module, "read_pilot", lambda: PILOT)


def answering(outcomes: dict[str, Any], folders: list[Path]) -> Any:
    """In place of `compute`: what was planted for the very cells that are asked for."""

    def compute(cells: Sequence[Any], folder: Path, *_: Any) -> dict[str, Any]:
        folders.append(folder)
        return {cell.name: outcomes[cell.name] for cell in cells}

    return compute


def test_the_confirmatory_run_judges_every_claim_for_both_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = {**world(False, readings=("printed",)), **world(True)}
    folders: list[Path] = []
    monkeypatch.setattr(commands, "compute", answering(outcomes, folders))
    heard = Heard()
    other = dataclasses.replace(SCALE, rounds={"MountainCar": 7, "Pendulum": 8, "CartPole": 9})
    evidence = confirmatory.confirm(tmp_path, heard.console, {"corrected": SCALE, "printed": other})
    assert folders == [tmp_path / "confirmatory" / "cells"]
    assert list(evidence.judgements) == ["corrected", "printed"]
    for label, verdict in (("corrected", "holds"), ("printed", "fails")):
        found = {each.name: each.verdict for each in evidence.judgements[label]}
        # The theorem's problems have no readings.
        expected = {claim.name: "holds" if claim.name == "C9" else verdict for claim in CLAIMS}
        assert {**found, "C9": "holds"} == expected
    assert evidence.is_current
    assert evidence.about["seed"] == CONFIRMATORY.seed
    others = (
        ", 25 for C1, 100 for C6 and the lengths of C5a, 50 for C7 and C11, 100 for the gradients of C8, 50 for C12"
    )
    assert evidence.about["rounds"] == (
        f"corrected: 400 on MountainCar, 400 on Pendulum, 100 on CartPole{others}; "
        f"printed: 7 on MountainCar, 8 on Pendulum, 9 on CartPole{others}"
    )
    against, interaction = evidence.tables
    assert (against.name, interaction.name) == ("confirmatory-contrasts", "confirmatory-interaction")
    together = interaction.frame.filter(task="Pendulum")["interaction"].to_list()
    assert [text.split()[0] for text in together] == ["+1.100", "-1.100"]
    row = against.frame.filter(task="Pendulum", readings="printed", against="sgd-inner-adam").row(0, named=True)
    assert row["difference [95 %]"].startswith("-1.100 [")
    assert [title for title, _ in heard.begun] == ["confirmatory run", "verdicts"]
    assert heard.shares[-1] == ("printed", 1.0)
    assert evidence.about["answer"] == confirmatory.answer_from(outcomes, "corrected")


def test_the_answer_tells_variance_reduction_from_more_updates() -> None:
    outcomes = world(True)
    rng = np.random.default_rng(0)
    noise = 0.05 * rng.normal(size=(4, ROUNDS))
    noise -= noise.mean(1, keepdims=True)
    for name, level in (("dqn-sgd", 1.0), ("sgd-inner-adam", 2.0), ("srg-dqn", 1.5)):
        outcomes[f"MountainCar-{name}-corrected"] = planted_run("MountainCar", name, level + noise[0] * len(name))
        stops = {0: 1_008} if name == "srg-dqn" else None
        level = 2.0 + noise[len(name) % 4] if name != "dqn-sgd" else 2.0 + noise[3]
        outcomes[f"Pendulum-{name}-corrected"] = planted_run("Pendulum", name, level, diverged=stops)
    answer = confirmatory.answer_from(outcomes, "corrected")
    assert "on MountainCar it gives less reward; on Pendulum it makes no difference that can be told" in answer
    first, pendulum = answer.split(" Pendulum (")
    car = first.split(" MountainCar (")[1]
    assert "the random policy scores 0.250): dqn-sgd 1.000 (0 of 24 diverged), sgd-inner-adam 2.000 (" in car
    assert "the Adam process, beside dqn-sgd: +1.000 [" in car
    assert "SRG's: -0.500 [" in car
    assert f"srg-dqn {(2.0 * 23 + 0.25) / 24:.2f}"[:11] in pendulum
    assert f"(1 of {ROUNDS} diverged)" in pendulum
    # Where most rounds diverge there is nothing to be told of what they would have learned.
    stops = dict.fromkeys(range(ROUNDS // 2 + 1), 1_008)
    outcomes["CartPole-srg-dqn-corrected"] = planted_run("CartPole", "srg-dqn", 2.0 + noise[0], diverged=stops)
    lost = confirmatory.answer_from(outcomes, "corrected")
    assert "on CartPole it cannot be told, as most rounds of srg-dqn diverge" in lost


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
