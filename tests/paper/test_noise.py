"""The noise map: its rules as configurations, a small run for real, and what its page says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl
import pytest

from srgdqn.cli import main
from srgdqn.errors import InputError
from srgdqn.learner.outer_iteration import queries_per_iteration
from srgdqn.paper import noise
from srgdqn.paper.cells import Console
from srgdqn.paper.claims.evidence import find_evidence, write_evidence
from srgdqn.paper.noise import described, stages
from srgdqn.paper.noise.arms import (
    LEARNERS,
    Arm,
    Candidate,
    ceiling_arms,
    configuration_of,
    grid_of,
    learner_arm,
    side_by_side,
)
from srgdqn.paper.noise.described import SIZE, Catch, Pixels
from srgdqn.paper.noise.page import advice, headline, limit_states
from srgdqn.paper.noise.results import ALONE, CEILING, DIFFERENCE_ALONE, LEARNED, best_adam, tables_of
from srgdqn.paper.noise.rules import (
    ERRORS_SHIFT,
    EVALUATIONS,
    KIND,
    PERIOD,
    PLAN,
    QUICK,
    REGIMES,
    Plan,
    Stage,
    alpha_of,
)
from srgdqn.paper.noise.stages import ERRORS_SCHEMA, chosen_contenders
from srgdqn.paper.report.contents import Report
from srgdqn.paper.reproduce import noise_report

LEARNING = (*PLAN.contenders, *PLAN.controls)


# The rules as configurations


def test_the_seeds_that_decide_are_no_pilots() -> None:
    deciding = {seed for regime in REGIMES.values() for seed in regime.confirmation.seeds}
    pilots = {*PLAN.screening.seeds, *PLAN.pilots.seeds, *PLAN.errors.seeds, PLAN.described_seed}
    pilots |= {seed for regime in QUICK.regimes.values() for seed in regime.confirmation.seeds}
    assert min(deciding) == 47_001
    assert max(pilots) < 11_000
    assert {task: regime.confirmation.total for task, regime in REGIMES.items()} == {
        "CartPole": 400,
        "Pendulum": 400,
        "MountainCar": 400,
        "Acrobot": 100,
    }
    assert (PLAN.screening.total, PLAN.pilots.total) == (24, 100)


@pytest.mark.parametrize("task", REGIMES)
@pytest.mark.parametrize("pace", ["updates", "queries"])
def test_plain_adam_at_both_paces(task: str, pace: Any) -> None:
    for arm in ceiling_arms(PLAN, task, pace):
        found = configuration_of(PLAN, arm, Candidate(0, 0), 8, 1)
        assert found.replay.batch_size == arm.batch
        assert found.optimiser.alpha == alpha_of(arm.batch, 0)
        assert found.optimiser.clip_norm is None
        every = found.training.learning_frequency
        assert every == (8 if pace == "updates" else arm.batch // 8)
        # The target is copied after as many steps whatever the pace, and learning begins at the same step.
        assert found.gradients.target_period * every == PERIOD
        assert -(-found.training.learning_starts // every) * every == 1_024
        assert found.training.steps is not None
        assert found.training.steps % found.training.evaluation_interval == 0


@pytest.mark.parametrize("contender", LEARNING, ids=lambda each: each.name)
def test_learners_spend_eight_queries_per_step(contender: Any) -> None:
    arm = learner_arm("CartPole", contender)
    assert len(grid_of(PLAN, arm)) == 15
    for variant in range(len(contender.variants)):
        found = configuration_of(PLAN, arm, Candidate(variant, 0), 8, 1)
        assert queries_per_iteration(found) / found.training.learning_frequency == pytest.approx(8, rel=0.05)


def test_controls_are_plain_adam() -> None:
    halves, momentum = (learner_arm("CartPole", each) for each in PLAN.controls)
    sizes = [configuration_of(PLAN, halves, Candidate(each, 1), 8, 1) for each in range(3)]
    assert [each.replay.batch_size for each in sizes] == [16, 64, 256]
    assert [each.training.learning_frequency for each in sizes] == [2, 8, 32]
    assert [each.optimiser.alpha for each in sizes] == [alpha_of(b, 1) for b in (16, 64, 256)]
    betas = [configuration_of(PLAN, momentum, Candidate(each, 0), 8, 1) for each in range(3)]
    assert [each.optimiser.beta1 for each in betas] == [0.5, 0.95, 0.98]
    assert side_by_side(betas) == [[0, 1, 2]]
    assert side_by_side(sizes) == [[0], [1], [2]]


@pytest.mark.parametrize("regime", REGIMES.values(), ids=lambda each: each.task)
def test_errors_are_measured_at_all_ages_of_the_target(regime: Any) -> None:
    """In step with the copies, what begins anew with every copy would always be seen just then."""
    interval = regime.steps // EVALUATIONS + ERRORS_SHIFT
    ages = sorted(step % PERIOD for step in range(interval, regime.steps + 1, interval))
    assert len(ages) >= 17
    assert max(np.diff([*ages, ages[0] + PERIOD])) <= PERIOD / 8


# Which contenders learn


def measured(ratios: dict[str, Sequence[float]]) -> pl.DataFrame:
    """Directions of which every variant has this error, beside a plain error of 1, at as many queries as rows."""
    rows: list[dict[str, Any]] = [
        {"arm": name, "variant": variant, "squared_error": error}
        for name, errors in ratios.items()
        for variant, error in enumerate(errors)
    ]
    common = {"task": "CartPole", "axis": "own", "value": 1.0, "rows": 32, "queries": 32.0, "seed": 1}
    common |= {"round": 0, "step": 1, "squared_norm": 1.0, "squared_bias": 0.0, "cosine": 1.0}
    common |= {"plain_squared_error": 1.0}
    return (
        pl.DataFrame(rows)
        .with_columns(pl.lit(value).alias(name) for name, value in common.items())
        .select(pl.col(name).cast(kind) for name, kind in ERRORS_SCHEMA.items())
    )


def test_those_with_the_smallest_error_at_equal_queries_learn_beside_both_controls() -> None:
    errors = measured({"storm": [3.0, 0.5], "mars": [1.0], "page": [0.7], "srg": [0.2], "svrg": [0.6], "saga": [-1.0]})
    names = [each.name for each in chosen_contenders(PLAN, errors)]
    assert names == ["srg", "storm", "svrg", "page", "fresh-halves", "beta1"]


def test_a_variant_that_diverges_is_not_chosen_for_its_survivors() -> None:
    """In a tenth of its measurements at most."""
    errors = measured({"storm": [3.0], "mars": [1.0], "page": [0.7], "srg": [0.2], "svrg": [0.6]})
    each = errors.filter(arm="srg").height
    copies = pl.concat([errors] * 10)
    for lost, first in ((1, "srg"), (2, "svrg")):
        rest = copies.filter(pl.col("arm") != "srg")
        kept = copies.filter(arm="srg").head((10 - lost) * each)
        assert chosen_contenders(PLAN, pl.concat([rest, kept]))[0].name == first
        gone = copies.filter(arm="srg").tail(lost * each).with_columns(squared_error=pl.lit(None, pl.Float64))
        assert chosen_contenders(PLAN, pl.concat([rest, kept, gone]))[0].name == first


def test_no_contender_gains_by_shortening_its_directions() -> None:
    """A direction of length 1 has a small error where gradients are long, for being nearly zero."""
    for contender in PLAN.contenders:
        shortened = {name: value for name, value in contender.options.items() if name in ("longest", "radius")}
        assert all(value >= 1e3 for value in shortened.values())
        assert bool(shortened) == (contender.name in ("mars", "spider"))


@pytest.mark.filterwarnings("ignore")  # Box2D's bindings warn when they are first imported
def test_tasks_beside_the_four_copy_the_target_as_often() -> None:
    for cell in described.cells(PLAN).values():
        found = cell.configuration
        assert found.gradients.target_period * found.training.learning_frequency == PERIOD


# A small run for real


SMALL = Plan(
    "small",
    {"CartPole": replace(QUICK.regimes["CartPole"], steps=1_280, confirmation=Stage(4, (10_009, 10_011)))},
    batches=(8, 512),
    alpha_steps=(0,),
    screening=Stage(2, (10_007,)),
    pilots=Stage(2, (10_008,)),
    contenders=(),
    controls=PLAN.controls[1:],
    most_contenders=0,
    resamples=200,
    described_steps={},
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noise")
    write_evidence(noise.run(folder, Console(), SMALL), folder)
    return folder


def test_every_number_comes_from_the_parquet_files(small: Path) -> None:
    evidence = find_evidence(KIND, small)
    assert evidence is not None
    place = noise.folder_of(small, SMALL)
    rounds, errors = (pl.read_parquet(place / f"{name}.parquet") for name in ("rounds", "errors"))
    tables = tables_of(rounds, errors, SMALL.resamples)
    assert list(tables) == [CEILING, LEARNED]
    stored = {table.name: table.frame.to_dicts() for table in evidence.tables}
    assert {name: table.frame.to_dicts() for name, table in tables.items()} == {each: stored[each] for each in tables}
    counts = dict(rounds.group_by("part").agg(pl.col("stage").n_unique()).iter_rows())
    assert counts == {"yardstick": 1, "updates": 3, "queries": 3, LEARNERS: 3}
    assert rounds.filter(stage="confirmation", part="updates", batch=8).height == 8
    key = ("task", "part", "arm", "batch", "variant", "alpha_step", "seed", "round")
    assert rounds.select("stage", *key).n_unique() == rounds.height


def test_a_second_run_computes_nothing_and_finds_the_same(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages.StageCell, "compute", lambda *_, **__: pytest.fail("a cell was computed again"))
    found, before = noise.run(small, Console(), SMALL), find_evidence(KIND, small)
    assert before is not None
    assert [table.frame.to_dicts() for table in found.tables] == [table.frame.to_dicts() for table in before.tables]


def test_rounds_of_all_arms_are_paired_and_in_the_same_order(small: Path) -> None:
    rounds = pl.read_parquet(noise.folder_of(small, SMALL) / "rounds.parquet").filter(stage="confirmation")
    keys = {
        tuple(part.sort("seed", "round").select("seed", "round").rows())
        for part in rounds.partition_by("part", "arm", "batch")
    }
    assert len(keys) == 1
    assert best_adam(pl.read_parquet(noise.folder_of(small, SMALL) / "rounds.parquet"), "CartPole") in {
        Arm("CartPole", "queries", "adam", batch) for batch in SMALL.batches
    }


def test_the_section_has_figures_tables_and_one_paragraph(small: Path) -> None:
    evidence = find_evidence(KIND, small)
    assert evidence is not None
    report: Report = noise_report(evidence, 1.0, preview=True)
    [section] = report.sections
    # Nothing is learned in so few steps, and there is no gap that a difference could be a share of.
    assert [chart.name for chart in section.charts] == ["noise-updates", "noise-queries"]
    assert [table.name for table in section.tables] == [CEILING, LEARNED, f"{LEARNED}-more"]


# What the page says


def row(task: str, batch: int, verdict: str, pace: str = "updates", edge: str = "") -> dict[str, Any]:
    return {"task": task, "pace": pace, "outcome": "area", "B": batch, "noise": verdict, "at an edge": edge}


def learned(task: str, name: str, verdict: str, batch: int = 32, alone: float = 12.0) -> dict[str, Any]:
    bounds = {"difference": 12.0, "difference_low": 3.0, "difference_high": 21.0}
    bounds |= {DIFFERENCE_ALONE: alone, f"{DIFFERENCE_ALONE}_low": alone - 9, f"{DIFFERENCE_ALONE}_high": alone + 9}
    names = {"task": task, "learner": name, "outcome": "area", "verdict": verdict}
    return {**names, "Adam's B": batch, ALONE: batch if alone > 9 else 8, **bounds}


CEILINGS = [row("CartPole", 8, "limits"), row("CartPole", 32, "limits"), row("CartPole", 128, "does not")]


def test_without_a_winner_that_is_the_headline_and_the_page_says_where_one_could_win() -> None:
    said = advice(CEILINGS, [learned("CartPole", "storm", "fails"), learned("CartPole", "srg", "fails")])
    assert said.startswith("No estimator beats tuned Adam at equal gradient queries on CartPole.")
    assert "on CartPole noise limits at B = 8 and 32, does not at 128." in said
    assert "noise limits on CartPole (B = 32), where an estimator could still win." in said
    assert said.endswith("Do not spend them on variance reduction.")


def test_what_was_not_decided_is_told_as_that() -> None:
    said = advice(CEILINGS, [learned("CartPole", "storm", "fails"), learned("CartPole", "srg", "undecided")])
    assert said.startswith("No estimator was shown to beat tuned Adam at equal gradient queries on CartPole.")
    assert said.endswith("Whether variance reduction gains anything beside that was not decided.")


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (32, "noise limits on CartPole (B = 32), where an estimator could still win"),
        (128, "it does not on CartPole (B = 128), where next to nothing is left to win"),
        (256, "it is not known on CartPole (B = 256)"),
        (512, "it is not known on CartPole (B = 512)"),
    ],
)
def test_what_is_left_to_win_is_told_only_where_it_is_known(batch: int, expected: str) -> None:
    unclear = [row("CartPole", 256, "unclear"), row("CartPole", 512, "")]
    said = advice([*CEILINGS, *unclear], [learned("CartPole", "storm", "fails", batch=batch)])
    assert f"At the batch size that is best for Adam at 8 queries per step, {expected}." in said


def test_a_winner_is_named_with_its_gain() -> None:
    said = advice(CEILINGS, [learned("CartPole", "storm", "holds"), learned("CartPole", "srg", "fails")])
    assert said.startswith(
        "By the rule fixed beforehand, tuned Adam is beaten at equal gradient queries by storm on CartPole (area) +12 "
        "[+3, +21]."
    )
    assert said.endswith("Where that is done, storm may be tried.")


def test_who_is_behind_the_adam_of_that_outcome_alone_has_not_won() -> None:
    said = advice(CEILINGS, [learned("CartPole", "storm", "holds", alone=-9.5), learned("CartPole", "srg", "fails")])
    assert said.startswith("By the rule fixed beforehand, tuned Adam is beaten at equal gradient queries by storm on ")
    assert "Seen afterwards, and deciding nothing" in said
    assert "it is not behind storm on CartPole (area, −9.5 [−18.5, −0.5] beside B = 8)." in said
    assert "Adam was best with B = 32 on CartPole (8 by area alone)." in said
    assert said.endswith("Whether variance reduction gains anything beside that was not decided.")


def test_a_control_that_wins_is_plain_adam_and_no_estimator() -> None:
    said = advice(CEILINGS, [learned("CartPole", "beta1", "holds"), learned("CartPole", "srg", "fails")])
    assert said.startswith("No estimator beats tuned Adam")
    assert "Plain Adam tuned further gains as well: beta1 on CartPole (area) +12 [+3, +21]." in said
    assert said.endswith("Then tune what beta1 changed. Do not spend them on variance reduction.")


def test_tasks_where_nothing_is_learned_and_none_at_all() -> None:
    said = advice([row("Acrobot", 8, "nothing learned"), row("CartPole", 8, "unclear")], [])
    assert "on Acrobot nothing is learned" in said
    assert "on CartPole noise is unclear at B = 8" in said
    moot = advice(CEILINGS, [learned("CartPole", "storm", "moot")])
    assert moot.startswith("Nothing was learned on CartPole")
    assert "Adam was best" not in moot
    some = headline([learned("CartPole", "storm", "fails"), learned("Acrobot", "storm", "moot")])
    assert some == "No estimator beats tuned Adam at equal gradient queries on CartPole."
    assert headline([]) == "No learner was compared with tuned Adam."


def test_batch_sizes_whose_step_size_lies_at_an_edge_are_told() -> None:
    edges = [row("CartPole", 512, "", edge="low"), row("CartPole", 8, "limits", "queries", "high")]
    said = advice([*CEILINGS, *edges], [learned("CartPole", "storm", "fails")])
    assert "There α lies at an edge of its grid for B = 512 on CartPole, which might do better with another." in said
    assert "at an edge" not in advice(CEILINGS, [learned("CartPole", "storm", "fails")])


def test_by_either_outcome_noise_limits_and_only_by_both_it_does_not() -> None:
    def by(area: str, final: str) -> str:
        both = [
            {**row("CartPole", 8, verdict), "outcome": name} for name, verdict in (("area", area), ("final", final))
        ]
        return limit_states(both, "CartPole")[8]

    assert by("limits", "does not") == by("limits", "unclear") == "limits"
    assert by("does not", "does not") == "does not"
    assert by("does not", "unclear") == by("nothing learned", "does not") == "unclear"
    assert by("", "") == by("", "nothing learned") == "not compared"


# The image


def test_the_ball_is_caught_by_who_follows_it() -> None:
    task, wins = Catch(), []
    for number in range(20):
        state = task.initial(jax.random.key(number))
        start = state
        while not task.terminal(state):
            before = state
            reached = task.transition(state, 1)[1]
            action = int(np.sign(float(reached - state[3]))) + 1
            state = task.transition(state, action)
            assert task.observation(state).sum() in (1.0, 2.0)
        assert (float(state[0]), float(start[0])) == (SIZE - 1, 0.0)
        wins.append(float(task.reward(before, 1, state)))
        assert float(task.reward(start, 1, before)) == 0.0
    assert np.mean(wins) > 0.7
    assert Pixels(jax.random.key(0))(task.observation(state).ravel()).shape == (3,)


# The command


def test_the_command_refuses_what_does_not_go_together(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words, said in (
        (["noise", "figure-2"], "noise is a study by itself"),
        (["noise", "--confirm"], "noise is a study by itself"),
        (["figure-2", "--task", "CartPole"], "--task is of the noise map"),
        (["noise", "--task", "CartPol"], "Did you mean 'CartPole'"),
    ):
        assert main(["reproduce", *words, "--out", str(tmp_path / "out")]) != 0
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_toy_run_makes_the_page_and_the_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["reproduce", "noise", "--quick", "--json", "--out", str(tmp_path)]) == 0
    said = json.loads(capsys.readouterr().out)
    page = Path(said["report"])
    assert page == noise.folder_of(tmp_path, QUICK) / "report.html"
    assert "The noise map" in page.read_text(encoding="utf-8")
    assert pl.read_parquet(page.parent / "rounds.parquet")["stage"].n_unique() == 3
    assert not (tmp_path / "noise.json").exists()  # a preview is no evidence


def test_the_time_is_told_for_each_task_and_together() -> None:
    lines = noise.time_lines(PLAN, noise.tasks_of(PLAN, ["Acrobot"]))
    assert [line.partition(":")[0] for line in lines[:-1]] == ["Acrobot", "LunarLander and Catch (described)"]
    assert "hours on two cores" in lines[-1]
    with pytest.raises(InputError, match="Did you mean"):
        noise.tasks_of(PLAN, ["Acrobt"])
    with pytest.raises(InputError, match=r"the preview has CartPole alone, not Acrobot"):
        noise.tasks_of(QUICK, ["Acrobot"])
