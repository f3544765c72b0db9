"""Tuned settings on made-up scores, and a small run for real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.config.algorithms import ADAM_STEPS
from srgdqn.config.presets import PRESETS
from srgdqn.paper import tuned_settings
from srgdqn.paper.arm_columns import arm_columns, share_text, spread_text
from srgdqn.paper.cells import QUIET, Console, MeasurementCell
from srgdqn.paper.claims.evidence import find_evidence, write_evidence
from srgdqn.paper.claims.verdicts import MARGINS
from srgdqn.paper.halving import PAPERS_OWN, Candidate, Choice, Grid, Trial
from srgdqn.paper.scale import SETS
from srgdqn.paper.scores import REFERENCE, Scores
from srgdqn.paper.tuned_settings import (
    ARMS,
    SEED,
    Group,
    below_own,
    beside_sentence,
    cell_name,
    costs_of,
    defects_sentence,
    fresh_cells,
    group_of,
    is_defect,
    judged,
    marks_sentence,
    run,
    search_table,
    section,
    still_sentences,
    verdicts_table,
)
from srgdqn.paper.tuning_search import PROCEDURE, Arm, Procedure, Stage, Tuned
from srgdqn.results.result import Result
from srgdqn.results.statistics import Interval
from srgdqn.runs.measurement import Measured
from srgdqn.runs.run import Run
from synthetic_outcomes import TASKS, planted_run
from tiny import TINY

GRID = Grid((-2, 2), (-2, 2))
NOISE = np.linspace(-0.05, 0.05, 40)


def choice(candidate: Candidate, *edges: Any, diverged: float = 0.0) -> Choice:
    return Choice(candidate, Trial(1.5, diverged), GRID, 3 if edges else 1, edges)


def scores(level: float, lost: int = 0, noise: float = 1.0) -> Scores:
    return Scores(level + noise * NOISE, np.arange(len(NOISE)) < lost)


def world(**levels: float | Scores) -> dict[str, dict[str, Scores]]:
    """The same arms on every task; yardsticks at 0, the others at 1 unless told."""
    usual: dict[str, float | Scores] = {**dict.fromkeys(ARMS, 1.0), "random": 0.0, "untrained": 0.0}
    given = usual | {name.replace("_", "-"): level for name, level in levels.items()}
    mine = {
        name: level if isinstance(level, Scores) else scores(level, 0, 1 + n)
        for n, (name, level) in enumerate(given.items())
    }
    return dict.fromkeys(TASKS, mine)


def verdicts(world_: Mapping[str, Mapping[str, Scores]]) -> dict[str, str]:
    return {each.name: each.verdict for each in judged(world_, "mnih", resamples=2_000)}


def test_what_c2_to_c5_say_of_final_scores() -> None:
    found = verdicts(world(srg_dqn=3.0))
    assert found == dict.fromkeys(
        ("C2 (reward)", "C3 (reward)", "C4 (reward)", "C5 (MountainCar)", "C5 (Pendulum)", "C5 (CartPole)"), "holds"
    )
    behind = verdicts(world(srg_dqn=0.5))
    assert set(behind.values()) == {"fails"}
    mixed = verdicts(world(srg_dqn=3.0, sgd_inner_adam=4.0))
    assert {name for name, verdict in mixed.items() if verdict == "fails"} == {n for n in mixed if n.startswith("C5")}
    assert {verdict for name, verdict in mixed.items() if not name.startswith("C5")} == {"holds"}


def test_on_cart_pole_srg_dqn_must_only_not_be_worse() -> None:
    level = verdicts(world(srg_dqn=1.0 - MARGINS["CartPole"] / 2))
    assert level["C4 (reward)"] == "holds"
    assert level["C2 (reward)"] == level["C5 (CartPole)"] == "fails"


def test_nobody_learned_is_moot() -> None:
    assert set(verdicts(world(**dict.fromkeys((*ARMS, "random"), -1.0))).values()) == {"moot"}  # type: ignore[arg-type]


def test_arms_that_all_diverged_are_not_compared() -> None:
    lost = scores(1.0, lost=30)
    found = judged(world(**dict.fromkeys(ARMS, lost)), "mnih", resamples=2_000)  # type: ignore[arg-type]
    assert {each.verdict for each in found} == {"moot"}
    assert all("diverged" in each.reason for each in found)


# A tuned arm below the paper's own settings


def group(tuned: np.ndarray, own: np.ndarray) -> Group:
    none = np.zeros(len(own), bool)
    return Group({"srg-dqn": Scores(tuned, none)}, {"srg-dqn": Scores(own, none)}, {}, 0.0, 0.0)


def test_worse_than_untuned_at_99_percent_is_a_defect() -> None:
    rng = np.random.default_rng(0)
    own = rng.normal(size=400)
    worse, level = (
        below_own(group(own - 0.5 + 0.1 * rng.normal(size=400), own), "srg-dqn"),
        below_own(group(own, own), "srg-dqn"),
    )
    assert is_defect(worse)
    assert worse.estimate == pytest.approx(-0.5, abs=0.02)
    assert not is_defect(level)
    # A normal approximation of the paired difference, whose 99 % quantile is 2.576 standard errors away.
    for shift, expected in ((-2.3, False), (-2.9, True)):
        noise = rng.normal(size=400)
        noise = (noise - noise.mean()) / noise.std()
        assert is_defect(below_own(group(own + noise + shift / 20, own), "srg-dqn")) == expected


def test_defects_are_named() -> None:
    worse, better = Interval(-1.0, -1.5, -0.5), Interval(1.0, -0.5, 1.5)
    arms = [Arm("Pendulum", "svr-dqn", "mnih"), Arm("CartPole", "srg-dqn", "corrected")]
    none = defects_sentence(dict.fromkeys(arms, better))
    assert none.startswith("None of 2 arms")
    some = defects_sentence({arms[0]: worse, arms[1]: better})
    assert "1 of 2" in some
    assert "svr-dqn on Pendulum, mnih" in some
    assert "srg-dqn" not in some


# What runs on fresh seeds, and what it scores


def test_fresh_cells_have_the_chosen_the_papers_own_and_the_yardsticks() -> None:
    arms = [Arm("MountainCar", name, "mnih") for name in ("srg-dqn", "dqn-sgd")]
    chosen = {arms[0]: choice(Candidate(-1, 2)), arms[1]: choice(PAPERS_OWN)}
    found = {cell.name: cell.configuration for cell in fresh_cells(chosen, PROCEDURE, 7, 10_900)}
    assert set(found) == {
        "MountainCar-srg-dqn-mnih-own",
        "MountainCar-srg-dqn-mnih-tuned",
        "MountainCar-dqn-sgd-mnih-own",
        "MountainCar-random-mnih-own",
        "MountainCar-untrained-mnih-own",
    }
    tuned, own = found["MountainCar-srg-dqn-mnih-tuned"].options(), found["MountainCar-srg-dqn-mnih-own"].options()
    assert {name for name in tuned if tuned[name] != own[name]} == {"eta", "alpha"}
    assert (tuned["eta"], tuned["alpha"]) == pytest.approx((1e-2 / 10**0.5, 1e-2))
    for configuration in found.values():
        assert (configuration.training.rounds, configuration.training.seed) == (7, 10_900)
        assert configuration.training.steps == PRESETS["MountainCar"]["steps"]
        assert configuration.readings == "mnih"


def test_the_fresh_seeds_and_rounds_are_the_rules() -> None:
    assert SEED == 41_001
    assert SETS == ("corrected", "printed", "mnih")
    assert set(REFERENCE) < set(ARMS)
    assert not set(ADAM_STEPS) & set(ARMS)


def test_a_diverged_round_scores_the_same_tuned_or_not() -> None:
    arms = [Arm("Pendulum", name, "mnih") for name in ("srg-dqn", "dqn-sgd")]
    chosen = {arms[0]: choice(Candidate(1, 0)), arms[1]: choice(PAPERS_OWN)}
    runs = {
        cell_name(arms[0], tuned=False): ([1.0, 2.0, 3.0], {2: 2_000}),
        cell_name(arms[0], tuned=True): ([5.0, -4.0, 6.0], {0: 2_000}),
        cell_name(arms[1], tuned=False): ([0.0, 0.5, 0.0], {}),
        "Pendulum-random-mnih-own": ([-1.0] * 3, {}),
        "Pendulum-untrained-mnih-own": ([-2.0] * 3, {}),
    }
    outcomes = {name: planted_run("Pendulum", "dqn-sgd", each, diverged=lost) for name, (each, lost) in runs.items()}
    found = group_of(outcomes, chosen)
    np.testing.assert_allclose(found.tuned["srg-dqn"].values, [-4.0, -4.0, 6.0])
    np.testing.assert_allclose(found.own["srg-dqn"].values, [1.0, 2.0, -4.0])
    assert found.tuned["dqn-sgd"] is found.own["dqn-sgd"]
    assert found.floor == -4.0
    np.testing.assert_allclose(found.tuned["untrained"].values, -2.0)
    assert found.columns["srg-dqn"]["diverged"].startswith("1 of 3")
    assert found.columns["srg-dqn"]["score"].startswith("-0.667 [")
    assert found.seconds == pytest.approx(2.0 * len(runs))


def test_whom_srg_dqn_is_ahead_of_is_counted() -> None:
    arms = world(srg_dqn=3.0, dqn_adam=4.0)["CartPole"]
    said = beside_sentence({("CartPole", "mnih"): Group(arms, arms, {}, 0.0, 0.0)})
    assert (
        said == "Of 1 pairs of task and readings SRG-DQN is ahead (95 %) of dqn-adam in 0 and dqn-adam-repeated in 1."
    )


def test_where_inner_steps_hardly_move_it_is_told() -> None:
    ours, other = Arm("CartPole", "srg-dqn", "mnih"), Arm("CartPole", "svr-dqn", "mnih")
    assert still_sentences({ours: -1, other: -9}) == []  # half a decade
    [said] = still_sentences({ours: -4, other: 0})
    assert "100 times smaller than the paper's on CartPole with mnih: there inner steps" in said
    # As printed a single transition's gradient enters Adam, whatever η is.
    assert still_sentences({ours._replace(readings="printed"): -4}) == []


def test_the_margin_of_c4_is_no_part_of_the_difference_shown() -> None:
    arms = world(srg_dqn=3.0)
    rows = verdicts_table({"mnih": judged(arms, "mnih", 500)}).frame.to_dicts()
    shown = {(row["claim"], row["contrast"]): row["difference [95 %]"] for row in rows}
    c4, c5 = (shown[name, "SRG-DQN against srg-dqn-no-adam"] for name in ("C4 (reward)", "C5 (CartPole)"))
    apart = arms["CartPole"]["srg-dqn"].values - arms["CartPole"]["srg-dqn-no-adam"].values
    assert float(c4.split()[0]) == pytest.approx(apart.mean(), rel=0.01)
    assert float(c5.split()[0]) == pytest.approx(apart.mean(), rel=0.01)


def test_costs_at_equal_queries_by_hand() -> None:
    arms = [Arm("Pendulum", name, "mnih") for name in ("srg-dqn", "dqn-sgd")]
    chosen = {arms[0]: choice(Candidate(1, 0)), arms[1]: choice(PAPERS_OWN)}
    runs = {
        cell_name(arms[0], tuned=False): ("srg-dqn", [1.0, 2.0], {}),
        cell_name(arms[0], tuned=True): ("srg-dqn", [5.0, 6.0], {0: 2_000}),
        cell_name(arms[1], tuned=False): ("dqn-sgd", [0.0, 0.5], {}),
    }
    outcomes = {name: planted_run("Pendulum", who, each, diverged=lost) for name, (who, each, lost) in runs.items()}
    rows = costs_of(outcomes, chosen, -4.0, {"srg-dqn": 1e-6, "dqn-sgd": 1e-6})
    told = {(row["step sizes"], row["algorithm"]): row for row in rows}
    assert set(told) == {(sizes, arm.algorithm) for sizes in ("the paper's", "tuned") for arm in arms}
    # Algorithm 1 asks for N + 2M = 32 + 32 gradients, DQN with SGD for N.
    assert {name: row["queries per batch"] for (_, name), row in told.items()} == {"srg-dqn": "64", "dqn-sgd": "32"}
    assert told["the paper's", "srg-dqn"]["score at equal steps"] == "1.500"
    assert told["tuned", "srg-dqn"]["score at equal steps"] == "1.000"  # (-4 + 6) / 2
    assert told["tuned", "srg-dqn"]["diverged"].startswith("1 of 2")
    assert told["tuned", "dqn-sgd"]["score at equal queries"] == "0.250"


def test_columns_of_an_arm_by_hand() -> None:
    result = planted_run("MountainCar", "srg-dqn", [1.0, 3.0, 9.0, 9.0], diverged={2: 2_000, 3: 2_000})
    columns = arm_columns(Scores(np.array([1.0, 3.0, 0.0, 0.0]), np.array([False, False, True, True])), result)
    assert columns["score"].startswith("1.000 [")
    assert columns["diverged"] == "2 of 4 [15 %, 85 %]"
    # Of the two rounds that finished: returns -1 and -2, lengths 100 and 140; three of four episodes succeed.
    assert (columns["greedy return"], columns["success"], columns["length"]) == ("-1.5", "75%", "120")
    nobody = planted_run("MountainCar", "srg-dqn", [1.0, 3.0], diverged={0: 2_000, 1: 2_000})
    none = arm_columns(Scores(np.zeros(2), np.ones(2, bool)), nobody)
    assert (none["greedy return"], none["success"], none["length"]) == ("none finished",) * 3


def test_what_cannot_be_told_of_an_arm_is_told_in_words() -> None:
    scores = Scores(np.array([1.0, 3.0]), np.zeros(2, bool))
    greedy = ("greedy return", "success", "length")
    random = planted_run("Pendulum", "dqn-sgd", [1.0, 3.0], epsilon_start=1.0, epsilon_end=1.0)
    assert [arm_columns(scores, random)[name] for name in greedy] == ["never greedy"] * 3
    run = planted_run("Pendulum", "srg-dqn", [1.0, 3.0])
    nothing = run.evaluations.with_columns(success=pl.lit(None, pl.Boolean))
    for table, said in ((nothing, ["-1.5", "not defined", "120"]), (nothing.clear(), ["not evaluated"] * 3)):
        changed = Result(Run(run.configuration, {**run.run.tables, "evaluations": table}, {}, run.run.provenance))
        assert [arm_columns(scores, changed)[name] for name in greedy] == said


def test_the_spread_is_of_rounds_that_finished() -> None:
    scores = Scores(np.array([1.0, 3.0, -50.0]), np.array([False, False, True]))
    assert spread_text(scores) == f"{np.sqrt(2):.3f}"
    assert spread_text(scores, ".0f") == "1"
    assert spread_text(Scores(scores.values, np.array([False, True, True]))) == "1 finished"
    assert spread_text(Scores(scores.values, np.ones(3, bool))) == "none finished"


def test_an_interval_of_a_share_against_wilsons_formula() -> None:
    for count, total in ((0, 50), (7, 50), (50, 50)):
        share, z = count / total, 1.959964
        middle = (share + z**2 / (2 * total)) / (1 + z**2 / total)
        reach = z / (1 + z**2 / total) * np.sqrt(share * (1 - share) / total + z**2 / (4 * total**2))
        low, high = 100 * (middle - reach), 100 * (middle + reach)
        assert share_text(count, total) == f"{count} of {total} [{abs(low):.0f} %, {high:.0f} %]"


def test_marks_are_told() -> None:
    arm = Arm("CartPole", "srg-dqn", "mnih")
    chosen = {
        arm: choice(Candidate(-2, 1), ("eta", "low"), diverged=0.2),
        Arm("CartPole", "dqn-sgd", "mnih"): choice(PAPERS_OWN),
    }
    first, second = search_table(chosen).frame.to_dicts()
    assert (first["η"], first["α"], first["widened"]) == ("0.001*", "0.0032", 3)
    assert first["marks"] == "η at the low edge of its grid; more than a twentieth of its rounds diverged"
    assert first["tried from, to"] == "0.001, 0.1"
    assert (second["η"], second["α"], second["marks"]) == ("0.01", "–", "")
    assert marks_sentence(chosen).startswith("Of 2 choices 1 are the paper's own settings and 1 lie at an edge")


# The command


def test_the_command_judges_what_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SRG-DQN's tuned self is ahead of everybody; SVR-DQN's is below its untuned one on Pendulum."""
    asked: list[Any] = []

    def tune(arms: Sequence[Arm], *_: Any) -> Tuned:
        return Tuned({arm: choice(Candidate(1, 0)) for arm in arms}, 60.0)

    def run_cells(title: str, cells: Sequence[Any], folder: Path, console: Console) -> dict[str, Any]:
        assert folder == tmp_path / "tuned"
        made = {}
        for cell in cells:
            if isinstance(cell, MeasurementCell):
                assert cell.alone
                times = [(name, turn, 1e-6 * (turn + 1)) for name in ARMS for turn in range(3)]
                table = pl.DataFrame(times, ("name", "turn", "seconds_per_step"), orient="row")
                return {cell.name: Measured({"times": table}, {})}
            asked.append(cell)
            tuned = cell.name.endswith("tuned")
            level = 3.0 if "-srg-dqn-corrected-tuned" in cell.name or "-srg-dqn-mnih-tuned" in cell.name else 1.0
            level = 0.0 if "random" in cell.name or "untrained" in cell.name else level
            level = 0.5 if "Pendulum-svr-dqn-mnih" in cell.name and tuned else level
            noise = NOISE[10:30] * (1 + len(asked) % 3)
            made[cell.name] = planted_run(cell.configuration.task.task, cell.configuration.algorithm, level + noise)
        return made

    monkeypatch.setattr(tuned_settings, "tune", tune)
    monkeypatch.setattr(tuned_settings, "run_cells", run_cells)
    evidence = run(tmp_path, QUIET, rounds=dict.fromkeys(TASKS, 20), seed=10_900, resamples=2_000)
    assert {cell.configuration.training.seed for cell in asked} == {10_900}
    assert len(asked) == len(TASKS) * len(SETS) * (2 * len(ARMS) + 2)
    found = " ".join(evidence.about["found"])
    assert "corrected: C2 (reward) holds" in found
    assert "1 of 72 arms are below their untuned selves (svr-dqn on Pendulum, mnih)" in found
    scores_, search, contrasts, beside, costs = evidence.tables
    assert costs.frame.height == len(TASKS) * len(SETS) * len(ARMS) * 2
    assert set(costs.frame["step sizes"]) == {"the paper's", "tuned"}
    assert scores_.frame.height == len(TASKS) * len(SETS) * (len(ARMS) + 2)
    rows = {(row["task"], row["readings"], row["algorithm"]): row for row in scores_.frame.to_dicts()}
    assert rows["Pendulum", "mnih", "svr-dqn"]["defect"] == "yes"
    assert rows["Pendulum", "mnih", "svr-dqn"]["tuned − paper's [99 %]"].startswith("-0.500 [")
    assert rows["Pendulum", "corrected", "svr-dqn"]["defect"] == "no"
    assert rows["Pendulum", "corrected", "random"]["defect"] == "–"
    assert search.frame.height == 72
    assert beside.frame.height == len(TASKS) * len(SETS) * 2
    against = {
        (row["task"], row["readings"], row["against"]): row["difference [95 %]"] for row in beside.frame.to_dicts()
    }
    assert against["CartPole", "mnih", "dqn-adam"].startswith("+2.000 [")  # 3 against 1
    assert (
        "Of 9 pairs of task and readings SRG-DQN is ahead (95 %) of dqn-adam in 6 and dqn-adam-repeated in 6." in found
    )
    assert contrasts.frame.height == len(SETS) * (3 * 3 + 3 * 2)
    path = write_evidence(evidence, tmp_path)
    assert path.stat().st_size < 300_000
    read = find_evidence("tuned", tmp_path)
    assert read is not None
    shown = section(read)
    assert shown.found.startswith(found)
    assert "seed 10900; rounds: 20 on MountainCar" in shown.found
    names = ("scores", "search", "verdicts", "beside", "costs")
    assert [table.name for table in shown.tables] == [f"tuned-{name}" for name in names]


def test_a_tiny_run_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned_settings, "TASKS", ("CartPole",))
    monkeypatch.setattr(tuned_settings, "SETS", ("mnih",))
    monkeypatch.setattr(tuned_settings, "judged", lambda *_: [])
    options = {name: value for name, value in TINY.items() if name not in ("steps", "evaluation_interval")}
    small = Procedure((Stage(2, 10_001), Stage(3, 10_002)), 1, {"CartPole": {**options, "episodes": 101}})
    evidence = run(tmp_path, QUIET, small, {"CartPole": 4}, 10_900, 1_000)
    rows = evidence.tables[0].frame
    assert rows["algorithm"].to_list() == [*ARMS, "random", "untrained"]
    assert all(" of 4 [" in text for text in rows["diverged"])
    assert rows.filter(algorithm="random")["greedy return"][0] != "–"
    assert all(row["tuned − paper's [99 %]"] != "–" or row["defect"] == "–" for row in rows.to_dicts())
