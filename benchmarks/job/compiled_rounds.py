"""Rounds that are one compiled program: a function of a random key, mapped over the keys of all rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax


def train_all(train: Callable[[jax.Array], Any], rounds: int) -> Callable[[int], None]:
    """Compiles a round written as a function of its random key for all rounds at once; the result takes a seed."""

    def keys(seed: int) -> jax.Array:
        # A single round is not mapped over an axis of one: conditions would become selections.
        return jax.random.key(seed) if rounds == 1 else jax.random.split(jax.random.key(seed), rounds)

    compiled = jax.jit(train if rounds == 1 else jax.vmap(train)).lower(keys(0)).compile()

    def run(seed: int) -> None:
        jax.block_until_ready(compiled(keys(seed)))

    return run
