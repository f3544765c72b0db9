"""Jax's own switch of its random numbers: with it off a seed would stand for other ones, which is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import srgdqn
from srgdqn.errors import InputError
from srgdqn.training.lane import round_keys
from tiny import TINY


def keys() -> jax.Array:
    return jax.random.key_data(round_keys(jnp.uint32(0), jnp.uint32(1)))


@pytest.mark.parametrize(
    "begin",
    [
        lambda: srgdqn.train("CartPole", "srg-dqn", **TINY, rounds=1),
        lambda: srgdqn.train("CartPole-v1", "dqn-adam", steps=2_000),
        lambda: srgdqn.Agent("dqn-adam", "CartPole-v1"),
        keys,
    ],
    ids=["compiled", "host", "agent", "keys"],
)
def test_other_random_numbers_are_refused(begin: Callable[[], Any]) -> None:
    with jax.threefry_partitionable(False), pytest.raises(InputError, match="jax_threefry_partitionable is off"):
        begin()
