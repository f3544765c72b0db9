"""`srgdqn train` in Gymnasium's environments, as users call it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import srgdqn
from host_environments import SMALL
from srgdqn.cli import main

WORDS = [
    word
    for name, value in SMALL.items()
    if value is not None
    for word in (f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else [value]))
]

REGISTERS = """
import gymnasium as gym
from host_environments import Bad, Slope

def fail(self, outcome):
    raise ValueError("no ball")

class Pictures(Slope):
    observation_space = gym.spaces.Box(0, 255, (4, 40, 40), "uint8")

gym.register("Slope-v0", Slope)
gym.register("Pictures-v0", Pictures)
gym.register("Failing-v0", lambda **_: Bad(fail, "step", 35))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that registers environments."""
    (tmp_path / "slopes.py").write_text(REGISTERS)
    monkeypatch.syspath_prepend(tmp_path)
    yield "slopes"
    sys.modules.pop("slopes", None)
    from gymnasium.envs.registration import registry

    for name in ("Slope-v0", "Pictures-v0", "Failing-v0"):
        registry.pop(name, None)


def test_an_id_of_a_module_is_trained_saved_and_loaded(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    words = [f"{module}:Slope-v0", "dqn-adam", *WORDS, "--steps", "40", "--json", "--out", str(folder)]
    assert main(["train", *words]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["saved"] == str(folder)
    result = srgdqn.load(folder)
    assert result.configuration.task.task == f"{module}:Slope-v0"
    assert result.rounds["steps"].to_list() == [40]
    assert result.evaluate(episodes=1).height == 1
    assert main(["evaluate", str(folder), "--episodes", "2"]) == 0


def test_continuous_actions_are_learned_in_bins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["Pendulum-v1", "dqn-adam", "--action-bins", "3", *WORDS, "--steps", "40", "--quiet"]
    assert main(["train", *words, "--out", str(tmp_path / "run")]) == 0
    assert tuple(capsys.readouterr()) == ("", "")
    action = srgdqn.load(tmp_path / "run").policy(0)([1.0, 0.0, 0.0])
    assert action.tolist() in ([-2.0], [0.0], [2.0])
    assert str(action.dtype) == "float32"


def test_a_failing_environment_costs_nothing_that_was_learnt(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    words = [f"{module}:Failing-v0", "dqn-adam", *WORDS, "--steps", "40", "--out", str(folder)]
    assert main(["train", *words]) == 1
    shown = capsys.readouterr()
    assert "error: round 0: the environment slopes:Failing-v0 raised ValueError (no ball) at step 36." in shown.err
    assert "Traceback" not in shown.err
    result = srgdqn.load(folder)
    assert result.rounds["steps"].to_list() == [32]
    assert result.run.provenance["interrupted"] is True


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["CartPol-v1"], "Did you mean 'CartPole-v1'?"),
        (["nowhere:Some-v0"], "the module 'nowhere', which cannot be imported"),
        (["Pendulum-v1", "--action-bins", "none"], "--action-bins 12"),
        (["CartPole-v1", "--action-bins", "4"], "discrete already"),
        (["CartPole-v1", "--kernel", "native", "--activation", "tanh"], "kernel is 'native'"),
        (["Blackjack-v1", "--scale-observations"], "which has no bounds"),
        (["CartPole-v1", "--environments", "3", "--learning-frequency", "4"], "not a multiple of environments = 3"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *words]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_help_shows_the_defaults_of_images_where_an_environment_shows_such(
    command: str, module: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")  # one box below the other
    shown = {}
    for name in ("Slope-v0", "Pictures-v0"):
        assert main([command, f"{module}:{name}", "--help"]) == 0
        shown[name] = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "Widths of the hidden layers. (default: 64 64)" in shown["Slope-v0"].replace("64+64", "64 64")
    assert "Widths of the hidden layers. (default: 512)" in shown["Pictures-v0"]
    assert "(default: 1000000)" in shown["Pictures-v0"]  # the replay's capacity
