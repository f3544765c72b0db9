"""`srgdqn verify` as users call it."""

import json
from pathlib import Path

import pytest

from checkpointed_runs import resealed, with_another_bit, with_another_value
from command_line import words_of
from srgdqn.cli import main
from srgdqn.runs.run import load

pytestmark = pytest.mark.usefixtures("wide")


def test_a_run_is_verified_with_a_seed_that_is_told(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(trained)]) == 0
    shown = words_of(capsys)
    assert "conditions as when the run was made, so that every bit is to be the same" in shown
    assert "chosen with seed" in shown
    assert "the same to the bit" in shown
    assert shown.endswith("Verified: every bit that was compared is the same.")


def test_programs_get_all_of_it(trained: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(trained), "--round", "all", "--json"]) == 0
    shown = capfd.readouterr()
    assert shown.err == ""
    told = json.loads(shown.out)
    assert told["verdict"] == "identical"
    assert told["conditions"] == []
    assert [each["round"] for each in told["rounds"]] == [0, 1]
    assert told["rounds"][0]["arrays"] == len(load(trained).parameters)


def test_a_flipped_bit_is_found_where_it_is(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = with_another_bit(trained, tmp_path / "other", "network.layers.1.bias", (1, 1))
    assert main(["verify", str(other), "--round", "1"]) == 1
    shown = words_of(capsys)
    stored, was = (float(load(folder).parameters["network.layers.1.bias"][1, 1]) for folder in (other, trained))
    assert f"found network.layers.1.bias[1] is {stored!r}, and {was!r} was recomputed" in shown
    assert "NOT VERIFIED: the run is not what its configuration gives." in shown
    assert main(["verify", str(other), "--round", "0"]) == 0


def test_a_changed_row_is_found_where_it_is(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluations = load(trained).tables["evaluations"]
    value = evaluations["return"][1] + 1.0
    other = with_another_value(trained, tmp_path / "other", "evaluations", 1, "return", value)
    assert main(["verify", str(other), "--round", "0", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    [difference] = told["rounds"][0]["differences"]
    assert (difference["where"], difference["column"], difference["place"]) == ("evaluations", "return", [1])
    assert difference["stored"] == value
    assert difference["step"] == evaluations["step"][1]
    assert not told["holds"]


def test_under_other_conditions_segments_are_recomputed(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """This machine's bits are the run's, whatever it says of its versions; and it keeps no checkpoint."""
    told = load(trained).provenance
    then = {**told, "versions": {**told["versions"], "jax": "0.0.1"}}
    other = resealed(trained, tmp_path / "other", provenance=then)
    assert main(["verify", str(other), "--round", "0"]) == 0
    shown = words_of(capsys)
    assert "conditions version of jax: 0.0.1 then" in shown
    assert "segments, each recomputed from a checkpoint" in shown
    parameters = {name: array * 1.5 for name, array in load(trained).parameters.items()}
    another = resealed(trained, tmp_path / "another", provenance=then, parameters=parameters)
    assert main(["verify", str(another), "--round", "0"]) == 1
    shown = words_of(capsys)
    assert "NOT VERIFIED, and not refuted: 0 of 1 segments agree" in shown
    assert "--keep-checkpoints all" in shown


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["{run}", "--round", "9"], "there is no round 9 in this run. Give one of 0 to 1."),
        (
            ["{run}", "--round", "some"],
            "--round is 'some', which is not a whole number. Write it in digits, or write all.",
        ),
        (["{run}", "--round", "0", "--steps", "3"], "steps is 3, but the first outer iteration comes after"),
        (["{run}", "--how", "hole"], "unknown value of --how, 'hole'. Did you mean 'whole'?"),
    ],
)
def test_what_cannot_be_verified_is_told_before_anything_is_trained(
    words: list[str], problem: str, trained: Path, no_training: None, capsys: pytest.CaptureFixture[str]
) -> None:
    del no_training
    assert main(["verify", *(word.format(run=trained) for word in words)]) == 2
    assert problem in capsys.readouterr().err
