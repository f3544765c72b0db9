"""`srgdqn replay` as users call it."""

import json
from pathlib import Path

import polars as pl
import pytest

from checkpointed_runs import with_another_bit
from command_line import TRAIN, words_of
from srgdqn.cli import main
from srgdqn.runs.run import load

pytestmark = pytest.mark.usefixtures("wide")


@pytest.fixture(scope="module")
def diverged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a step size at which all rounds diverge."""
    folder = tmp_path_factory.mktemp("diverged") / "run"
    train = ["srg-dqn" if word == "dqn-sgd" else word for word in TRAIN]
    assert main([*train, "--steps", "4000", "--eta", "0.1", "--quiet", "--out", str(folder)]) == 0
    assert load(folder).tables["rounds"]["diverged_at"].null_count() == 0
    return folder


def test_the_first_round_that_diverged_is_told_of(diverged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rounds = load(diverged).tables["rounds"].sort("diverged_at", "round")
    number, step, iterations = (rounds[name][0] for name in ("round", "diverged_at", "outer_iterations"))
    assert main(["replay", str(diverged)]) == 0
    shown = words_of(capsys)
    assert f"round {number} · outer iterations" in shown
    assert f"to {iterations:,}, rerun from its first step" in shown
    assert "left its usual size of this stretch" in shown
    assert "was the first that was no finite number" in shown or "every number was still finite" in shown
    assert "did not diverge" not in shown
    assert "diverged later" not in shown
    assert f"frozen at step {step:,} with the parameters that it had before outer iteration {iterations:,}" in shown
    assert "4 arrays of final parameters, to the bit" in shown
    assert "found nothing that speaks against it" in shown


def test_programs_get_all_of_it(diverged: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(diverged), "--round", "1", "--json", "--out", "trace.parquet"]) == 0
    shown = capfd.readouterr()
    assert shown.err == ""
    told = json.loads(shown.out)
    row = load(diverged).tables["rounds"].row(1, named=True)
    assert told["faithful"]
    assert told["diagnosis"]["discarded"] == row["outer_iterations"]
    assert told["iterations"][-1]["step"] == row["diverged_at"]
    table = pl.read_parquet(told["file"])
    assert table.height == len(told["inner"])
    assert table["made_at"].max() <= row["diverged_at"]


def test_a_stretch_and_a_figure(diverged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = load(diverged).tables["rounds"]["steps"][0]
    words = ["replay", str(diverged), "--round", "0", "--from-step", str(ended - 31), "--until-step", str(ended - 16)]
    assert main([*words, "--out", "norms.png"]) == 0
    shown = words_of(capsys)
    assert "saved in norms.png" in shown
    assert f"The round diverged later, at step {ended:,}." in shown
    assert Path("norms.png").read_bytes()[:4] == b"\x89PNG"
    assert main([*words, "--out", "norms.png"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_what_is_not_the_run_has_another_exit_code(
    diverged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = with_another_bit(diverged, tmp_path / "other", "network.layers.0.bias", (0, 0))
    assert main(["replay", str(other), "--round", "0"]) == 1
    assert "network.layers.0.bias[0] is " in words_of(capsys)


def test_a_run_in_which_none_diverged_needs_a_round(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(trained)]) == 2
    assert "no round of this run diverged. Say which one to replay: --round 0." in capsys.readouterr().err
    assert main(["replay", str(trained), "--round", "0"]) == 0
    shown = words_of(capsys)
    assert "stayed at its usual size" in shown
    assert "The round did not diverge" in shown


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["{run}", "--round", "9"], "there is no round 9 in this run. Give one of 0 to 1."),
        (
            ["{run}", "--round", "0", "--from-step", "99999"],
            "--from-step is 99,999, but round 0 made its outer iterations",
        ),
        (["{run}", "--round", "0", "--from-step", "0"], "--from-step is 0, but must be a whole number from 1"),
        (["{run}", "--out", "a.gif"], "a.gif ends in '.gif', which no trace or figure can be written as"),
    ],
)
def test_what_cannot_be_replayed_is_told_first(
    words: list[str], problem: str, trained: Path, no_training: None, capsys: pytest.CaptureFixture[str]
) -> None:
    del no_training
    assert main(["replay", *(word.format(run=trained) for word in words)]) == 2
    assert problem in capsys.readouterr().err


def test_a_direction_per_batch_has_neither_anchor_nor_inner_iterations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["dqn-storm" if word == "dqn-sgd" else word for word in TRAIN]
    assert main([*train, "--quiet", "--out", str(tmp_path / "run")]) == 0
    assert main(["replay", str(tmp_path / "run"), "--round", "0"]) == 0
    shown = words_of(capsys)
    assert "‖Δ_0‖" not in shown
    assert "inner iterations" not in shown
    assert "the largest of 64 errors" in shown
