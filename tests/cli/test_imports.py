"""What the command line imports, and when: waiting is mostly for imports. Seconds are measured in the benchmarks."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from command_line import TRAIN
from synthetic_runs import synthetic

NOT_FOR_TRAINING = ("scipy.stats", "matplotlib", "plotly", "pyarrow", "srgdqn.figures.images", "srgdqn.paper.report")
NOT_FOR_TRAINING += ("srgdqn.paper.experiment", "srgdqn.paper.measurements", "srgdqn.results.statistics")
HEAVY = ("jax", "equinox", "optax", "gymnasium", "numpy", "scipy", "polars", "srgdqn.training", *NOT_FOR_TRAINING)

FOUND = f"[name for name in {HEAVY!r} if name in sys.modules]"

COMMANDS = f"""
import contextlib, io, json, sys
from srgdqn.cli import main
answers = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = main(words)
    answers.append([words, code, {FOUND}])
print(json.dumps(answers))
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


LIGHT: list[tuple[list[str], int]] = [
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
]


def test_the_door_is_light() -> None:
    """Nor does it take more to read a file of options, or to say with what a run was made."""
    assert all(find_spec(name) is not None for name in HEAVY)
    modules = "srgdqn.cli.train, srgdqn.integrations.progress, srgdqn.runs.configurations, srgdqn.runs.provenance"
    asked = "srgdqn.runs.configurations.options_from_toml('eta = 0.1'); srgdqn.runs.provenance.provenance()"
    assert answer(f"import json, sys, {modules}; {asked}; print(json.dumps({FOUND}))") == []


def test_help_lists_and_errors_come_without_the_heavy_imports() -> None:
    for (words, code), found in zip(LIGHT, answer(COMMANDS, json.dumps([words for words, _ in LIGHT])), strict=True):
        assert found == [words, code, []]


def test_what_cannot_be_reproduced_is_refused_before_the_experiments_are_imported() -> None:
    several = [["reproduce", *words] for words in (["figure-9"], ["--quick", "--confirm"], ["--out", "/proc/results"])]
    for words, code, found in answer(COMMANDS, json.dumps(several)):
        assert code == 2, words
        assert set(found) <= {"srgdqn.paper.studies"}, words  # the package, for the experiments' names


def test_a_folder_without_a_run_is_refused_before_anything_is_drawn_or_compiled(tmp_path: Path) -> None:
    files = {"compare": "png", "export": "py", "video": "gif"}
    several = [[name, str(tmp_path)] for name in ("show", "evaluate", "verify", "replay")]
    several += [[name, str(tmp_path), f"--out={tmp_path / 'a'}.{ending}"] for name, ending in files.items()]
    for words, code, found in answer(COMMANDS, json.dumps(several)):
        assert code == 2, words
        assert set(found) <= {"numpy", "polars"}, words


def test_a_single_round_is_shown_without_the_intervals_library(tmp_path: Path) -> None:
    synthetic(rounds=1, steps=3_000).save(tmp_path / "run")
    [(_, code, found)] = answer(COMMANDS, json.dumps([["show", str(tmp_path / "run")]]))
    assert code == 0
    assert set(found) <= {"numpy", "polars", "pyarrow"}


def test_training_imports_only_what_it_needs_and_that_below_its_bar() -> None:
    seen = answer(TRAINING, *TRAIN, "--steps", "2000", "--quiet")
    assert seen["bar"] == []
    assert "jax" in seen["first progress"]
    assert not set(NOT_FOR_TRAINING) & {*seen["first progress"], *seen["end"]}
