"""A step log holds every block as it was, however many there are, in the form of a compiled round's log."""

from __future__ import annotations

import numpy as np
import pytest

from srgdqn.adapters.replay_memory import Block
from srgdqn.adapters.spaces import Observations
from srgdqn.training.host.steps import StepLog
from srgdqn.training.lane import STEPPED, TERMINATED, TRUNCATED

LENGTH = 3


def block_of(random: np.random.Generator) -> Block:
    block = Block(LENGTH, Observations("vector", (1,), (1,)))
    block.action[:] = random.integers(5, size=LENGTH)
    block.reward[:] = random.normal(size=LENGTH)
    block.terminated[:], block.truncated[:] = random.random((2, LENGTH)) < 0.3
    block.environment[:] = random.integers(4, size=LENGTH)
    return block


@pytest.mark.parametrize("blocks", [1, 256, 1_100])
def test_nothing_is_lost_as_it_grows(blocks: int) -> None:
    random, log = np.random.default_rng(blocks), StepLog(LENGTH)
    for _ in range(2):  # also once it was emptied
        played = [block_of(random) for _ in range(blocks)]
        for number, block in enumerate(played):
            log.write(block, [number, 1.5, np.nan, -number])
        assert len(log) == blocks
        np.testing.assert_array_equal(log["action"], [block.action for block in played])
        np.testing.assert_array_equal(log["environments"], [block.environment for block in played])
        given = log.log()
        np.testing.assert_array_equal(given.reward, [[block.reward for block in played]])
        expected = [
            [
                STEPPED + (TERMINATED if ended else TRUNCATED if cut else 0)
                for ended, cut in zip(block.terminated, block.truncated, strict=True)
            ]
            for block in played
        ]
        np.testing.assert_array_equal(given.flags, [expected])
        np.testing.assert_array_equal(given.loss, [np.arange(blocks)])
        np.testing.assert_array_equal(given.theta_norm, [-np.arange(blocks)])
        log.clear()
        assert len(log) == 0
