"""Learning repeated on the transitions that a run made."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from kept_runs import kept_run
from srgdqn.inspection.saved_run import checkpoints_of, open_run
from srgdqn.inspection.segments import Relearning


@pytest.mark.parametrize("options", [{}, {"normalise_observations": True}, {"target": "hard", "schedule": "linear"}])
def test_it_ends_where_the_run_did(options: dict, tmp_path: Path) -> None:
    """To within rounding, as it is another program; a replay of 40 transitions is overwritten again and again. No
    segment is longer than that: the transitions of those that are are not at hand.
    """
    usual = dict(kernel="xla", replay_capacity=64, batch_size=4)
    kept_run(tmp_path / "run", **{**usual, **options})
    saved = open_run(tmp_path / "run")
    learning, checked = Relearning(saved), 0
    for number in range(3):
        kept = [each for each in checkpoints_of(saved, number) if not each.at_the_end]
        for start, end in itertools.pairwise(kept):
            states = start.open(), end.open()
            assert learning.possible(*states)
            own, copy = learning.learned(*states, 1, lambda numbers: numbers)
            stored, begin = end.policy(), start.policy()
            for path, array in stored.items():
                moved = np.abs(array - begin[path]).max()
                assert np.abs(own[path] - array).max() <= 1e-4 * moved + 1e-7
                assert (own[path] == copy[path]).all()
            checked += any(np.abs(stored[path] - begin[path]).max() > 1e-4 for path in stored)
    assert checked > 5


def test_segments_longer_than_the_replay_are_not_at_hand(tmp_path: Path) -> None:
    kept_run(tmp_path / "run", kernel="xla")
    saved = open_run(tmp_path / "run")
    first, *_, last = (each for each in checkpoints_of(saved, 0) if not each.at_the_end)
    assert not Relearning(saved).possible(first.open(), last.open())
