import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import srgdqn
from command_line import ENDLESS, TRAIN, terminal
from srgdqn.cli import main
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.results.result import Result
from srgdqn.runs.configurations import dumps
from srgdqn.runs.tables import SCHEMAS
from srgdqn.session.prepare import PreparedRun, with_kernel
from synthetic_runs import synthetic


def test_a_run_is_trained_saved_and_summed_up(trained: Path) -> None:
    result = srgdqn.load(trained)
    expected = configure("CartPole", "dqn-sgd", steps=2_000, rounds=2, lanes=2, evaluation_episodes=3)
    assert result.configuration == with_kernel(expected)
    assert result.configuration.training.kernel != "auto"
    assert result.curves.select("round", "step").rows() == [(0, 1_000), (0, 2_000), (1, 1_000), (1, 2_000)]
    printed = (trained.parent / "stdout").read_text()
    final = result.curves.filter(step=2_000)["reward"].mean()
    assert "CartPole · dqn-sgd · corrected readings" in printed
    assert f"final reward per action    {final:.4g} [" in printed
    assert f"queries per round          {int(result.rounds['queries'][0]):,}" in printed
    assert str(trained) in printed.replace("\n", "").replace(" ", "")
    assert (trained.parent / "stderr").read_text() == ""


def test_a_saved_configuration_repeats_the_run(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "again"
    assert main(["train", "--config", str(trained / "configuration.toml"), "--out", str(again), "--json"]) == 0
    first, second = srgdqn.load(trained), srgdqn.load(again)
    assert first.configuration == second.configuration
    assert first.run.tables.keys() == second.run.tables.keys() >= SCHEMAS.keys() - {"directions", "policies"}
    for name in first.run.tables.keys() - {"timings"}:
        assert first.run.tables[name].equals(second.run.tables[name]), name
    for name, array in first.run.parameters.items():
        assert array.tobytes() == second.run.parameters[name].tobytes()

    shown = capsys.readouterr()
    summary = json.loads(shown.out)  # nothing but JSON on standard output
    assert shown.err == ""
    assert summary["saved"] == str(again)
    assert summary["reward"]["mean"] == pytest.approx(first.curves.filter(step=2_000)["reward"].mean())
    assert summary["phase_seconds"].keys() - {"compile"} == {"train", "evaluate"}  # what was compiled here is not again
    assert summary["interrupted"] is False
    assert summary["diverged"] == []


def test_options_go_to_where_they_belong(fake_training: list, capsys: pytest.CaptureFixture[str]) -> None:
    words = "train Pendulum svr-dqn --readings printed --rounds 3 --eta 0.5 --episodes 9 --hidden 4 4 --no-anchor-step"
    assert main(words.split()) == 0
    expected = configure(
        "Pendulum",
        "svr-dqn",
        readings="printed",
        rounds=3,
        eta=0.5,
        episodes=9,
        hidden=(4, 4),
        anchor_step=False,
    )
    assert fake_training == [with_kernel(expected)]
    assert "not saved: give --out DIR" in capsys.readouterr().out


@pytest.fixture
def fake_training(monkeypatch: pytest.MonkeyPatch) -> list[Configuration]:
    """Training that takes no time: what it was asked for is kept."""
    asked: list[Configuration] = []

    def train(run: PreparedRun, **_: object) -> Result:
        asked.append(run.configuration)
        return synthetic(rounds=2, steps=3_000)

    monkeypatch.setattr(PreparedRun, "train", train)
    return asked


def test_quiet_is_quiet(
    fake_training: list, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["train", "MountainCar", "--quiet", "--out", str(tmp_path / "run")]) == 0
    assert tuple(capsys.readouterr()) == ("", "")
    assert srgdqn.load(tmp_path / "run").rounds.height == 2


def test_a_terminal_has_a_bar(
    fake_training: list, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["train", "MountainCar"]) == 0
    assert "MountainCar · srg-dqn · 1 round" in capsys.readouterr().err


def test_diverged_rounds_are_shown_with_their_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = synthetic(rounds=3, steps=5_000, diverged={2: 1_504})
    monkeypatch.setattr(PreparedRun, "train", lambda *_, **__: result)
    assert main(["train", "MountainCar"]) == 0
    shown = capsys.readouterr().out
    assert "1 of 3: round 2 at step 1,504" in shown
    assert "3, of which 2 reached the final stretch" in shown
    assert main(["train", "MountainCar", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["diverged"] == [{"round": 2, "step": 1_504}]


@pytest.mark.parametrize("saving", [True, False])
def test_a_run_is_saved_though_its_summary_cannot_be_printed(
    saving: bool,
    fake_training: list,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["train", "MountainCar", *(["--out", str(tmp_path / "run")] if saving else [])]
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(words) == (0 if saving else 1)
    said = "warning: the summary could not be printed" if saving else "error: standard output cannot be written to"
    assert capsys.readouterr().err == f"{said} (No space left on device).\n"
    assert list(tmp_path.iterdir()) == [tmp_path / "run"] * saving


def test_a_run_is_saved_though_its_streams_are_closed(tmp_path: Path) -> None:
    words = " ".join([*TRAIN, "--steps", "2000", "--out", str(tmp_path / "run")])
    script = f"{sys.executable} -m srgdqn {words} >&- 2>&-"
    assert subprocess.run(["bash", "-c", script], timeout=300).returncode == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]
    assert srgdqn.load(tmp_path / "run").rounds.height == 2


@pytest.mark.parametrize("saving", [True, False])
def test_an_interrupted_run_is_kept(
    saving: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = synthetic(rounds=2, steps=10_000, ends=4_096, interrupted=True)
    monkeypatch.setattr(PreparedRun, "train", lambda *_, **__: result)
    folder = tmp_path / "run"
    assert main(["train", "MountainCar", *(["--out", str(folder)] if saving else [])]) == 130
    shown = capsys.readouterr()
    assert "last reward per action" in shown.out
    if saving:
        assert shown.err == f"interrupted: what was reached is saved in {folder}; --resume continues.\n"
        assert srgdqn.load(folder).run.provenance["interrupted"] is True
    else:
        assert shown.err == "interrupted: nothing was saved.\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_saves_what_was_reached(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """The bar moves, Ctrl-C is pressed or SIGTERM comes, and the folder has the run so far."""
    folder = tmp_path / "run"
    with terminal(*ENDLESS, "--out", str(folder), columns=200) as screen:
        screen.wait_for(lambda text: "steps/s" in text)
        assert not folder.exists()
        screen.process.send_signal(number)
        assert screen.end() == code
        assert "what was reached is saved in" in screen.screen
        assert "yes: the budget was not spent" in screen.screen
        assert "Traceback" not in screen.screen
    result = srgdqn.load(folder)
    assert result.run.provenance["interrupted"] is True
    assert 0 < result.rounds["steps"][0] < 500_000_000
    assert not result.rounds["completed"].any()


def test_a_name_on_the_command_line_replaces_what_the_files_name_stands_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(dumps(configure("MountainCar", "srg-dqn", gamma=0.7, steps=5_000)))
    asked: list[Configuration] = []

    def refuse(run: PreparedRun, **_: object) -> None:
        asked.append(run.configuration)
        raise InputError("enough")

    monkeypatch.setattr(PreparedRun, "train", refuse)
    words = ["MountainCar", "dqn-sgd", "--readings", "printed", "--config", str(file)]
    assert main(["train", *words]) == 2
    assert asked == [with_kernel(configure("MountainCar", "dqn-sgd", readings="printed", gamma=0.7, steps=5_000))]
    assert main(["train", "Pendulum", "--config", str(file)]) == 2
    assert asked[1] == with_kernel(configure("Pendulum", "srg-dqn", gamma=0.7, steps=5_000))
    assert main(["train", "--config", str(file)]) == 2
    assert asked[2] == with_kernel(configure("MountainCar", "srg-dqn", gamma=0.7, steps=5_000))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], (None, 80)),
        (["--target-update-interval", "160"], (None, 160)),
        (["--target-update-interval", "none"], (None, None)),
        (["--target-period", "5"], (5, None)),
        (["--target", "polyak", "--target-update-interval", "none"], (None, None)),
    ],
)
def test_a_files_unit_of_a_targets_period_gives_way_to_the_command_lines(
    words: list[str], expected: tuple[int | None, int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of a run has a period beside the interval, and None stands for that one, which nobody gave."""
    file, stored = tmp_path / "run.toml", configure("CartPole", target="hard", target_update_interval=80)
    file.write_text(dumps(stored))
    asked: list[Configuration] = []

    def refuse(run: PreparedRun, **_: object) -> None:
        asked.append(run.configuration)
        raise InputError("enough")

    monkeypatch.setattr(PreparedRun, "train", refuse)
    assert main(["train", "--config", str(file), *words]) == 2
    period, interval = expected
    gradients = asked[0].gradients
    assert (gradients.target_period, gradients.target_update_interval) == (period or 100, interval)


def test_a_file_that_says_both_units_of_a_targets_period_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('target = "hard"\ntarget_period = 5\ntarget_update_interval = 80\n')
    assert main(["train", "CartPole", "--config", str(file)]) == 2
    assert "target_period and target_update_interval were both given" in capsys.readouterr().err


def test_every_round_is_logged_for_tensorboard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder, logs = tmp_path / "runs" / "a", tmp_path / "logs"
    assert main([*TRAIN, "--steps", "2000", "--out", str(folder), "--tensorboard", str(logs)]) == 0
    assert list(folder.parent.iterdir()) == [folder]  # what was there for watching is gone
    for number, queries in srgdqn.load(folder).rounds.select("round", "queries").iter_rows():
        events = event_accumulator.EventAccumulator(str(logs / f"round-{number:03d}"))
        events.Reload()
        last = events.Scalars("train/queries")[-1]
        assert (last.step, last.value) == (2_000, queries)
    assert main([*TRAIN, "--steps", "2000", "--tensorboard", str(logs)]) == 2
    assert "has the rounds of a run already" in capsys.readouterr().err
