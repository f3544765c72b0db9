import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from command_line import TRAIN
from srgdqn.cli import main


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short real run, trained by the command line. What it printed lies beside it."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "100")
        assert main([*TRAIN, "--steps", "2000", "--out", str(folder)]) == 0, err.getvalue()
    (folder.parent / "stdout").write_text(out.getvalue())
    (folder.parent / "stderr").write_text(err.getvalue())
    return folder


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A wide terminal and a folder to work in; compiled programs are not stored."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("SRGDQN_CACHE", "off")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a test in which anything would be compiled for training."""
    import srgdqn.training.job

    def refuse(*arguments: object) -> Sequence[object]:
        raise AssertionError("a program was compiled")

    monkeypatch.setattr(srgdqn.training.job, "programs_for", refuse)
