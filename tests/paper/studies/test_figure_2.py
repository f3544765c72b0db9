from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.config.algorithms import PAPER
from srgdqn.config.configure import configure
from srgdqn.figures.charts import GREY, data_of
from srgdqn.paper.claims.evidence import evidence_of
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import PAPER_SCALE
from srgdqn.paper.studies import controls, figure_2
from srgdqn.results.result import Result
from srgdqn.runs.run import Run
from synthetic_outcomes import CHANCE, EPISODES, ROUNDS, UNTRAINED, planted_run, world

SETS = ("corrected", "printed", "mnih")


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """As planted, but on Pendulum two of SRG-DQN's rounds diverged early and five of SVR-DQN's late, on CartPole all of
    SRG-DQN's; and it is behind a control on MountainCar.
    """
    found = world(True, readings=SETS)
    levels = 2.0 + np.linspace(-0.1, 0.1, ROUNDS)
    found["Pendulum-srg-dqn-corrected"] = planted_run("Pendulum", "srg-dqn", levels, diverged={0: 1_008, 5: 2_000})
    late = dict.fromkeys(range(5), 8_008)
    found["Pendulum-svr-dqn-corrected"] = planted_run("Pendulum", "svr-dqn", levels - 1, diverged=late)
    every = dict.fromkeys(range(ROUNDS), 2_000)
    found["CartPole-srg-dqn-corrected"] = planted_run("CartPole", "srg-dqn", levels, diverged=every)
    found["MountainCar-sgd-inner-adam-corrected"] = planted_run("MountainCar", "sgd-inner-adam", levels + 3)
    return found


def plain_scores(outcomes: dict[str, Any], task: str, readings: str, arm: str) -> np.ndarray:
    """Final scores by plain loops: rewards of the last two windows of ten, or returns of the last hundred episodes."""

    def own(name: str) -> dict[int, float]:
        run = outcomes[f"{task}-{name}-{readings}"]
        finished = run.rounds.filter(pl.col("diverged_at").is_null())["round"].to_list()
        if task == "CartPole":
            rows = run.episodes.filter(pl.col("episode") >= EPISODES - 100).select("round", "return").rows()
        else:
            rows = run.curves.filter(pl.col("step") > 8_000).select("round", "reward").rows()
        return {number: float(np.mean([value for n, value in rows if n == number])) for number in finished}

    reference = (*PAPER, "sgd-inner", "sgd-inner-adam")
    floor = min([value for name in reference for value in own(name).values()] + [np.mean([*own("random").values()])])
    mine = own(arm)
    return np.array([mine.get(number, floor) for number in range(ROUNDS)])


def test_the_random_policy_always_explores_and_neither_yardstick_learns() -> None:
    cells = {cell.name: cell for cell in figure_2.cells(PAPER_SCALE, "corrected")}
    options = cells["Pendulum-random-corrected"].configuration.options()
    assert (options["epsilon_start"], options["epsilon_end"], options["eta"]) == (1.0, 1.0, 0.0)
    assert not options["adam_process"]
    assert cells["Pendulum-untrained-corrected"].configuration.options()["eta"] == 0.0
    assert len(cells) == 3 * (4 + 2)


def test_divergence_is_no_gain_in_scores(outcomes: dict[str, Any]) -> None:
    for task, readings in (("Pendulum", "corrected"), ("CartPole", "corrected"), ("MountainCar", "mnih")):
        found = figure_2.task_scores(outcomes, task, readings)
        assert set(found) == {*PAPER, "sgd-inner", "sgd-inner-adam", "random", "untrained"}
        for name, scores in found.items():
            np.testing.assert_allclose(scores.values, plain_scores(outcomes, task, readings, name))
    assert figure_2.task_scores(outcomes, "CartPole", "corrected")["srg-dqn"].diverged.all()


@pytest.fixture(scope="module")
def section(outcomes: dict[str, Any]) -> Section:
    return figure_2.show(PAPER_SCALE, SETS, outcomes)


def test_the_figure_has_the_papers_panels_and_bands_with_all_sets(section: Section) -> None:
    names = [chart.name for chart in section.charts]
    assert names == ["figure-2", "figure-2-printed", "figure-2-mnih", "figure-2-success-and-length", "figure-2-greedy"]
    main, *others = section.charts[:3]
    assert [panel.title for panel in main.panels] == ["MountainCar", "Pendulum", "CartPole"]
    for panel in main.panels:
        labels = [(series.label, series.group) for series in panel.series if "survivors" not in series.label]
        wanted = [(name, each) for each in SETS for name in (*PAPER, "random", "untrained")]
        assert list(dict.fromkeys(labels)) == wanted
        first = [series for series in panel.series if series.group == "corrected" and series.shown]
        assert {series.label for series in first if series.low is None} >= {"dqn-sgd", "random", "untrained"}
        assert {series.style.color for series in first if series.label in ("random", "untrained")} == {GREY}
        assert len({series.style.color for series in first}) == 5
        assert not any(series.shown for series in panel.series if series.group != "corrected")
    for readings, chart in zip(SETS[1:], others, strict=True):
        for panel in chart.panels:
            assert {(series.group, series.shown) for series in panel.series} == {(readings, True)}
    # Ten windows: early rewards are 0.4 less than late ones, of which SRG-DQN's mean is 2.
    car = data_of(main).filter(panel="MountainCar", series="srg-dqn", group="printed").sort("steps")
    np.testing.assert_allclose(car["y"], [1.6] * 5 + [2.0] * 5)
    np.testing.assert_allclose(car["high"] - car["y"], 0.05)
    for task, yardstick, value in (("Pendulum", "untrained", UNTRAINED), ("CartPole", "random", CHANCE)):
        points = data_of(main).filter(panel=task, series=yardstick, group="mnih")
        assert points["y"][-1] == pytest.approx(value)


def test_curves_are_means_over_all_rounds_as_scored(outcomes: dict[str, Any], section: Section) -> None:
    arms = {name: outcomes[f"Pendulum-{name}-corrected"] for name in (*PAPER, "sgd-inner", "sgd-inner-adam", "random")}
    rewards = {}
    for name, run in arms.items():
        rewards[name] = np.full((ROUNDS, 10), np.nan)
        for number, step, reward in run.curves.select("round", "step", "reward").iter_rows():
            if step % 1_000 == 0:
                rewards[name][number, step // 1_000 - 1] = reward
    whole = {name: values[np.isfinite(values).all(1)] for name, values in rewards.items()}
    floor = np.min([whole[name].min(0) for name in PAPER] + [rewards["random"].mean(0)], axis=0)
    panel = section.charts[0].panels[1]
    for name, left, dashes in (("srg-dqn", 22, ["-"]), ("svr-dqn", 19, ["-", "--"]), ("dqn-sgd", 24, ["-"])):
        parts = [each for each in panel.series if (each.label, each.group) == (name, "corrected")]
        assert [part.style.dashes for part in parts] == dashes
        drawn = np.concatenate([part.y[min(place, 1) :] for place, part in enumerate(parts)])
        np.testing.assert_allclose(drawn, np.where(np.isnan(rewards[name]), floor, rewards[name]).mean(0))
        assert parts[-1].note == ("" if left == ROUNDS else f"{left} of {ROUNDS} left")
    tail = next(each for each in panel.series if each.label == "svr-dqn" and each.style.dashes == "--")
    np.testing.assert_array_equal(tail.x["steps"], [8_000, 9_000, 10_000])  # 19 of 24 are left from 9,000 on
    survivors = [each for each in panel.series if each.label.endswith("survivors only") and each.group == "corrected"]
    assert [(each.label, each.shown) for each in survivors] == [
        ("svr-dqn, survivors only", False),
        ("srg-dqn, survivors only", False),
    ]
    np.testing.assert_allclose(survivors[1].y, np.nanmean(rewards["srg-dqn"], 0))
    pole = [each for each in section.charts[0].panels[2].series if each.note]
    assert [(each.label, each.note) for each in pole] == [("srg-dqn", f"none of {ROUNDS} left")]
    assert pole[0].x["episodes"][-1] == EPISODES
    caption = section.charts[0].caption
    assert "svr-dqn on Pendulum 19 of 24, srg-dqn on Pendulum 22 of 24, srg-dqn on CartPole 0 of 24; all" in caption
    assert section.charts[1].caption.endswith("No round diverged.")


def test_success_length_and_greedy_episodes_stand_beside_reward(outcomes: dict[str, Any], section: Section) -> None:
    beside, greedy = section.charts[3:]
    success, car, pole = beside.panels
    line = next(series for series in success.series if series.label == "svr-dqn")
    np.testing.assert_allclose(line.y, 0.75)  # every other round succeeds once of twice
    assert {series.label for series in success.series if series.group == "mnih"} == {*PAPER, "untrained"}
    assert {series.label for series in car.series if series.group == "mnih"} == {*PAPER, "random", "untrained"}
    np.testing.assert_allclose(next(series for series in pole.series if series.label == "svr-dqn").y, 50.0)
    assert [panel.title for panel in greedy.panels] == ["MountainCar", "Pendulum", "CartPole"]
    for panel in greedy.panels:
        assert panel.categories == SETS
        assert [series.label for series in panel.series] == [*PAPER, "untrained"]
        for series in panel.series:
            np.testing.assert_allclose(series.y, -1.5)  # of -1 and -2 in every round, and so of the worst


def test_on_cartpole_short_episodes_are_the_bad_ones_and_on_mountaincar_long_ones() -> None:
    lengths = {"dqn-sgd": [20.0, 60.0, 30.0], "srg-dqn": [40.0, 40.0, 40.0], "random": [30.0, 30.0, 30.0]}
    for task, worst in (("CartPole", 20.0), ("MountainCar", 60.0)):
        outcomes = {}
        for name in (*PAPER, "random", "untrained"):
            algorithm = name if name in PAPER else "dqn-sgd"
            lost = {0: 400} if name == "srg-dqn" else None
            long = lengths.get(name, [50.0] * 3)
            run = planted_run(task, algorithm, np.zeros(3), lengths=long, diverged=lost, episodes=120)
            if task == "MountainCar":  # whose budget is in steps, but whose episodes are long or short alike
                settings = configure(task, algorithm, rounds=3, steps=7_200, window=1_000)
                run = Result(Run(settings, run.run.tables, run.run.parameters, run.run.provenance))
            outcomes[f"{task}-{name}-corrected"] = run
        panel = figure_2.merged_panel(outcomes, task, ("corrected",), "length")
        tail = next(series for series in panel.series if series.note)
        assert tail.label == "srg-dqn"
        np.testing.assert_allclose(tail.y[-1], (40.0 + 40.0 + worst) / 3)
        assert tail.note == "2 of 3 left"


def test_a_panel_of_lengths_that_nobody_has_is_left_out(outcomes: dict[str, Any]) -> None:
    few = dict(outcomes)
    for name, run in outcomes.items():
        if name.startswith("MountainCar"):
            tables = {**run.run.tables, "episodes": run.episodes.clear()}
            tables["rounds"] = run.rounds.with_columns(episodes=pl.lit(0, run.rounds.schema["episodes"]))
            few[name] = Result(Run(run.configuration, tables, run.run.parameters, run.run.provenance))
    beside = figure_2.show(PAPER_SCALE, ("corrected",), few).charts[1]
    assert [panel.title for panel in beside.panels] == ["MountainCar", "CartPole"]
    assert all(panel.series for panel in beside.panels)


def test_the_table_has_every_arm_of_every_set(outcomes: dict[str, Any], section: Section) -> None:
    (table,) = section.tables
    rows = {(row["task"], row["readings"], row["algorithm"]): row for row in table.frame.to_dicts()}
    assert len(rows) == 3 * 3 * 6
    mine = rows["MountainCar", "corrected", "srg-dqn"]
    assert mine["score"].startswith("2.000 [")
    assert [mine[f"{name} (finished rounds)"] for name in ("greedy return", "success", "length")] == [
        "-1.5",
        "75%",
        "120",
    ]
    assert mine["sd of finished rounds"] == "0.050"
    for task in ("Pendulum", "CartPole"):
        lost = rows[task, "corrected", "srg-dqn"]
        scores = plain_scores(outcomes, task, "corrected", "srg-dqn")
        assert lost["score"].startswith(f"{scores.mean():.3f} [")
    assert rows["Pendulum", "corrected", "srg-dqn"]["diverged"] == f"2 of {ROUNDS} [2 %, 26 %]"
    assert rows["Pendulum", "corrected", "srg-dqn"]["greedy return (finished rounds)"] == "-1.5"
    assert rows["CartPole", "corrected", "srg-dqn"]["greedy return (finished rounds)"] == "none finished"
    assert rows["CartPole", "mnih", "random"]["success (finished rounds)"] == "never greedy"
    assert rows["CartPole", "mnih", "untrained"]["score"].startswith("0.125 [")
    assert not [value for row in rows.values() for value in row.values() if "–" in value]
    assert "or the random policy's mean where that is worse" in table.note
    assert "scores as the random policy" not in table.note


def test_what_was_found_is_said_of_all_rounds(
    outcomes: dict[str, Any], section: Section, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "2 of 24 rounds of SRG-DQN diverged" in section.found
    assert "MountainCar: SRG-DQN 2.000, " in section.found
    assert "; the random policy 0.250, the untrained agent 0.125." in section.found
    assert "the order is the other" not in section.found
    # Four of its rounds finish, and are better than SVR-DQN's; over all rounds it is behind.
    levels = np.full(ROUNDS, 2.0)
    lost = dict.fromkeys(range(ROUNDS - 4), 3_000)
    changed = {
        **outcomes,
        "Pendulum-srg-dqn-corrected": planted_run("Pendulum", "srg-dqn", levels, diverged=lost),
        "Pendulum-svr-dqn-corrected": planted_run("Pendulum", "svr-dqn", levels - 0.5),
    }
    start = (
        "Over the rounds that finished, the order is the other: SRG-DQN 2.00 (4 rounds) and SVR-DQN 1.50 (24 rounds). "
        "In the released confirmatory run the 30 rounds that finished in both "
    )
    for apart, told in (
        ((0.2, -0.1, 0.5), f"{start}do not differ clearly: +0.20 [−0.10, +0.50]."),
        ((0.2, 0.1, 0.3), f"{start}differ, too: +0.20 [+0.10, +0.30]."),
        ((-0.2, -0.3, -0.1), f"{start}differ the other way: −0.20 [−0.30, −0.10]."),
    ):
        confirmed(monkeypatch, *apart)
        assert told in figure_2.show(PAPER_SCALE, ("corrected",), changed).found
    # Nothing is said that it does not say.
    for apart in ((None, None, None), ()):
        confirmed(monkeypatch, *apart)
        assert "1.50 (24 rounds).\n\n" in figure_2.show(PAPER_SCALE, ("corrected",), changed).found


def confirmed(monkeypatch: pytest.MonkeyPatch, *apart: float | None) -> None:
    """A released confirmatory run with that difference of survivors on Pendulum; without one there is no such table."""
    names = ("of survivors", "survivors low", "survivors high")
    row = {"task": "Pendulum", "readings": "corrected", "against": "svr-dqn", "in both": 30}
    frame = pl.DataFrame([{**row, **dict(zip(names, apart, strict=False))}])
    tables = [Table("confirmation-contrasts", "", frame)] if apart else []
    made = evidence_of("confirmation", {}, tables, seed=1, rounds="2", seconds=1.0)
    monkeypatch.setattr(figure_2, "find_evidence", lambda kind: made)


def test_controls_contrast_srg_dqn_with_every_other(outcomes: dict[str, Any]) -> None:
    section = controls.show(PAPER_SCALE, ("corrected",), outcomes)
    table, costs, interaction, scores = section.tables
    rows = {(row["task"], row["against"]): row for row in table.frame.to_dicts()}
    assert len(rows) == 3 * 5
    row = rows["MountainCar", "sgd-inner"]
    assert (row["SRG-DQN"], row["the other"]) == ("2.000", "0.900")
    assert row["difference [95 %]"].startswith("+1.100 [")
    assert row["finished in both: difference [95 %]"] == row["difference [95 %]"]
    assert row["log sd ratio [95 %]"].startswith(f"{np.log(0.05 / 0.3):+.3f} [")
    assert rows["MountainCar", "sgd-inner-adam"]["difference [95 %]"].startswith("-3.000 [")
    ahead = "srg-dqn-no-adam, svr-dqn, sgd-inner, dqn-sgd"
    assert f"MountainCar: SRG-DQN is ahead of {ahead}; behind sgd-inner-adam." in section.found
    assert scores.frame.height == 3 * 8
    spent = {(row["task"], row["algorithm"]): row for row in costs.frame.to_dicts()}
    assert len(spent) == 3 * 6
    asked = [spent[place]["queries per batch"] for place in (("MountainCar", "srg-dqn"), ("Pendulum", "dqn-sgd"))]
    assert asked == ["96", "32"]
    for cost in ("steps", "queries", "seconds"):  # of itself all that it spends
        assert spent["MountainCar", "srg-dqn"][f"score at equal {cost}"] == "2.000"
    assert {series.label for series in section.charts[0].panels[0].series} == {
        *PAPER,
        "sgd-inner",
        "sgd-inner-adam",
        "random",
        "untrained",
    }
    # 0.9 with neither, 5 with Adam, 0.9 with variance reduction, and 2 with both.
    car = interaction.frame.row(0, named=True)
    assert (car["task"], car["neither"]) == ("MountainCar", "0.900")
    for effect, value in (("Adam alone", 4.1), ("variance reduction alone", 0.0), ("both", 1.1), ("interaction", -3.0)):
        assert float(car[effect].split()[0]) == pytest.approx(value, abs=1e-3)
    assert interaction.frame.height == 3
    # Two of SRG-DQN's rounds on Pendulum, all on CartPole, and none elsewhere.
    lost = [text.split(" [")[0] for text in interaction.frame["diverged"]]
    assert lost == [f"{count} of {4 * ROUNDS}" for count in (0, 2, ROUNDS)]
    # In a preview there is none of it, rather than a table of nothing.
    few = {name: result for name, result in outcomes.items() if "-sgd-inner-corrected" not in name}
    assert len(controls.show(PAPER_SCALE, ("corrected",), few).tables) == 3


def test_contrasts_of_diverged_rounds_by_hand(outcomes: dict[str, Any]) -> None:
    rows = {row["against"]: row for row in contrasts_on("Pendulum", outcomes)}
    ours, theirs = (plain_scores(outcomes, "Pendulum", "corrected", name) for name in ("srg-dqn", "svr-dqn"))
    row = rows["svr-dqn"]
    assert row["difference [95 %]"].startswith(f"{(ours - theirs).mean():+.3f} [")
    both = [number for number in range(ROUNDS) if number not in (0, 5, 0, 1, 2, 3, 4)]
    assert row["finished in both: difference [95 %]"].startswith(f"{(ours - theirs)[both].mean():+.3f} [")
    assert (row["SRG-DQN diverged"], row["the other diverged"]) == ("2 of 24 [2 %, 26 %]", "5 of 24 [9 %, 40 %]")
    # On CartPole none of SRG-DQN's rounds finished; beside an arm that has lost most of its own nothing is said.
    rows = {row["against"]: row for row in contrasts_on("CartPole", outcomes)}
    told = rows["svr-dqn"]
    assert told["difference [95 %]"][0] in "+-"
    assert told["log sd ratio [95 %]"] == "no round finished in both"
    lost = planted_run("CartPole", "svr-dqn", np.zeros(ROUNDS), diverged=dict.fromkeys(range(1, ROUNDS), 2_000))
    changed = {**outcomes, "CartPole-svr-dqn-corrected": lost}
    rows = {row["against"]: row for row in contrasts_on("CartPole", changed)}
    assert rows["svr-dqn"]["difference [95 %]"] == "not compared: most rounds of both diverged"
    found = controls.show(PAPER_SCALE, ("corrected",), changed).found
    assert "Most of its rounds diverge, as do those of svr-dqn." in found


def contrasts_on(task: str, outcomes: dict[str, Any]) -> list[dict[str, str]]:
    table = controls.contrast_table(outcomes, ("corrected",), PAPER)
    return [row for row in table.frame.to_dicts() if row["task"] == task]


def test_where_most_rounds_of_the_whole_factorial_diverged_nothing_adds_up(outcomes: dict[str, Any]) -> None:
    lost = dict.fromkeys(range(13), 2_000)
    changed = dict(outcomes)
    for name in ("sgd-inner", "sgd-inner-adam", "srg-dqn-no-adam", "srg-dqn"):
        changed[f"Pendulum-{name}-corrected"] = planted_run("Pendulum", name, np.ones(ROUNDS), diverged=lost)
    row = controls.interaction_table(changed, ("corrected",)).frame.row(1, named=True)
    assert (row["task"], row["both"]) == ("Pendulum", "most rounds of all diverged")
    assert row["diverged"].startswith(f"52 of {4 * ROUNDS} [")


def test_there_is_no_interaction_without_the_whole_factorial(outcomes: dict[str, Any]) -> None:
    some = {name: result for name, result in outcomes.items() if name != "CartPole-sgd-inner-corrected"}
    assert controls.interaction_table(some, ("corrected",)).frame["task"].to_list() == ["MountainCar", "Pendulum"]


def test_lengths_that_span_decades_have_logarithmic_axes() -> None:
    lengths = {"dqn-sgd": 1_900.0, "srg-dqn": 150.0}
    for longest, log in ((1_900.0, True), (1_400.0, False)):
        outcomes = {}
        for name in (*PAPER, "random", "untrained"):
            mine = min(longest, lengths.get(name, 500.0))
            algorithm = name if name in PAPER else "dqn-sgd"
            run = planted_run("CartPole", algorithm, np.zeros(3), lengths=[mine] * 3)
            outcomes[f"CartPole-{name}-corrected"] = run
        panel = figure_2.merged_panel(outcomes, "CartPole", ("corrected",), "length")
        assert (panel.log_x, panel.log_y) == (log, log)
