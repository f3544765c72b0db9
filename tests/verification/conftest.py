"""One run of each kind for all tests that live rounds again."""

from pathlib import Path

import pytest

from kept_runs import hosted_run, kept_run


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled") / "run"
    kept_run(folder, kernel="xla")
    return folder


@pytest.fixture(scope="session")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hosted") / "run"
    hosted_run(folder, kernel="xla")
    return folder
