"""What the command line imports, and when: waiting is mostly for imports. Seconds are measured in the benchmarks."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from command_line import TRAIN
from synthetic_runs import synthetic

NOT_FOR_TRAINING = ("scipy.stats", "matplotlib", "plotly", "pyarrow", "srgdqn.figures.images", "srgdqn.paper.report")
NOT_FOR_TRAINING += ("srgdqn.paper.experiment", "srgdqn.paper.measurements", "srgdqn.results.statistics")
HEAVY = ("jax", "equinox", "optax", "gymnasium", "numpy", "scipy", "polars", "srgdqn.training", *NOT_FOR_TRAINING)

FOUND = f"[name for name in {HEAVY!r} if name in sys.modules]"

COMMAND = f"""
import contextlib, io, json, sys
from srgdqn.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    code = main(sys.argv[1:])
print(json.dumps([code, {FOUND}]))
"""

TRAINING = f"""
import contextlib, json, sys
import srgdqn.integrations.progress
from srgdqn.cli import main
seen = {{}}

def note(moment):
    seen.setdefault(moment, {FOUND})

@contextlib.contextmanager
def reporting(configuration, show=None, lines=False):
    note("bar")
    yield lambda report: note("first progress")

srgdqn.integrations.progress.reporting = reporting
assert main(sys.argv[1:]) == 0
note("end")
print(json.dumps(seen))
"""


def answer(program: str, *words: str) -> Any:
    """What a program says in a process of its own, where nothing is imported yet."""
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", HEAVY)
def test_what_is_looked_for_can_be_found(name: str) -> None:
    assert find_spec(name) is not None


@pytest.mark.parametrize("module", ["srgdqn", "srgdqn.cli", "srgdqn.cli.train", "srgdqn.integrations.progress"])
def test_the_door_is_light(module: str) -> None:
    assert answer(f"import json, sys, {module}; print(json.dumps({FOUND}))") == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["train", "--help"], 0),
        (["train", "MountainCar", "srg-dqn", "--help"], 0),
        (["watch", "--help"], 0),
        (["watch", "/proc/run"], 2),
        (["evaluate", "--help"], 0),
        (["show", "--help"], 0),
        (["verify", "--help"], 0),
        (["verify", "a", "--how", "hole"], 2),
        (["replay", "--help"], 0),
        (["replay", "a", "--out", "trace.gif"], 2),
        (["compare", "--help"], 0),
        (["export", "--help"], 0),
        (["video", "--help"], 0),
        (["reproduce", "--help"], 0),
        (["list"], 0),
        (["sweep", "--help"], 0),
        (["sweep", "CartPole", "srg-dqn", "--help"], 0),
        (["sweep", "CartPole", "--eta", "0.1", "-1"], 2),
        (["sweep", "CartPole", "--search", "eta=2..1"], 2),
        (["sweep", "CartPole", "--eta", "1", "2", "--out", "/proc/sweep"], 2),
        (["trian"], 2),
        (["train", "MountianCar"], 2),
        (["train", "MountainCar", "--eta", "nan"], 2),
        (["train", "MountainCar", "--stpes", "1000"], 2),
        (["train", "MountainCar", "--out", "/proc/run"], 2),
        (["train", "MountainCar", "--tensorboard", "/proc/logs"], 2),
        (["train", "MountainCar", "--wandb", ""], 2),
        (["compare", "a", "--out", "figure.gif"], 2),
        (["export", "a", "--out", "policy.pt"], 2),
        (["video", "a", "--out", "play.avi"], 2),
    ],
)
def test_help_lists_and_errors_come_without_the_heavy_imports(words: list[str], code: int) -> None:
    assert answer(COMMAND, *words) == [code, []]


@pytest.mark.parametrize("words", [["figure-9"], ["--quick", "--confirm"], ["--out", "/proc/results"]])
def test_what_cannot_be_reproduced_is_told_before_the_experiments_are_imported(words: list[str]) -> None:
    assert answer(COMMAND, "reproduce", *words) == [2, []]


@pytest.mark.parametrize("command", ["show", "evaluate", "compare", "export", "video", "verify", "replay"])
def test_a_folder_without_a_run_is_told_before_anything_is_drawn_or_compiled(command: str, tmp_path: Path) -> None:
    suffixes = {"compare": "png", "export": "py", "video": "gif"}
    file = [f"--out={tmp_path / 'a'}.{suffixes[command]}"] if command in suffixes else []
    code, found = answer(COMMAND, command, str(tmp_path), *file)
    assert code == 2
    assert set(found) <= {"numpy", "polars"}


def test_a_single_round_is_shown_without_the_intervals_library(tmp_path: Path) -> None:
    synthetic(rounds=1, steps=3_000).save(tmp_path / "run")
    code, found = answer(COMMAND, "show", str(tmp_path / "run"))
    assert code == 0
    assert set(found) <= {"numpy", "polars", "pyarrow"}


def test_training_imports_only_what_it_needs_and_that_below_its_bar() -> None:
    seen = answer(TRAINING, *TRAIN, "--steps", "2000", "--quiet")
    assert seen["bar"] == []
    assert "jax" in seen["first progress"]
    assert not set(NOT_FOR_TRAINING) & {*seen["first progress"], *seen["end"]}
