"""How rounds are shared out among jobs, those that were checkpointed as they were."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.checkpoints import Snapshot
from srgdqn.training.job_split import Share, rounds_left, saved_shares, shared_out


def kept(manager: CheckpointManager, name: str, owners: Any, *, last: bool = False) -> None:
    manager.job(name).save(Snapshot({"rounds": owners, "last": last}, {"state.blocks": np.array(3)}, {}))


def test_jobs_are_known_by_whose_rounds_they_have(tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path)
    kept(manager, "b", [["me", 4, 8]])
    kept(manager, "a", [["me", 0, 4]])
    kept(manager, "c", [["other", 0, 4]])
    found = saved_shares(manager, ["me"], rounds=10)
    assert found == {"a": (Share("me", range(4), 0),), "b": (Share("me", range(4, 8), 0),)}
    assert rounds_left(1, 10, found.values()) == [range(8, 10)]


def test_shares_have_the_places_of_those_who_ask_now(tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path)
    kept(manager, "a", [["x", 2, 3], ["y", 0, 3], ["z", 0, 2]])
    [shares] = saved_shares(manager, ["z", "y", "x"], rounds=3).values()
    assert shares == (Share("x", range(2, 3), 2), Share("y", range(3), 1), Share("z", range(2), 0))
    assert rounds_left(3, 3, [shares]) == [range(2, 3), range(6, 8)]


@pytest.mark.parametrize("last", [True, False])
def test_rounds_that_nobody_asks_for_are_no_harm_at_their_end(last: bool, tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path)
    kept(manager, "a", [["x", 0, 3], ["y", 0, 2]], last=last)
    found = saved_shares(manager, ["y"], rounds=3)
    assert found == ({"a": (Share("x", range(3)), Share("y", range(2), 0))} if last else {})


def test_a_round_is_in_one_job_only(tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path)
    kept(manager, "a", [["x", 0, 4]])
    kept(manager, "b", [["x", 2, 6]])
    kept(manager, "c", [["x", 6, 8]])
    assert list(saved_shares(manager, ["x"], rounds=8)) == ["a", "c"]


def test_rounds_beyond_those_that_are_asked_for(tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path)
    kept(manager, "a", [["x", 0, 4]], last=True)
    assert saved_shares(manager, ["x"], rounds=3) == {}
    assert len(saved_shares(manager, ["x"], rounds=4)) == 1


@pytest.mark.parametrize(
    "owners",
    [None, "words", [["x", 0]], [["x", 0, "many"]], [5], {"x": [0, 1]}, [], [["x", 3, 0]]],
)
def test_what_does_not_say_whose_rounds_it_has_is_left_alone(owners: Any, tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path)
    kept(manager, "a", owners, last=True)
    assert saved_shares(manager, ["x"], rounds=3) == {}


def test_another_stamp_a_damaged_one_and_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manager = CheckpointManager(tmp_path, stamp="now")
    assert saved_shares(manager, ["x"], rounds=4) == {}
    kept(manager.stamped("then"), "a", [["x", 0, 1]])
    kept(manager, "b", [["x", 1, 2]])
    kept(manager, "c", [["x", 2, 3]])
    (tmp_path / "b" / "000001.checkpoint").write_bytes(b"")
    (tmp_path / "file").write_text("mine")
    for _ in range(2):
        assert list(saved_shares(manager, ["x"], rounds=4)) == ["c"]
    [told] = capsys.readouterr().err.splitlines()  # once, and nothing of the other stamp, which may be somebody else's
    assert told.startswith(f"warning: the checkpoint {tmp_path / 'b' / '000001.checkpoint'} cannot be used: ")


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 9), st.integers(1, 5), st.integers(1, 4))
def test_all_that_is_left_is_shared_out(gone: list[bool], together: int, workers: int, most: int) -> None:
    """Every round once, in whole groups but for the last of each stretch, in no more than a job may have."""
    taken = [(Share("x", range(number, number + 1), 0),) for number, is_gone in enumerate(gone) if is_gone]
    left = rounds_left(1, len(gone), taken)
    rounds = [number for number, is_gone in enumerate(gone) if not is_gone]
    assert [number for stretch in left for number in stretch] == rounds
    assert all(before.stop < after.start for before, after in itertools.pairwise(left))
    jobs = shared_out(left, together, workers, most * together)
    assert [number for job in jobs for number in job] == rounds
    ends = {stretch.stop for stretch in left}
    for job in jobs:
        assert 0 < len(job) <= most * together
        assert len(job) % together == 0 or job.stop in ends
    if len(left) == 1 and len(rounds) <= most * together:
        groups = -(-len(rounds) // together)
        assert len(jobs) == -(-groups // -(-groups // workers))  # a share for every worker, as far as there is one
