"""Episodes of environments that take turns, beside those counted one step after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_environments import SMALL
from srgdqn.config.configure import configure
from srgdqn.config.presets import host_preset
from srgdqn.training.lane import LIVED, TERMINATED, TRUNCATED, BlockLog
from srgdqn.training.recorder import Recorder
from srgdqn.training.tables import Endings

BLOCK = SMALL["learning_frequency"]
STEP = st.tuples(st.integers(0, 3), st.integers(-64, 64), st.sampled_from([0, 0, 0, TERMINATED, TRUNCATED]))


@given(st.lists(STEP, min_size=2 * BLOCK, max_size=6 * BLOCK), st.booleans())
def test_episodes_are_their_environments_own(steps: list[tuple[int, int, int]], several: bool) -> None:
    steps = steps[: len(steps) // BLOCK * BLOCK]
    if not several:
        steps = [(0, *rest) for _, *rest in steps]
    environments, rewards, flags = (np.array(column) for column in zip(*steps, strict=True))
    configuration = configure("Some-v0", defaults=host_preset("Some-v0"), **SMALL, steps=len(steps), environments=4)
    blocks = len(steps) // BLOCK
    shape = (1, blocks, BLOCK)
    log = BlockLog(
        rewards.reshape(shape) / 8, (flags + LIVED).astype(np.uint8).reshape(shape), *np.full((4, 1, blocks), np.nan)
    )
    recorder = Recorder(configuration, Endings("truncated", "none"), 1)
    recorder.record(log, environments.reshape(shape) if several else None)
    tables = recorder.tables(slice(0, 1), [7], configuration, np.array([-1]))

    expected, open_return, open_length = [], dict.fromkeys(range(4), 0.0), dict.fromkeys(range(4), 0)
    for number, (environment, reward, flag) in enumerate(steps, start=1):
        open_return[environment] += reward / 8
        open_length[environment] += 1
        if flag:
            ending = "terminated" if flag == TERMINATED else "truncated"
            expected.append((number, open_return[environment], open_length[environment], ending))
            open_return[environment], open_length[environment] = 0.0, 0
    found = tables["episodes"]
    columns = (found[name].tolist() for name in ("step", "return", "length", "ending"))
    assert list(zip(*columns, strict=True)) == expected
    assert found["episode"].tolist() == list(range(len(expected)))
    assert set(found["round"].tolist()) <= {7}
    assert tables["rounds"]["episodes"].tolist() == [len(expected)]
    assert tables["curves"]["episodes"][-1] == len(expected)
    assert tables["curves"]["reward_cumulative"][-1] == pytest.approx(
        sum(reward for _, reward, _ in steps) / 8 / len(steps)
    )
