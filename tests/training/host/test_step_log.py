"""A round's diary holds every block as it was, however many there are."""

from __future__ import annotations

import numpy as np

from srgdqn.adapters.flat_replay import Block
from srgdqn.adapters.spaces import Observations
from srgdqn.training.host.step_log import Diary
from srgdqn.training.lane import LIVED, TERMINATED, TRUNCATED

LENGTH = 3


def filled(blocks: int) -> tuple[Diary, list[Block]]:
    random, diary, lived = np.random.default_rng(blocks), Diary(LENGTH), []
    for number in range(blocks):
        block = Block(LENGTH, Observations("vector", (1,), (1,)))
        block.action[:] = random.integers(5, size=LENGTH)
        block.reward[:] = random.normal(size=LENGTH)
        block.terminated[:], block.truncated[:] = random.random((2, LENGTH)) < 0.3
        block.seat[:] = random.integers(4, size=LENGTH)
        diary.write(block, [number, 1.5, np.nan, -number])
        lived.append(block)
    return diary, lived


def test_nothing_is_lost_as_it_grows() -> None:
    for blocks in (1, 255, 256, 257, 1_100):
        diary, lived = filled(blocks)
        assert len(diary) == blocks
        np.testing.assert_array_equal(diary.reward, [block.reward for block in lived])
        np.testing.assert_array_equal(diary.action, [block.action for block in lived])
        np.testing.assert_array_equal(diary.seats, [block.seat for block in lived])
        np.testing.assert_array_equal(diary.diagnostics[:, 0], np.arange(blocks))
        expected = [
            [
                LIVED + (TERMINATED if ended else TRUNCATED if cut else 0)
                for ended, cut in zip(block.terminated, block.truncated, strict=True)
            ]
            for block in lived
        ]
        np.testing.assert_array_equal(diary.flags, expected)


def test_the_newest_block_alone_can_be_kept() -> None:
    diary, lived = filled(300)
    diary.keep_newest()
    assert len(diary) == 1
    np.testing.assert_array_equal(diary.reward, [lived[-1].reward])
    np.testing.assert_array_equal(diary.diagnostics, [[299, 1.5, np.nan, -299]])
    diary.write(lived[0], [0, 0, 0, 0])
    np.testing.assert_array_equal(diary.reward, [lived[-1].reward, lived[0].reward])


def test_all_of_it_can_be_forgotten() -> None:
    diary, lived = filled(300)
    diary.forget()
    assert (len(diary), diary.reward.shape) == (0, (0, LENGTH))
    diary.write(lived[7], [1, 2, 3, 4])
    np.testing.assert_array_equal(diary.action, [lived[7].action])
    np.testing.assert_array_equal(diary.diagnostics, [[1, 2, 3, 4]])
