"""`--import MODULE`: estimators and environments of the user's, from the command line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest

import srgdqn
from srgdqn.cli import main
from srgdqn.cli.user_modules import import_module
from srgdqn.learner.estimators import ESTIMATORS

SCALED = """\
from srgdqn.estimators import Direction, Estimator, register_estimator
from {helper} import FACTOR


def direction(state, theta, previous, query):
    import jax

    gradient = query.dense(query.on_present(theta))
    return Direction(jax.tree.map(lambda g: FACTOR * g, gradient), gradient, state)


scaled = Estimator(
    direction=direction,
    queries=lambda work: work.inner_iterations * work.inner_batch,
    evaluations=lambda work: work.inner_iterations * work.inner_batch,
    formula="Δ_m = ½ g(θ_m; x_m)",
    cost="bM",
)
register_estimator("scaled", scaled)
"""
ENVIRONMENT = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv


class Pole(CartPoleEnv):
    pass


gymnasium.register("Pole-v0", "{name}:Pole", max_episode_steps=100)
"""
TINY = ("--steps", "400", "--learning-starts", "64", "--rounds", "2", "--lanes", "2", "--hidden", "4", "--quiet")
TINY += ("--evaluation-episodes", "2", "--estimator", "scaled", "--inner-iterations", "4", "--batch-size", "16")


def written(folder: Path, name: str, factor: float = 0.5) -> Path:
    """A module of an estimator and an environment, in a folder with the module that it imports."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}_helper.py").write_text(f"FACTOR = {factor}\n")
    (folder / f"{name}.py").write_text(SCALED.format(helper=f"{name}_helper") + ENVIRONMENT.format(name=name))
    return folder / f"{name}.py"


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A folder to work in; whatever is imported and registered is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    estimators = dict(ESTIMATORS)
    yield
    forget(tmp_path)
    assert dict(ESTIMATORS) == estimators


def forget(folder: Path) -> None:
    """Forgets modules below a folder and what they registered, as a new process knows nothing of them."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]
    ESTIMATORS.pop("scaled", None)
    gym.registry.pop("Pole-v0", None)


@pytest.mark.parametrize("text", ["by_name", "by_name.py", "./by_name.py", "{folder}/by_name.py"])
def test_a_module_is_found_by_its_name_and_by_its_path(text: str, tmp_path: Path) -> None:
    written(tmp_path, "by_name")
    import_module(text.format(folder=tmp_path))
    assert "scaled" in ESTIMATORS
    assert "Pole-v0" in gym.registry
    import_module("by_name")  # which is no second one


def test_a_file_in_a_package_is_imported_as_a_part_of_it(tmp_path: Path) -> None:
    package = tmp_path / "elsewhere" / "a_package"
    (package / "inner").mkdir(parents=True)
    for folder in (package, package / "inner"):
        (folder / "__init__.py").write_text("")
    (package / "inner" / "mine.py").write_text(SCALED.format(helper="..factors"))
    (package / "factors.py").write_text("FACTOR = 2.0\n")
    import_module("elsewhere/a_package/inner/mine.py")
    assert ESTIMATORS["scaled"].direction.__module__ == "a_package.inner.mine"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("my_estimater", "there is no such module. Did you mean 'my_estimators'?"),
        ("./my_estimater.py", "Did you mean './my_estimators.py'?"),
        ("nothing/like_it.py", "there is no such module. Give the path"),
        ("my_estimators.inner", "there is no such module"),
        ("", "there is no such module"),
        ("./", "is no .py file"),
        ("./words.txt", "is no .py file"),
        ("./queue.py", r"'queue' is already the name of another module, .*queue\.py\. Rename the file"),
        ("./a.b.py", "a module's name has no dots"),
        ("./fails.py", r"failed in .*fails\.py, line 2 \(return 1 / 0\): ZeroDivisionError: division by zero\."),
        ("./lacks.py", r"lacks\.py, line 1 \(import nowhere\): ModuleNotFoundError: No module named 'nowhere'"),
        ("./wrong.py", r"wrong\.py, line 1 \(def f\(:\): SyntaxError: invalid syntax\."),
        ("./ends.py", r"ends\.py, line 2 \(sys\.exit\(3\)\): it ended the program"),
        ("./taken.py", r"taken\.py, line 2 .*: there already is an estimator called 'srg'\. Give the new one another"),
        ("./within.py", r"within\.py, line 2 \(json\.loads\('x'\)\): JSONDecodeError"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, content in {
        "my_estimators.py": "",
        "words.txt": "",
        "queue.py": "",
        "a.b.py": "",
        "fails.py": "def f():\n    return 1 / 0\n\n\nf()\n",
        "lacks.py": "import nowhere\n",
        "wrong.py": "def f(:\n",
        "ends.py": "import sys\nsys.exit(3)\n",
        "taken.py": "import srgdqn, srgdqn.estimators as e\nsrgdqn.register_estimator('srg', e.estimator('sgd'))\n",
        "within.py": "import json\njson.loads('x')\n",
    }.items():
        (tmp_path / name).write_text(content)
    assert main(["list", "--import", text]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert re.search(says, shown.err), shown.err


def test_a_module_that_registers_nothing_is_warned_about_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "idle.py").write_text("")
    written(tmp_path, "busy")
    assert main(["list", "--import", "idle", "--import=idle", "--import", "./busy.py"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"warning: --import idle ({tmp_path}/idle.py) registered nothing: no estimator, environment or rule."


def test_only_the_command_line_names_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a command that runs nothing takes one, nor does a file name one."""
    (tmp_path / "mine.py").write_text("raise AssertionError\n")
    for command in ("show", "compare", "export", "watch"):
        assert main([command, "run", "--import", "mine"]) == 2
        assert "unknown option '--import'" in capsys.readouterr().err
    for key in ("import", "imports", "import_"):
        (tmp_path / "options.toml").write_text(f'{key} = "mine"\n')
        assert main(["train", "CartPole", "--config", "options.toml"]) == 2
        assert f"unknown key '{key}'" in capsys.readouterr().err
    assert main(["train", "--import"]) == 2
    assert "--import has no module" in capsys.readouterr().err


def test_registered_estimators_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, "listed")
    assert main(["list", "--import", "listed"]) == 0
    [line] = (line for line in capsys.readouterr().out.splitlines() if line.startswith("scaled"))
    assert line.split(maxsplit=2) == ["scaled", "bM", line.split(maxsplit=2)[2]]
    assert line.rstrip().endswith("Δ_m = ½ g(θ_m; x_m)")


def test_a_run_is_trained_verified_replayed_and_resumed_with_its_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, mine = str(tmp_path / "run"), ("--import", str(written(tmp_path / "lib", "compiled")))
    checkpoints = ("--checkpoint-every", "0", "--keep-checkpoints", "all")
    assert main(["train", "CartPole", "svr-dqn", *mine, *TINY, *checkpoints, "--out", run]) == 0
    for command in (["verify", run], ["replay", run, "--round", "0"], ["train", "--out", run, "--resume"]):
        forget(tmp_path)
        capsys.readouterr()
        assert main(command) == 2
        wanted = "it was trained with the estimator 'scaled', which is not registered. Import its module: --import"
        assert wanted in capsys.readouterr().err
        assert main([*command, *mine]) == 0, capsys.readouterr().err
    forget(tmp_path)
    assert main(["show", run]) == 0  # what only reads needs no module
    assert main(["evaluate", run, "--episodes", "1"]) == 0
    written(tmp_path / "lib", "compiled", factor=0.25)
    capsys.readouterr()
    assert main(["train", "--out", run, "--resume", *mine]) == 2
    assert "the digest of the estimator's values" in capsys.readouterr().err


def test_an_unfinished_run_is_not_resumed_with_another_estimator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, mine = str(tmp_path / "run"), ("--import", str(written(tmp_path / "lib", "unfinished")))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("srgdqn.results.result.Result.save", _refuse)
        with pytest.raises(OSError, match="full"):
            main(["train", "CartPole", "svr-dqn", *mine, *TINY, "--out", run])
    forget(tmp_path)
    assert main(["train", "--out", run, "--resume"]) == 2
    assert "it was trained with the estimator 'scaled', which is not registered" in capsys.readouterr().err
    written(tmp_path / "lib", "unfinished", factor=0.25)
    assert main(["train", "--out", run, "--resume", *mine]) == 2
    assert "cannot be resumed to the same bits, as this has changed" in capsys.readouterr().err
    forget(tmp_path)
    written(tmp_path / "lib", "unfinished")
    assert main(["train", "--out", run, "--resume", *mine, "--quiet"]) == 0


def _refuse(*given: object, **how: object) -> None:
    raise OSError("the disk is full")


def test_a_sweep_and_a_search_have_registered_estimators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = ("--import", str(written(tmp_path / "lib", "swept")))
    base = ["sweep", "CartPole", "svr-dqn", *mine, *TINY]
    assert main([*base, "--estimator", "svrg", "scaled", "--out", "grid"]) == 0
    assert main([*base, "--search", "eta=1e-4..1e-2", "--trials", "2", "--out", "found"]) == 0
    for cell in [tmp_path / "grid" / "cells" / "estimator=scaled", *(tmp_path / "found" / "cells").iterdir()]:
        result = srgdqn.load(cell)
        assert result.run.provenance["inputs"]["user_code"]["estimator"]["name"] == "swept.direction"
    forget(tmp_path)
    capsys.readouterr()
    grid = ["sweep", "CartPole", "svr-dqn", *TINY, "--estimator", "svrg", "scaled", "--out", "grid"]
    assert main(grid) == 2
    assert "must be registered first: import its module (--import my_module)" in capsys.readouterr().err
    written(tmp_path / "lib", "swept", factor=0.25)
    assert main([*[word for word in grid if word != "--quiet"], *mine]) == 0
    errors = capsys.readouterr().err
    assert "estimator=scaled is computed again: it was made in another precision, or with another" in errors
    assert "estimator=svrg is computed again" not in errors


def test_a_registered_environment_is_stepped_in_processes_and_verified(tmp_path: Path) -> None:
    run, mine = str(tmp_path / "run"), ["--import", str(written(tmp_path / "lib", "hosted"))]
    assert main(["train", "Pole-v0", "svr-dqn", *mine, *TINY, "--out", run]) == 0
    forget(tmp_path)
    assert main(["verify", run, "--round", "1"]) == 2  # both are unknown here
    assert main(["verify", run, "--round", "1", *mine]) == 0
    assert main(["evaluate", run, "--episodes", "1", *mine]) == 0
