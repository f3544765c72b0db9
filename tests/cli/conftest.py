import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from command_line import TRAIN, command


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short real run, trained through the command line once for all workers. What it printed lies beside it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / "trained" / "run"
    with _alone(root / "trained.lock"):
        if not folder.exists():
            done = command(*TRAIN, "--steps", "2000", "--out", str(folder))
            assert done.returncode == 0, done.stderr
            (folder.parent / "stdout").write_text(done.stdout)
            (folder.parent / "stderr").write_text(done.stderr)
    return folder


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a test in which anything would be compiled for training."""
    import srgdqn.training.rounds

    def refuse(*arguments: object) -> Sequence[object]:
        raise AssertionError("a program was compiled")

    monkeypatch.setattr(srgdqn.training.rounds, "programs_for", refuse)
