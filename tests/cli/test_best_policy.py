"""The best policy of each round on the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srgdqn
from command_line import TRAIN
from srgdqn.cli import main
from srgdqn.runs.tables import frame
from synthetic_runs import synthetic

pytestmark = pytest.mark.usefixtures("wide")


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_run_that_keeps_its_best_is_shown_evaluated_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--steps", "2000", "--evaluation-interval", "500", "--eta", "0.1", "--keep-best", "--out", "run"]
    summary = told([*TRAIN, *words], capsys)
    result = srgdqn.load("run")
    kept = {name: result.policies.filter(policy=name) for name in ("last", "best")}
    for name, rows in kept.items():
        assert summary[f"fresh_{name}"]["mean"] == pytest.approx(np.mean(rows["fresh_return"].to_list()))
    assert summary["fresh_acting"]["mean"] is None
    assert main(["show", "run"]) == 0
    shown = capsys.readouterr().out
    for name in ("last", "best"):
        assert f"return on fresh starts: {name}" in shown
    assert main(["compare", "run", "--threshold", "100"]) == 0
    table = capsys.readouterr().out
    assert "CartPole: returns on fresh starts" in table
    row = next(line for line in table.split("returns on fresh starts")[1].splitlines() if line.startswith("dqn-sgd"))
    assert f"{summary['fresh_last']['mean']:.4g} [" in row
    assert f"{summary['fresh_best']['mean']:.4g} [" in row
    assert row.split()[-2:] == ["–", "2/2"]
    for which in ("last", "best"):
        found = told(["evaluate", "run", "--which", which, "--episodes", "4", "--seed", "3"], capsys)
        played = result.evaluate(episodes=4, seed=3, which=which)  # type: ignore[arg-type]
        means = played.group_by("round", maintain_order=True).mean()["return"].to_list()
        assert [row["return"] for row in found["rounds"]] == pytest.approx(means)
        assert found["which"] == which
    about = told(["export", "run", "--which", "best", "--round", "1", "--out", "mine.py"], capsys)["about"]
    assert (about["which"], about["round"]) == ("best", "1")
    space: dict[str, Any] = {}
    exec(Path("mine.py").read_text(), space)
    observations = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    assert [space["policy"](row) for row in observations] == result.policy(1, "best")(observations).tolist()


@pytest.mark.parametrize("command", ["evaluate", "export", "video"])
def test_a_run_without_its_best_says_so(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], trained: Path
) -> None:
    assert main([command, str(trained), "--which", "best"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "this run has no best policies: it was trained without keep_best (--keep-best)" in said
    assert main([command, str(trained), "--which", "bets"]) == 2
    assert "best" in capsys.readouterr().err


def test_averages_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = synthetic(rounds=2, steps=2_000)
    rows = [(number, name) for number in (0, 1) for name in ("last", "best", "acting")]
    run.run.tables["policies"] = frame(
        "policies",
        {
            "round": [number for number, _ in rows],
            "policy": [name for _, name in rows],
            "step": [2_000] * 6,
            "chosen_by": [None, 5.0, None] * 2,
            "fresh_episodes": [20] * 6,
            "fresh_return": [10.0, 30.0, 70.0, 20.0, 40.0, 80.0],
            "fresh_length": [1.0] * 6,
            "fresh_success": [None] * 6,
        },
    )
    run.save("run")
    assert main(["show", "run"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for name, mean, low in (("last, averaged", 15, 10), ("last, not averaged", 75, 70), ("best", 35, 30)):
        assert any(line.startswith(f"return on fresh starts: {name} {mean} [{low}, ") for line in lines)
    assert main(["compare", "run"]) == 0
    table = capsys.readouterr().out.split("returns on fresh starts")[1]
    assert table.index("75 [70, 80]") < table.index("35 [30, 40]") < table.index("15 [10, 20]")
