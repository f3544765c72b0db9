"""Training on Ray clusters ends with the bits that it has without, whatever dies on the way."""

from pathlib import Path
from typing import Any

import pytest

from fenced import seen_behind_the_fence

pytestmark = pytest.mark.cluster

SAME = dict.fromkeys(("curves", "episodes", "evaluations", "rounds", "parameters"), True)


def seen_in(scenario: str, folder: Path) -> dict[str, Any]:
    return seen_behind_the_fence(Path(__file__).with_name("ray_trainings.py"), scenario, folder, seconds=600)


def test_compiled_rounds_survive_a_worker_and_a_node(kernel: None, tmp_path: Path) -> None:
    for seen in seen_in("compiled", tmp_path).values():
        assert seen["deaths"] == ["worker", "node"]
        assert seen["same"] == SAME
        assert len(seen["jobs"]) == 4  # all of them were kept, by whichever node
        assert "checkpoint" in seen["phases"]
        assert seen["shares"][-1] == 1.0


def test_rounds_on_the_host_survive_a_worker_and_a_node(tmp_path: Path) -> None:
    seen = seen_in("hosted", tmp_path)
    assert seen["deaths"] == ["worker", "node"]
    assert seen["same"] == SAME
    assert seen["jobs"] == [f"round-{number}" for number in range(4)]
    assert seen["shares"][-1] == 1.0


def test_what_is_the_users_own_is_taken_along_and_what_was_reached_comes_back(kernel: None, tmp_path: Path) -> None:
    seen = seen_in("own", tmp_path)
    assert seen["same"] == SAME
    assert seen["interrupted"]
    assert len(seen["reached"]) == 32
    assert 0 < max(seen["reached"]) < 40_000
