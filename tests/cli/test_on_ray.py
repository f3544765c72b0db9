"""The long commands with --engine ray: the same tables as without, whatever dies on the way."""

import json
from pathlib import Path
from typing import Any

import pytest

from fenced import seen_behind_the_fence
from srgdqn.cli import main


def seen_in(scenario: str, folder: Path) -> dict[str, Any]:
    return seen_behind_the_fence(Path(__file__).with_name("ray_commands.py"), scenario, folder, seconds=900)


@pytest.mark.cluster
def test_the_paper_is_the_same_with_a_driver_a_worker_and_a_node_killed(tmp_path: Path) -> None:
    seen = seen_in("reproduced", tmp_path)
    assert seen["driver"] == -9  # it was under way still, with two cells finished
    assert seen["deaths"] == ["worker", "node"]
    assert (seen["here"]["code"], seen["there"]["code"]) == (0, 0), seen["there"]["errors"]
    assert seen["same"]["files"] > 50
    assert (seen["same"]["missing"], seen["same"]["differing"]) == ([], [])
    # What is printed can be read by a program, and says the same.
    here, there = json.loads(seen["here"]["out"]), json.loads(seen["there"]["out"])
    assert (here["answer"], here["claims"]) == (there["answer"], there["claims"])


@pytest.mark.cluster
def test_runs_and_sweeps_are_the_same_and_a_killed_run_goes_on(tmp_path: Path) -> None:
    seen = seen_in("trained", tmp_path)
    codes = [seen["train"][how] for how in ("killed", "interrupted", "terminated")]
    assert codes == [-9, 130, 143]  # with checkpoints made by then
    for name in ("train", "host", "sweep"):
        assert seen[name]["here"] == 0
        assert seen[name]["there"]["code"] == 0, seen[name]["there"]["errors"]
        assert seen[name]["there"]["out"] == ""
        assert seen[name]["same"]["files"] >= 5
        assert (seen[name]["same"]["missing"], seen[name]["same"]["differing"]) == ([], [])
        assert seen[name]["engine"] == "ray"


@pytest.mark.cluster
def test_registered_estimators_and_environments_are_known_on_every_node(tmp_path: Path) -> None:
    seen = seen_in("own", tmp_path)
    for name in ("compiled", "host"):
        assert (seen[name]["here"]["code"], seen[name]["there"]["code"]) == (0, 0), seen[name]
        assert seen[name]["same"]["files"] >= 5
        assert (seen[name]["same"]["missing"], seen[name]["same"]["differing"]) == ([], [])


@pytest.mark.parametrize("words", [("train", "CartPole"), ("sweep", "CartPole", "--eta", "0", "1"), ("reproduce",)])
def test_an_address_without_ray_and_an_unknown_engine_are_refused(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ("--out", str(tmp_path / "out"))
    assert main([*words, *out, "--address", "127.0.0.1:6379"]) == 2
    assert "an address (127.0.0.1:6379) is of a Ray cluster. Give the engine ray" in capsys.readouterr().err
    assert main([*words, *out, "--engine", "rey"]) == 2
    assert "Did you mean 'ray'?" in capsys.readouterr().err
