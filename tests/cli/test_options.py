"""The options of the command line are those of the settings: all of them, each with its sentence and its default."""

import functools
import re

import docstring_parser
import pytest

from srgdqn.cli import main
from srgdqn.cli.parsing import as_text, configuration_options
from srgdqn.cli.train import _read
from srgdqn.config import Configuration, option_names, sections
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.presets import PRESETS
from srgdqn.integrations.loggers import loggers_with_options


def help_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """The help of `train`, without boxes and line breaks."""
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["train", *words, "--help"]) == 0
    return " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split())


def defaults_in(text: str) -> dict[str, str]:
    found = {}
    for part in re.split(r" --(?!no-)(?=[a-z])", text):
        default = re.search(r"\(default: ([^()]*)\)", part)
        if default:
            found[re.split("[ ,]", part)[0].replace("-", "_")] = default[1]
    return found


@functools.cache
def sentences() -> dict[str, str]:
    """What the settings say of each option."""
    settings = (type(getattr(Configuration(), section)) for section in sections())
    described = (each for cls in settings for each in docstring_parser.parse_from_object(cls).params)
    return {each.arg_name: " ".join(str(each.description).split()) for each in described}


def test_every_option_of_a_configuration_is_there_but_those_that_names_decide() -> None:
    assert configuration_options().keys() == option_names().keys() - {"task", "network"}
    assert sentences().keys() - {"own"} == option_names().keys()
    assert all(sentence.endswith((".", ")")) for sentence in sentences().values())


def test_help_shows_the_values_that_the_names_stand_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from srgdqn.config.configure import configure

    for task, algorithm, readings in [("MountainCar", "srg-dqn", "printed"), ("CartPole", "dqn-adam", "corrected")]:
        shown = defaults_in(help_of(capsys, monkeypatch, task, algorithm, "--readings", readings))
        for name, value in configure(task, algorithm, readings=readings).options().items():
            if name not in ("task", "network"):
                expected = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
                assert shown[name] == ("none" if value is None else expected), name


def test_help_without_names_teaches(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = help_of(capsys, monkeypatch)
    assert "srgdqn train MountainCar srg-dqn --rounds 50 --out runs/srg" in text
    assert "name one to see its own" in text
    for name in (*PRESETS, *ALGORITHMS):
        assert name in text
    for name in configuration_options():
        assert f"--{name.replace('_', '-')}" in text
        assert sentences()[name] in text
    assert defaults_in(text)["eta"] == str(Configuration().optimiser.eta)


def test_help_shows_a_files_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    (tmp_path / "o.toml").write_text("algorithm = 'dqn-gd'\neta = 0.125\n[task]\ntask = 'Pendulum'")
    text = help_of(capsys, monkeypatch, "--config", str(tmp_path / "o.toml"), "--alpha", "0.5")
    assert "Pendulum with dqn-gd (corrected readings)" in text
    assert defaults_in(text)["eta"] == "0.125"
    assert defaults_in(text)["alpha"] == "0.001"


def test_only_what_was_given_is_read() -> None:
    words = "CartPole --eta 1 --hidden 20 8 --time-limit none --no-mask-terminal --steps 100_000"
    asked, *_ = _read(words.split())
    assert asked.options == {
        "eta": 1.0,
        "hidden": (20, 8),
        "time_limit": None,
        "mask_terminal": False,
        "steps": 100_000,
    }
    assert (asked.task, asked.algorithm, asked.readings, asked.out) == ("CartPole", "srg-dqn", "corrected", None)
    assert (asked.json, asked.quiet, asked.checkpoints.overwrite) == (False, False, False)


def test_every_logger_that_has_an_option_can_be_given() -> None:
    names = loggers_with_options()
    asked, *_ = _read(["CartPole", *(word for name in names for word in (f"--{name}", "x"))])
    assert names.keys() == {"tensorboard", "wandb"}
    assert vars(asked.loggers) == dict.fromkeys(names, "x")


def test_options_may_come_before_names_and_with_underscores() -> None:
    asked, *_ = _read(["--eta=0.5", "--inner_iterations", "3", "CartPole", "--json", "svr-dqn", "--hidden"])
    assert (asked.task, asked.algorithm, asked.json) == ("CartPole", "svr-dqn", True)
    assert asked.options == {"eta": 0.5, "inner_iterations": 3, "hidden": ()}


def test_every_option_can_be_given() -> None:
    """What help shows as an option's default can be given for it."""
    for name in configuration_options():
        value, flag = Configuration().options()[name], f"--{name.replace('_', '-')}"
        words = [flag, *as_text(value).split()]
        if isinstance(value, bool):
            words = [flag if value else f"--no-{flag[2:]}"]
        expected = {} if value is None and name in ("steps", "episodes", "outer_iterations") else {name: value}
        assert _read(["CartPole", "dqn-sgd", *words])[0].options == expected, name


def test_the_command_line_is_above_the_file_and_the_file_above_the_names(tmp_path) -> None:
    file = tmp_path / "o.toml"
    file.write_text(
        "algorithm = 'svr-dqn'\nreadings = 'printed'\neta = 0.1\nalpha = 0.2\nsteps = 5000\ntask = 'CartPole'"
    )
    asked, *_ = _read(["--config", str(file), "--eta", "0.3"])
    assert (asked.task, asked.algorithm, asked.readings) == ("CartPole", "svr-dqn", "printed")
    assert asked.options == {"eta": 0.3, "alpha": 0.2, "steps": 5_000}
    other, *_ = _read(["MountainCar", "dqn-sgd", "--config", str(file), "--readings", "corrected", "--episodes", "7"])
    assert (other.task, other.algorithm, other.readings) == ("MountainCar", "dqn-sgd", "corrected")
    assert other.options == {"eta": 0.1, "alpha": 0.2, "episodes": 7}
