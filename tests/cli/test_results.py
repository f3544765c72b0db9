"""`show`, `evaluate` and `compare` on saved runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import srgdqn
from srgdqn.cli import main
from srgdqn.results.comparison import summarise
from srgdqn.runs.tables import frame
from synthetic_runs import synthetic

pytestmark = pytest.mark.usefixtures("wide")


def test_show_tells_what_a_run_was_and_came_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = synthetic(rounds=4, steps=10_000, eta=0.25, diverged={1: 2_000}, interrupted=True)
    result.save(tmp_path / "run")
    assert main(["show", "run"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    summary = summarise(result)
    for line in (
        "budget 10,000 steps (preset: 100,000 steps)",
        "other than preset eta 0.25 (not 0.01)",
        "versions jax 0.1",
        "host abacus, beads",
        "interrupted yes: the budget was not spent",
        "diverged 1 of 4: round 1 at step 2,000",
        "censored episodes 6",
        "rounds 4, of which 3 reached the final stretch",
        f"final reward per action {summary.reward.mean:.4g} [{summary.reward.low:.4g}, {summary.reward.high:.4g}]",
        f"interquartile mean {summary.reward.iqm:.4g}",
        f"sd over rounds {summary.reward.sd:.4g}",
    ):
        assert line in lines


def test_show_is_json_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = synthetic(rounds=1, steps=10_000, eta=0.25)
    result.save(tmp_path / "run")
    assert main(["show", "run", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["configuration"]["eta"] == 0.25
    assert shown["configuration"]["algorithm"] == "srg-dqn"
    assert shown["departures"]["eta"] == {"value": 0.25, "default": 0.01}
    assert shown["provenance"]["processor"] == "abacus"
    assert shown["summary"]["reward"]["mean"] == summarise(result).reward.mean
    assert shown["summary"]["reward"]["low"] is None  # one round tells nothing of its spread


def test_compare_draws_and_tabulates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = {name: synthetic(algorithm=name, rounds=3, steps=5_000) for name in ("dqn-sgd", "srg-dqn")}
    results["srg-dqn"] = synthetic(rounds=3, steps=5_000, diverged={0: 1_504}, gamma=0.5)
    for name, result in results.items():
        result.save(tmp_path / name)
    assert main(["compare", "dqn-sgd", "srg-dqn"]) == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines()]
    reward = {name: summarise(result).reward for name, result in results.items()}
    for name, entered, diverged in (("dqn-sgd", "3/3", "0"), ("srg-dqn", "2/3", "1")):
        row = next(row for row in rows if row[:1] == [name])
        mean, low, high = (f"{value:.4g}" for value in (reward[name].mean, reward[name].low, reward[name].high))
        assert row == [
            name,
            mean,
            f"[{low},",
            f"{high}]",
            f"{reward[name].iqm:.4g}",
            f"{reward[name].sd:.4g}",
            entered,
            diverged,
        ]
    assert "The runs also differ in gamma: 0.9 (dqn-sgd), 0.5 (srg-dqn)." in shown
    assert "The figure is in comparison.png." in shown
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_compare_shows_errors_of_directions_where_they_were_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured, other = synthetic(rounds=1, steps=2_000), synthetic(algorithm="svr-dqn", rounds=1, steps=2_000)
    values = dict(squared_norm=2.0, squared_error=1.0, squared_bias=0.1, cosine=0.75)
    plain = dict(plain_squared_error=4.0, plain_squared_bias=0.0, plain_cosine=0.5)
    row = {name: [value] for name, value in {"round": 0, "step": 2_000, **values, **plain}.items()}
    measured.run.tables["directions"] = frame("directions", row)
    for name, result in (("srg", measured), ("svr", other)):
        result.save(tmp_path / name)
    assert main(["compare", "srg", "svr"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["srg-dqn", "0.5", "0.25", "0.1", "0.75", "1/1"] in rows
    assert main(["compare", "svr"]) == 0
    assert "relative error" not in capsys.readouterr().out


def test_compare_writes_json_and_the_format_of_the_suffix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for eta in (0.1, 0.2):
        synthetic(eta=eta, rounds=2, steps=5_000).save(tmp_path / str(eta))
    (tmp_path / "c.svg").write_text("old")
    assert main(["compare", "0.1", "--out", "c.svg", "--overwrite", "0.2", "--x", "queries", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [run["label"] for run in shown["runs"]] == ["srg-dqn, eta 0.1", "srg-dqn, eta 0.2"]
    assert [run["run"] for run in shown["runs"]] == ["0.1", "0.2"]
    assert shown["figure"] == "c.svg"
    drawn = (tmp_path / "c.svg").read_text()
    assert "gradient queries" in drawn
    assert "srg-dqn, eta 0.2" in drawn


def test_compare_pairs_rounds_and_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = dict(steps=2_000, rounds=3, lanes=4, evaluation_episodes=1)
    srgdqn.sweep("CartPole", "dqn-sgd", {"eta": [1e-3, 1e-2], "gamma": [0.5, 0.9]}, folder="grid", **options)
    cells = {eta: f"grid/cells/gamma=0.9,eta={eta}" for eta in (0.001, 0.01)}
    assert main(["compare", "grid:gamma=0.9", "--paired", "--threshold", "9.5", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [run["run"] for run in shown["runs"]] == list(cells.values())
    expected = srgdqn.paired([srgdqn.load(cell) for cell in cells.values()], threshold=9.5)
    assert shown["paired"] == expected.to_dicts()
    assert main(["compare", "grid:gamma=0.9,eta=0.001", cells[0.01], "--paired", "--threshold", "9.5"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    row = expected.filter(score="area").row(0, named=True)
    difference = [f"{row['difference']:.4g}", f"[{row['low']:.4g},", f"{row['high']:.4g}]", "3", "0,", "0"]
    assert ["area", *difference] in [line[-len(difference) - 1 :] for line in lines]
    assert main(["compare", "grid", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 4
    for named, why in (
        ("grid:eta=7", "grid:eta=7 names no cell. Give the values of a finished one: gamma=0.5,eta=0.001; gamma=0.9,"),
        ("grid:alpha=1", "'alpha=1' says nothing about the cells of grid, which differ in eta, gamma."),
        ("grid:best", "'best' says nothing about the cells of grid"),
        ("grib:eta=7", "grib:eta=7 is not the folder of a run: it does not exist"),
    ):
        assert main(["compare", named]) == 2
        assert why in capsys.readouterr().err


def test_brackets_and_colons_in_names_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("[bold]a", ":smile:"):
        synthetic(rounds=1, steps=2_000).save(tmp_path / name)
    assert main(["compare", "[bold]a", ":smile:"]) == 0
    shown = capsys.readouterr().out
    assert "srg-dqn, [bold]a" in shown
    assert "srg-dqn, :smile:" in shown


def test_evaluation_has_the_protocol_of_training(trained: Path) -> None:
    """With the run's own number of episodes it is the last evaluation of training again."""
    result = srgdqn.load(trained)
    played = result.evaluate(episodes=3)
    last = result.evaluations.filter(pl.col("step") == 2_000)
    assert played.schema == last.schema
    assert played.equals(last)


def test_evaluate_shows_every_round_and_all_together(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(trained), "--episodes", "7", "--seed", "5", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    played = srgdqn.load(trained).evaluate(episodes=7, seed=5)
    returns = played["return"].to_numpy().reshape(2, 7)
    assert [row["round"] for row in shown["rounds"]] == [0, 1]
    assert [row["return"] for row in shown["rounds"]] == pytest.approx(returns.mean(1).tolist())
    assert [row["return_sd"] for row in shown["rounds"]] == pytest.approx(returns.std(1, ddof=1).tolist())
    assert shown["overall"]["return"]["mean"] == pytest.approx(returns.mean())
    assert shown["overall"]["return"]["rounds"] == 2
    assert shown["episodes"] == 7
    # The raw reward of CartPole is 1 per step, and lasting for 500 is success.
    np.testing.assert_array_equal(played["return"], played["length"].cast(pl.Float64))
    assert (played["success"] == (played["length"] == 500)).all()


def test_one_round_can_be_evaluated_alone(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(trained), "--episodes", "7", "--seed", "5", "--round", "1"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    played = srgdqn.load(trained).evaluate(episodes=7, seed=5, rounds=[1])
    assert played["round"].unique().to_list() == [1]
    (row,) = (line for line in lines if line[:1] == ["1"])
    assert row[1] == f"{played['return'].mean():.4g}"
    assert ["over", "1", "round"] in lines
