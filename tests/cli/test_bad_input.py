"""Input that cannot be used: one paragraph, exit code 2, nothing written, nothing compiled."""

import shutil
from pathlib import Path

import pytest

from srgdqn.cli import main
from synthetic_runs import synthetic

pytestmark = pytest.mark.usefixtures("no_training")


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs a command line in a folder of its own, sees that it is refused as it should be, and returns why."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        assert main(words) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("error: ")
        assert shown.err.count("\n") == 1
        assert shown.err.endswith((".\n", "?\n"))
        assert "Traceback" not in shown.err
        assert sorted(tmp_path.rglob("*")) == before
        return shown.err

    return run


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("trian", "unknown command 'trian'. Did you mean 'train'?"),
        ("train", "no task was given"),
        ("train MountanCar srg-dqn", "unknown task 'MountanCar'. Did you mean 'MountainCar'?"),
        ("train MountainCar-v9 srg-dqn", "unknown Gymnasium environment 'MountainCar-v9'. Did you mean 'MountainCar"),
        ("train LunarLander srg-dqn", "Did you mean Gymnasium's 'LunarLander-v3'?"),
        ("train Pendulum-v1 srg-dqn --action-bins 1", "action_bins is 1"),
        ("train ALE/Pnog-v5", "unknown Atari game 'ALE/Pnog-v5'. Did you mean 'ALE/Pong-v5'?"),
        ("train srg-dqn", "'srg-dqn' is an algorithm, but the task comes first"),
        ("train CartPole srgdqn", "unknown algorithm 'srgdqn'. Did you mean 'srg-dqn'?"),
        ("train CartPole srg-dqn 50", "srgdqn train takes task and algorithm alone, and has no use for '50'"),
        ("train CartPole --readings print", "Did you mean 'printed'?"),
        ("train CartPole --etta 0.1", "unknown option '--etta' of srgdqn train. Did you mean '--eta'?"),
        ("train CartPole --network mine", "unknown option '--network'"),
        ("train CartPole --eta", "--eta: expected 1 argument. 'srgdqn train --help' shows"),
        ("train CartPole --eta fast", "eta is 'fast', which is not a number"),
        ("train CartPole --eta nan", "eta is nan, which is not a finite number"),
        ("train CartPole --eta -1", "eta is -1.0, but must be 0 or more"),
        ("train CartPole --steps 1e5", "Write it as 100000."),
        ("train CartPole --hidden 20 wide", "hidden is 'wide'"),
        ("train CartPole --loss squarred", "Did you mean 'squared'?"),
        ("train CartPole --torques endpoints", "torques = 'endpoints' is an option of Pendulum alone"),
        ("train CartPole --estimator sarah", "unknown estimator 'sarah'"),
        ("train CartPole --batch-size 5000", "replay_capacity = 2000 is less than the batch of 5000"),
        ("train CartPole --epsilon-start 1.5", "epsilon_start is 1.5, but must be from 0 to 1"),
        ("train CartPole --steps 1000", "too short a budget for a single outer iteration"),
        ("train CartPole --steps 5000 --episodes 5", "a budget has one unit"),
        ("train CartPole --out /proc/run", "cannot be written to"),
        ("train CartPole --out .", "is the working folder. Give a folder below it, such as "),
        ("train --config missing.toml", "missing.toml cannot be read (No such file or directory)"),
        ("sweep --eta 1 2", "no task was given"),
        ("sweep CartPole", "there is nothing to sweep over"),
        ("sweep CartPole --learning-rate 0.1 0.2", "It is called --eta or --alpha here"),
        ("sweep CartPole --eta", "--eta has no values"),
        ("sweep CartPole --direction-errors", "--direction-errors has no values. Give true or false after it."),
        ("sweep CartPole --eta 0.1 -1", "the cell eta = -1.0 cannot be run: eta is -1.0, but must be 0 or more"),
        ("sweep CartPole --eta 0.1 0.10", "eta is given 0.1 twice"),
        ("sweep CartPole --anchor-step yes no", "anchor_step is 'yes', but is true or false"),
        ("sweep CartPole --eta 0.1 0.2 --score reward", "Did you mean 'final-reward'?"),
        ("sweep CartPole --eta 0.1 0.2 --trials 3", "--trials is for --search alone"),
        ("sweep CartPole --eta 0.1 0.2 --search gamma=0.9..0.99", "Search it as well"),
        ("sweep CartPole --search eta", "does not say what to search"),
        ("sweep CartPole --search", "there is nothing to search"),
        ("sweep CartPole --search eta=0.1..1 --trials 0", "--trials is 0"),
        ("sweep CartPole --search eta=0.1..1 --eta 0.1", "as one value"),
        ("sweep CartPole --eta 0.1 0.2 --out /proc/sweep", "cannot be written to"),
        ("sweep CartPole --eta 0.1 0.2 --figure map.gif", "End it in .png, .pdf or .svg"),
        ("show", "no run was given"),
        ("show a b", "srgdqn show takes run alone, and has no use for 'b'"),
        ("show nowhere", "nowhere is not the folder of a run"),
        ("show --jsn a", "unknown option '--jsn' of srgdqn show. Did you mean '--json'?"),
        ("evaluate a --episodes 0", "--episodes is 0, but must be a whole number from 1"),
        ("compare", "no run was given"),
        ("compare a --x step", "Did you mean 'steps'?"),
        ("compare a --out curves.gif", "End it in .png, .pdf or .svg"),
        ("export a --out policy.pt", "End it in .onnx or .py"),
        (
            "export a --round first",
            "--round is 'first', which is not a whole number. Write it in digits, or write best",
        ),
        ("video a --out play.webm", "End it in .mp4 or .gif"),
        ("video a --out /proc/play.gif", "cannot be written to"),
        ("list all", "srgdqn list has no use for 'all'"),
        ("--print-completion powershell", "needs the name of your shell"),
    ],
)
def test_what_cannot_be_used_is_refused(refused, words: str, why: str) -> None:
    assert why in refused(*words.split())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"task = ", "in options.toml: this is not TOML"),
        (b"etta = 0.1", "in options.toml: unknown key 'etta'. Did you mean 'eta'?"),
        (b"[optimizer]\neta = 0.1", "unknown table 'optimizer'. Did you mean 'optimiser'?"),
        (b"eta = 'fast'", "eta is 'fast'"),
        (b"eta = nan", "eta is nan"),
        (b"[task]\ntask = 'LunarLander'", "Did you mean Gymnasium's 'LunarLander-v3'?"),
        (b"algorithm = 3", "algorithm is 3, which is not a name"),
        (b"eta = 0.1", "no task was given"),
        (b"task = 'CartPole'\nnetwork = 'Mine'", "the configuration's network is the module 'Mine'"),
        (b"\xff\xfe", "options.toml is not a text file in UTF-8"),
    ],
)
def test_files_that_cannot_be_used_are_refused(refused, content: bytes, why: str) -> None:
    Path("options.toml").write_bytes(content)
    assert why in refused("train", "--config", "options.toml")


def test_a_folder_that_exists_is_refused_before_training(refused, tmp_path: Path) -> None:
    synthetic(steps=2_000).save(tmp_path / "run")
    assert "exists already" in refused("train", "CartPole", "--out", "run")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    assert "is not the folder of a run" in refused("train", "CartPole", "--out", "precious", "--overwrite")


@pytest.mark.parametrize("command", ["show", "compare"])
def test_damaged_folders_are_refused(refused, tmp_path: Path, command: str) -> None:
    folder = synthetic(steps=2_000).save(tmp_path / "run")
    content = bytearray((folder / "curves.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "curves.parquet").write_bytes(content)
    assert "curves.parquet cannot be used" in refused(command, "run")
    (folder / "curves.parquet").unlink()
    assert "it is missing" in refused(command, "run")
    shutil.rmtree(folder)
    folder.mkdir()
    assert "is not the folder of a run" in refused(command, "run")


def test_a_run_that_is_not_finished_is_told_as_such(refused, tmp_path: Path) -> None:
    (tmp_path / "run.unfinished" / "jobs" / "rounds-0-1").mkdir(parents=True)
    (tmp_path / "run.unfinished" / "jobs" / "rounds-0-1" / "000001.checkpoint").touch()
    said = refused("show", "run")
    assert "the run to run is not finished: 'srgdqn watch' shows whether it is running. Its checkpoints are in" in said
    assert "'srgdqn train --out run --resume' (resume=True in Python) resumes it." in said


def test_figures_are_not_overwritten(refused, tmp_path: Path) -> None:
    synthetic(steps=2_000).save(tmp_path / "run")
    Path("comparison.png").write_text("precious")
    assert "exists already" in refused("compare", "run", "--out", "comparison.png")
    assert Path("comparison.png").read_text() == "precious"
    for number in (2, 3):  # by itself it finds another name
        assert main(["compare", "run"]) == 0
        assert Path(f"comparison-{number}.png").exists()
    assert Path("comparison.png").read_text() == "precious"


def test_runs_of_different_tasks_are_not_compared(refused, tmp_path: Path) -> None:
    synthetic(steps=2_000).save(tmp_path / "a")
    synthetic("Pendulum", steps=2_000).save(tmp_path / "b")
    assert "different tasks (MountainCar, Pendulum)" in refused("compare", "a", "b")


def test_episodes_on_the_axis_need_budgets_in_episodes(refused, tmp_path: Path) -> None:
    synthetic(steps=2_000).save(tmp_path / "a")
    assert "x is 'episodes'" in refused("compare", "a", "--x", "episodes")


def test_a_round_that_is_not_there_cannot_be_evaluated(refused, trained: Path) -> None:
    assert "there is no round 7 in this run. Give one of 0 to 1." in refused("evaluate", str(trained), "--round", "7")
