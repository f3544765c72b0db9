"""What jax is set to: other random numbers are refused, and compiler options are known to the XLA that is here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import srgdqn
from srgdqn.errors import InputError
from srgdqn.training import jax_setup
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


def test_every_option_is_known_here() -> None:
    """Otherwise programs, and bits, would silently be others than those that were measured."""
    assert jax_setup.hot_program_flags() == jax_setup._SOME
    assert jax_setup.single_call_flags() == jax_setup._NONE


def test_what_another_version_may_lack_is_left_out() -> None:
    known = {"xla_backend_optimization_level": "1"}
    assert jax_setup._known({**known, "xla_of_another_age": True}) == known
