"""`export` and `video` on a saved run."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import srgdqn
from srgdqn.cli import main
from srgdqn.integrations.policy import configuration_digest

pytestmark = pytest.mark.usefixtures("wide")


def test_export_writes_the_policy_of_the_best_round(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = srgdqn.load(trained)
    assert main(["export", str(trained)]) == 0
    shown = capsys.readouterr().out
    for words in (f"CartPole · dqn-sgd · round {result.best}", "4 numbers, flat", "0 to 1", "policy.onnx"):
        assert words in shown
    session = onnxruntime.InferenceSession("policy.onnx", providers=["CPUExecutionProvider"])
    observations = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    values, actions = session.run(["q_values", "action"], {"observation": observations})
    sure = np.abs(values[:, 0] - values[:, 1]) > 1e-5
    assert sure.mean() > 0.99
    assert actions[sure].tolist() == result.policy(result.best)(observations)[sure].tolist()


def test_export_tells_programs_what_it_wrote(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text("old")
    assert main(["export", str(trained), "--out", "mine.py", "--round", "1", "--overwrite", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["policy"] == "mine.py"
    assert shown["observation"] == {"kind": "vector", "shape": [4]}
    assert shown["actions"] == 2
    assert shown["about"]["round"] == "1"
    assert shown["about"]["configuration"] == configuration_digest(srgdqn.load(trained).configuration)
    assert "from mine import policy" in Path("mine.py").read_text()


def test_video_shows_what_its_episodes_came_to(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["video", str(trained), "--round", "1", "--episodes", "2", "--seed", "4"]
    assert main([*words, "--out", "a.gif"]) == 0
    shown = capsys.readouterr().out
    assert main([*words, "--out", "b.gif", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path("a.gif").read_bytes() == Path("b.gif").read_bytes()
    assert told["reward"] == "position-and-angle"
    assert [played["seed"] for played in told["episodes"]] == [4, 5]
    assert told["images"] == sum(played["length"] + 1 for played in told["episodes"])
    rows = [line.split() for line in shown.splitlines()]
    for index, played in enumerate(told["episodes"]):
        row = [str(index), str(4 + index), f"{played['return']:.4g}", str(played["length"])]
        assert any(each[:4] == row for each in rows)
    assert "return: of the reward position-and-angle" in shown
    assert f"The video is in a.gif: {told['images']} images, {told['images'] / 50:.1f} s." in shown
