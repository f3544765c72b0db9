"""The rule of the study of Adam steps on made-up scores, and a small run for real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.config.configure import configure
from srgdqn.paper import adam_steps
from srgdqn.paper.adam_steps import (
    ARMS,
    FULL,
    ONCE,
    PLAIN,
    PLAIN_2,
    READINGS,
    ROUNDS,
    SEED,
    SRG,
    SVRG,
    Answer,
    answer_of,
    answer_sentence,
    in_brief,
    judged,
    queries_per_batch,
    run,
    section,
)
from srgdqn.paper.cells import QUIET, Console, MeasurementCell
from srgdqn.paper.claims.evidence import Evidence, evidence_of, find_evidence, write_evidence
from srgdqn.paper.claims.verdicts import MARGINS, Judgement, holm
from srgdqn.paper.halving import PAPERS_OWN, Candidate, Choice, Grid, Trial
from srgdqn.paper.report.contents import Report, Table
from srgdqn.paper.report.files import write_report
from srgdqn.paper.scores import Scores
from srgdqn.paper.tuning_search import Arm, Procedure, Stage, Tuned
from srgdqn.runs.measurement import Measured
from srgdqn.session.prepare import prepare
from synthetic_outcomes import TASKS, planted_run
from tiny import TINY, tiny

COUNT = 60
RESAMPLES = 4_000


def scores(level: float, seed: int, lost: int = 0, spread: float = 0.01) -> Scores:
    """Scores with exactly this mean and spread."""
    values = np.random.default_rng(seed).normal(size=COUNT)
    values = (values - values.mean()) / values.std()
    return Scores(level + spread * values, np.arange(COUNT) < lost)


def world(spread: float = 0.01, **levels: float) -> dict[str, Scores]:
    """One task's arms: all at 1 unless told, the yardsticks at 0."""
    names = dict(srg=SRG, svrg=SVRG, plain=PLAIN, plain_2=PLAIN_2, full=FULL, once=ONCE)
    given = {name: levels.get(short, 1.0) for short, name in names.items()}
    given |= {"random": levels.get("random", 0.0), "untrained": levels.get("untrained", 0.0)}
    return {name: scores(level, seed, spread=spread) for seed, (name, level) in enumerate(given.items())}


def answers(**tasks: Mapping[str, Scores]) -> dict[str, Answer]:
    usual = dict.fromkeys(TASKS, world())
    return judged({**usual, **tasks}, RESAMPLES).tasks


# The rule


def test_srg_or_svrg_above_plain_gradients_at_equal_queries_is_enough() -> None:
    found = answers(MountainCar=world(srg=2.0), Pendulum=world(svrg=2.0), CartPole=world(srg=2.0, svrg=2.0))
    assert {task: answer.verdict for task, answer in found.items()} == dict.fromkeys(TASKS, "holds")
    assert [each.verdict for each in found["Pendulum"].contrasts] == ["fails", "holds"]
    assert all(answer.marks == () for answer in found.values())


def test_other_arms_decide_nothing() -> None:
    """SRG and SVRG are above b = 1 and far below the full batch; at equal queries there is no difference."""
    found = judged(dict.fromkeys(TASKS, world(plain=-1.0, full=9.0)), RESAMPLES)
    assert {answer.verdict for answer in found.tasks.values()} == {"fails"}
    beside = {each.name: each.verdict for each in found.beside}
    assert len(beside) == 18
    assert beside["Pendulum: SRG against plain gradients, b = 1"] == "holds"
    assert beside["Pendulum: SVRG against full batch"] == "fails"


def test_both_must_be_short_of_what_matters_to_fail() -> None:
    """With a wide spread, SVRG's contrast says nothing."""
    mixed = world(srg=0.0)
    mixed[SVRG] = scores(1.0, 99, spread=5.0)
    found = answers(Pendulum=mixed)["Pendulum"]
    assert [each.verdict for each in found.contrasts] == ["fails", "undecided"]
    assert found.verdict == "undecided"
    assert answers(Pendulum=world(srg=0.0, svrg=0.0))["Pendulum"].verdict == "fails"


def test_a_difference_that_is_real_but_small_is_marked() -> None:
    found = answers(CartPole=world(srg=1.0 + MARGINS["CartPole"] / 2))["CartPole"]
    assert (found.verdict, found.marks) == ("holds", ("small",))
    large = answers(CartPole=world(srg=1.0 + MARGINS["CartPole"] / 2, svrg=3.0))["CartPole"]
    assert (large.verdict, large.marks) == ("holds", ())


def test_moot_if_none_of_the_three_has_learned() -> None:
    found = answers(MountainCar=world(srg=0.0, svrg=-1.0, plain_2=-2.0, untrained=0.5))["MountainCar"]
    assert found.verdict == "moot"
    assert {each.reason for each in found.contrasts} == {"none of its arms has learned"}
    # One that has learned is enough, be it plain gradients.
    assert answers(MountainCar=world(srg=0.0, svrg=0.0, untrained=0.5))["MountainCar"].verdict == "fails"


def test_below_the_random_policy_is_marked() -> None:
    found = answers(Pendulum=world(srg=2.0, random=5.0))["Pendulum"]
    assert (found.verdict, found.marks) == ("holds", ("below random",))


def test_a_contrast_of_arms_that_mostly_diverged_is_left_out() -> None:
    lost = world(svrg=0.0)
    for name in (SRG, PLAIN_2):
        lost[name] = Scores(lost[name].values, np.arange(COUNT) < 40)
    one = answers(CartPole=lost)["CartPole"]
    assert [each.verdict for each in one.contrasts] == ["moot", "fails"]
    assert one.verdict == "fails"
    lost[SVRG] = Scores(lost[SVRG].values, np.arange(COUNT) < 40)
    assert answers(CartPole=lost)["CartPole"].verdict == "moot"


def test_the_correction_is_over_tasks_and_both_estimators() -> None:
    """A p⁺ between 0.025 / 6 and 0.025 is not enough if the other five are large, and is once they are small."""
    weak = world(spread=1.0)
    rng = np.random.default_rng(5)
    noise = rng.normal(size=COUNT)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    weak[SRG] = Scores(weak[PLAIN_2].values + noise + 2.3 / np.sqrt(COUNT), weak[SRG].diverged)
    alone = answers(Pendulum=weak)["Pendulum"]
    p_holds = alone.contrasts[0].p_holds
    assert 0.025 / 6 < p_holds < 0.025
    assert alone.verdict == "undecided"
    strong = world(srg=3.0, svrg=3.0)
    weak[SVRG] = Scores(weak[PLAIN_2].values + 3.0, weak[SVRG].diverged)
    together = answers(MountainCar=strong, Pendulum=weak, CartPole=strong)["Pendulum"]
    assert [each.verdict for each in together.contrasts] == ["holds", "holds"]
    assert holm([p_holds, *[1.0] * 5], 0.025)[0] is False


@pytest.mark.parametrize(
    ("verdicts", "answer"),
    [
        (("holds", "holds"), "holds"),
        (("fails", "holds"), "holds"),
        (("undecided", "holds"), "holds"),
        (("moot", "holds"), "holds"),
        (("fails", "fails"), "fails"),
        (("moot", "fails"), "fails"),
        (("undecided", "fails"), "undecided"),
        (("undecided", "undecided"), "undecided"),
        (("moot", "undecided"), "undecided"),
        (("moot", "moot"), "moot"),
    ],
)
def test_every_pair_of_verdicts(verdicts: Sequence[Any], answer: str) -> None:
    for order in (verdicts, verdicts[::-1]):
        assert answer_of([Judgement("", each, ()) for each in order]).verdict == answer


def test_answers_in_words() -> None:
    found = answers(Pendulum=world(srg=2.0, random=5.0))["Pendulum"]
    told = answer_sentence("Pendulum", found)
    assert told.startswith("On Pendulum variance reduction does what the paper promises (below random): SRG against")
    assert "plain gradients, b = 2: +1 reward per action [" in told
    moot = answer_sentence("CartPole", answers(CartPole=world(srg=-1.0, svrg=-1.0, plain_2=-1.0))["CartPole"])
    assert moot.startswith("On CartPole there is nothing to compare (below random)")


# What runs


def test_the_study_is_what_the_rule_says() -> None:
    assert (READINGS, SEED) == ("mnih", 43_001)
    assert ROUNDS == {"MountainCar": 1_000, "Pendulum": 400, "CartPole": 600}
    for task in TASKS:
        configurations = {name: configure(task, name, readings=READINGS) for name in ARMS}
        assert all(each.optimiser.step == "adam" for each in configurations.values())
        assert not any(each.optimiser.adam_process for each in configurations.values())
        assert configurations[PLAIN_2].estimator.inner_batch == 2
        assert configurations[SRG].estimator.inner_batch == configurations[PLAIN].estimator.inner_batch == 1


def test_srg_svrg_and_b_2_ask_for_as_many_gradients() -> None:
    """N = 4, M = 2."""
    spent = {name: queries_per_batch(prepare(tiny(name, rounds=2)[0]).train()) for name in ARMS}
    assert spent == {SRG: 8, SVRG: 8, PLAIN_2: 8, PLAIN: 6, FULL: 12, ONCE: 4}


LEVELS = {SRG: 3.0, SVRG: 2.0, PLAIN_2: 1.0, PLAIN: 0.5, FULL: 4.0, ONCE: 0.25, "random": 0.0, "untrained": -1.0}


def test_the_command_compares_tuned_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def tune(arms: Sequence[Arm], folder: Path, *_: Any, reference: Sequence[str]) -> Tuned:
        assert reference == ARMS
        assert {arm.readings for arm in arms} == {"mnih"}
        best = {arm: PAPERS_OWN if arm.algorithm == FULL else Candidate(0, 1) for arm in arms}
        grid = Grid((0, 0), (-2, 2))
        return Tuned({arm: Choice(each, Trial(1.0, 0.0), grid, 0, ()) for arm, each in best.items()}, 60.0)

    def run_cells(title: str, cells: Sequence[Any], folder: Path, console: Console) -> dict[str, Any]:
        assert folder == tmp_path / "adam-steps"
        made = {}
        for cell in cells:
            if isinstance(cell, MeasurementCell):
                assert cell.alone
                times = [(name, turn, 1e-6 * (place + 1)) for place, name in enumerate(ARMS) for turn in range(3)]
                table = pl.DataFrame(times, ("name", "turn", "seconds_per_step"), orient="row")
                return {cell.name: Measured({"times": table}, {})}
            asked.append(cell)
            task, _, rest = cell.name.partition("-")
            name = rest.removesuffix("-tuned").removesuffix("-own").removesuffix("-mnih")
            level = LEVELS[name] - (
                0.0 if cell.name.endswith("-tuned") or name in (FULL, "random", "untrained") else 0.1
            )
            noise = np.linspace(-0.01, 0.01, 20) * (1 + len(asked) % 3)
            lost = {0: 1_500} if name == ONCE and task == "Pendulum" else None
            made[cell.name] = planted_run(task, cell.configuration.algorithm, level + noise, diverged=lost)
        return made

    monkeypatch.setattr(adam_steps, "tune", tune)
    monkeypatch.setattr(adam_steps, "run_cells", run_cells)
    evidence = run(tmp_path, QUIET, rounds=dict.fromkeys(TASKS, 20), seed=10_900, resamples=RESAMPLES)
    assert {cell.configuration.training.seed for cell in asked} == {10_900}
    assert len(asked) == 3 * (2 * len(ARMS) - 1 + 2)
    assert evidence.about["verdicts"] == dict.fromkeys(TASKS, "holds")
    assert "None of 15 arms" in evidence.about["found"][-1]
    table, costs, contrasts, _ = evidence.tables
    rows = {(row["task"], row["algorithm"]): row for row in table.frame.to_dicts()}
    assert len(rows) == 3 * (len(ARMS) + 2)
    assert rows["Pendulum", ONCE]["diverged"].startswith("1 of 20")
    assert (rows["Pendulum", SRG]["α"], rows["Pendulum", FULL]["α"]) == ("0.0018", "0.001")
    assert rows["Pendulum", SRG]["tuned − paper's [99 %]"].startswith("+0.100 [")
    assert rows["Pendulum", FULL]["defect"] == "–"
    assert contrasts.frame["queries"].to_list() == ["equal"] * 6 + ["other"] * 18
    assert contrasts.frame["finding"].to_list()[:6] == ["above"] * 6
    spent = costs.frame.filter(task="MountainCar", algorithm=SRG).row(0, named=True)
    assert (spent["steps per round"], spent["queries per round"]) == ("1e+04", "6e+04")
    assert spent["seconds per round"] == "0.01"
    assert float(spent["score at equal queries"]) == pytest.approx(3.0)
    path = write_evidence(evidence, tmp_path)
    assert path.stat().st_size < 200_000
    read = find_evidence("adam-steps", tmp_path)
    assert read is not None
    shown = section(read)
    assert [each.name for each in shown.tables] == ["adam-steps-scores", "adam-steps-costs", "adam-steps-contrasts"]
    [chart] = shown.charts
    assert [panel.title for panel in chart.panels] == list(TASKS)
    for panel in chart.panels:
        assert list(panel.x_labels) == ["steps", "queries", "seconds"]
        assert {series.label for series in panel.series} == {*ARMS, "random", "untrained"}
        [chance] = [series for series in panel.series if series.label == "random"]
        np.testing.assert_allclose(chance.y, LEVELS["random"], atol=0.02)
    last = next(series for series in chart.panels[0].series if series.label == SVRG)
    assert last.y[-1] == pytest.approx(2.0, rel=1e-3)
    assert "variance reduction pays on MountainCar and Pendulum and CartPole." in shown.found
    assert "On Pendulum SRG adds " in shown.found
    assert "e+0" not in "".join(shown.tables[1].frame["steps per round"])
    brief = in_brief(read)
    assert brief.section == "adam-steps"
    assert brief.answer[0].endswith("variance reduction pays on MountainCar and Pendulum and CartPole.")
    assert brief.answer[1].startswith("On MountainCar SRG and SVRG add ")


def told(verdicts: dict[str, str], success: tuple[str, str, str] = ("31%", "36%", "86%"), **effects: str) -> Evidence:
    """The tables of a made-up study; the effect of SRG, of SVRG, and of both beside other ways to use Adam."""
    names = {SRG: "SRG", SVRG: "SVRG"}
    labels = {PLAIN_2: "plain gradients, b = 2", FULL: "full batch", ONCE: "one Adam step per batch"}
    given = {PLAIN_2: "equal", FULL: "full", ONCE: "once"}
    nothing = "+0.0 return per episode [-1, +1]"
    found = dict(zip((SRG, SVRG, PLAIN_2), success, strict=True))
    rows = [
        {
            "task": task,
            "algorithm": name,
            "score": f"{place}.0 [0.0, 9.0]",
            "success": found.get(name, "not defined"),
            "queries per batch": {FULL: "1088", ONCE: "64"}.get(name, "96"),
        }
        for task in verdicts
        for place, name in enumerate((*ARMS, "random", "untrained"))
    ]
    contrasts = [
        {
            "task": task,
            "contrast": f"{names[ours]} against {labels[theirs]}",
            "difference [95 %]": effects.get(f"{names[ours]}_{given[theirs]}", nothing),
        }
        for task in verdicts
        for ours in names
        for theirs in labels
    ]
    spent = [
        {
            "task": task,
            "algorithm": name,
            "queries per round": f"{6 if task == 'MountainCar' else place}e+05",
            "score at equal queries": f"{100 + place}.26",
        }
        for task in verdicts
        for place, name in enumerate(ARMS)
    ]
    tables = [
        Table("adam-steps-costs", "", pl.DataFrame(spent)),
        Table("adam-steps-scores", "", pl.DataFrame(rows)),
        Table("adam-steps-contrasts", "", pl.DataFrame(contrasts)),
    ]
    evidence = evidence_of("adam-steps", {}, tables, seed=1, rounds="2", seconds=60.0)
    return replace(evidence, about={**evidence.about, "verdicts": verdicts, "found": [*verdicts, "No defect."]})


MORE, LESS = "+40.2 return per episode [+33.5, +47]", "-26.8 return per episode [-34.5, -19]"


def test_who_gains_is_told_apart_and_so_is_success() -> None:
    brief = in_brief(told({"CartPole": "holds", "Pendulum": "fails"}, SVRG_equal=MORE))
    assert brief.answer == (
        "At equal gradient queries per batch and with every α tuned (readings mnih), variance reduction pays on "
        "CartPole; it does not on Pendulum.",
        "On CartPole SVRG alone adds 40 return per episode, but fewer greedy episodes succeed, 31 % and 36 % against "
        "86 %.",
    )
    small, large = (f"+{size} reward per action [+0.06, +0.11]" for size in (0.0702, 0.0996))
    gains = told({"MountainCar": "holds", "CartPole": "holds"}, SRG_equal=small, SVRG_equal=large)
    assert in_brief(gains).answer[1] == (
        "On MountainCar SRG and SVRG add 0.070 and 0.100 reward per action, but fewer greedy episodes succeed, 31 % "
        "and 36 % against 86 %; on CartPole SRG and SVRG add 0.070 and 0.100 reward per action, but fewer greedy "
        "episodes succeed, 31 % and 36 % against 86 %."
    )
    assert "31 % and 36 % against 86 %: the shaped reward pays for height, not for arriving." in section(gains).found
    # Nothing is said of success that does not fall, or that is not defined.
    for success in (("90%", "80%", "86%"), ("not defined",) * 3):
        brief = in_brief(told({"CartPole": "holds"}, success, SRG_equal=MORE))  # type: ignore[arg-type]
        assert brief.answer[1] == "On CartPole SRG alone adds 40 return per episode."


def test_scores_at_equal_total_queries_are_told_where_totals_differ() -> None:
    found = section(told({"MountainCar": "fails", "CartPole": "holds"}, SVRG_equal=MORE)).found
    assert found.count("at equal total queries") == 1
    assert "at equal total queries SRG scores 100 and SVRG 101 against 102." in found.split("On CartPole ")[1]


def test_stronger_ways_to_use_adam_are_told() -> None:
    brief = in_brief(told({"CartPole": "undecided"}, SRG_full=LESS, SVRG_full=LESS, SRG_once=LESS))
    stronger = (
        "Full-batch steps, at 11 times the queries, score more than both on CartPole; a single Adam step per batch, "
        "tuned and at 67 % of SRG's queries, beats SRG on CartPole (5 against 0)."
    )
    assert brief.answer[1:] == (stronger,)
    shown = section(told({"CartPole": "undecided"}, SRG_full=LESS, SVRG_full=LESS, SRG_once=LESS)).found
    assert stronger in shown
    assert len(in_brief(told({"CartPole": "moot"}, SRG_full=LESS)).answer) == 1


def test_where_nothing_holds_or_is_compared() -> None:
    brief = in_brief(told({"CartPole": "fails", "Pendulum": "moot", "MountainCar": "undecided"}))
    assert brief.answer[0].endswith(
        "variance reduction does not pay on CartPole; it cannot be told on MountainCar; there is nothing to compare on "
        "Pendulum."
    )
    shown = section(told({"CartPole": "moot"}, SRG_equal="90% and 80% of the rounds diverged", SVRG_equal=LESS))
    assert "On CartPole SRG is not compared, and SVRG costs 26.8 return per episode [−34.5, −19.0]" in shown.found
    assert "No defect." in shown.found


def test_a_tiny_run_for_real_renders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adam_steps, "TASKS", ("CartPole",))
    options = {name: value for name, value in TINY.items() if name not in ("steps", "evaluation_interval")}
    small = Procedure((Stage(2, 10_001), Stage(3, 10_002)), 1, {"CartPole": {**options, "episodes": 101}})
    evidence = run(tmp_path, QUIET, small, {"CartPole": 4}, 10_900, 500)
    assert set(evidence.about["verdicts"]) == {"CartPole"}
    table, costs, contrasts, curves = evidence.tables
    assert table.frame["algorithm"].to_list() == [*ARMS, "random", "untrained"]
    assert table.frame.filter(algorithm=SRG)["queries per batch"][0] == "8"
    assert contrasts.frame.height == 8
    assert all(float(text) > 0 for text in costs.frame["seconds per round"])
    assert curves.frame.height == len(ARMS) * 20
    steps = costs.frame.filter(algorithm=PLAIN_2)["steps per round"][0]
    assert float(steps) > 101
    write_evidence(evidence, tmp_path)
    read = find_evidence("adam-steps", tmp_path)
    assert read is not None
    shown = section(read)
    report = Report("", None, (), "", {}, (shown,), {}, {})
    write_report(report, tmp_path / "shown")
    page = (tmp_path / "shown" / "report.html").read_text(encoding="utf-8")
    assert "Adam at every inner step, at equal queries per batch" in page
    assert "gradient queries" in page
    assert (tmp_path / "shown" / "figures" / "adam-steps.png").stat().st_size > 10_000
