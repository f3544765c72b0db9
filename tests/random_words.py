"""Threefry-2x32 with 20 rounds in NumPy, from its paper (Salmon et al. 2011), and what a block's words are used for.

With it the random numbers of a block are known without compiling a program for every shape of configuration.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(key: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The cipher's two words for each pair of counts."""
    a, b = np.asarray(counts, np.uint32).T.copy()
    keys = [np.uint32(key[0]), np.uint32(key[1]), np.uint32(key[0]) ^ np.uint32(key[1]) ^ np.uint32(0x1BD11BDA)]
    a, b = a + keys[0], b + keys[1]
    for group in range(5):
        for turn in _TURNS[group % 2]:
            a = a + b
            b = (b << np.uint32(turn) | b >> np.uint32(32 - turn)) ^ a
        a = a + keys[(group + 1) % 3]
        b = b + (keys[(group + 2) % 3] + np.uint32(group + 1))
    return np.stack([a, b], axis=1)


def fold_in(key: np.ndarray, data: int) -> np.ndarray:
    """jax.random.fold_in"""
    return threefry(key, np.array([[0, data % 2**32]]))[0]


def bits(key: np.ndarray, count: int) -> np.ndarray:
    """jax.random.bits"""
    pairs = threefry(key, np.stack([np.zeros(count, np.uint32), np.arange(count, dtype=np.uint32)], axis=1))
    return pairs[:, 0] ^ pairs[:, 1]


class Words(NamedTuple):
    """A block's words, by what they are for."""

    explore: np.ndarray
    action: np.ndarray
    episode: np.ndarray  # a key per step
    batch: np.ndarray  # of one outer iteration
    picks: np.ndarray


def of_block(
    key: np.ndarray, index: int, *, block: int, rows: int, picks: int, update: int = 0, updates: int = 1
) -> Words:
    """The words of block `index`, in the order in which they are drawn, with those of outer iteration `update` of all
    `updates` after it.
    """
    with np.errstate(over="ignore"):
        words = bits(fold_in(key, 3 * index), 4 * block + updates * (rows + picks))
    sizes = [block, block, 2 * block, updates * rows]
    explore, action, episode, batches, picked = np.split(words, np.cumsum(sizes))
    of_update = batches.reshape(updates, rows)[update], picked.reshape(updates, picks)[update]
    return Words(explore, action, episode.reshape(block, 2), *of_update)
