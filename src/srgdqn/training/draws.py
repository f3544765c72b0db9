"""The random numbers of one block of one round, drawn at once.

They depend on the round's key and the block's number alone. One call of the generator costs about as much as ten more
numbers from it, so everything that is always needed comes from a single draw of 32-bit words; what only some
configurations need has keys of its own, which cost nothing where they are not used.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from srgdqn.config import Configuration

# What is folded into the key `sampling`. Its first two children by `split`, of which D and the picks are drawn without
# replacement, are what folding 0 and 1 into it gives.
_BEYOND, _COINS, _OTHERS = 2, 3, 4
_REFERENCE = 2**32 - 1  # far from those of a block's other outer iterations
_NOISE = 2**32 - 0x5EED  # likewise


class BatchDraws(NamedTuple):
    """Random numbers of one outer iteration."""

    batch: UInt32[Array, " rows"]
    picks: UInt32[Array, "inner_iterations inner_batch"]
    sampling: PRNGKeyArray  # for drawing D and the picks without replacement
    which: Int[Array, ""]  # of the outer iterations after the block it is, from 0

    @property
    def beyond(self) -> PRNGKeyArray:
        """For rows of the replay beyond D."""
        return jax.random.fold_in(self.sampling, _BEYOND)

    @property
    def noise(self) -> UInt32[Array, " words"]:
        """For the noise of the network, as a key's data."""
        return jax.random.key_data(jax.random.fold_in(self.sampling, _NOISE))

    @property
    def reference(self) -> PRNGKeyArray:
        """For the rows that a direction is compared on."""
        return jax.random.fold_in(self.sampling, _REFERENCE)

    def coins(self, count: int) -> Float[Array, " directions"]:
        """Random numbers for the estimator."""
        return jax.random.uniform(jax.random.fold_in(self.sampling, _COINS), (count,))


class Draws(NamedTuple):
    """Random numbers of a block of `block` steps and the outer iterations after it."""

    explore: Float[Array, " block"]  # uniform in [0, 1)
    action: Int[Array, " block"]  # uniform over the actions
    episode: PRNGKeyArray  # one key per step, for an episode that starts after it
    environment: PRNGKeyArray  # one key per step
    first_observation: PRNGKeyArray  # one key per step, for an episode that starts after it
    batches: BatchDraws  # with an axis of outer iterations first

    def batch(self, which: int = 0) -> BatchDraws:
        """Those of one outer iteration."""
        return jax.tree.map(lambda leaf: leaf[which], self.batches)


def draw_block(
    configuration: Configuration, key: PRNGKeyArray, index: Int[Array, ""], *, actions: int, rows: int
) -> Draws:
    """The random numbers of block `index`, for a task with `actions` actions and batches of `rows` transitions."""
    block, inner = configuration.training.learning_frequency, configuration.estimator
    updates = configuration.training.gradient_steps
    of_batches = (updates, rows), (updates, inner.inner_iterations, inner.inner_batch)
    shapes = ((block,), (block,), (block, 2), *of_batches)
    sizes = [math.prod(shape) for shape in shapes]
    words = jax.random.bits(_stream(key, index, 0), (sum(sizes),), jnp.uint32)
    explore, action, episode, batch, picks = (
        part.reshape(shape) for part, shape in zip(_split(words, sizes), shapes, strict=True)
    )
    # Twice as many keys begin with the same ones, and neither half costs anything where an environment draws nothing.
    environment = jax.random.split(_stream(key, index, 1), 2 * block)
    return Draws(
        explore=(explore >> 8) * jnp.asarray(2.0**-24, jnp.result_type(float)),
        action=(action % actions).astype(jnp.int32),
        episode=jax.random.wrap_key_data(episode, impl="threefry2x32"),
        environment=environment[:block],
        first_observation=environment[block:],
        batches=BatchDraws(batch, picks, _sampling_keys(_stream(key, index, 2), updates), jnp.arange(updates)),
    )


_APART = 2**32 - 1  # the streams of blocks that no round reaches
_ACTING = 2**32 - 2


def acting_key(key: PRNGKeyArray, index: Int[Array, ""]) -> PRNGKeyArray:
    """For the noise that a noisy network acts with in block `index`."""
    return jax.random.fold_in(jax.random.fold_in(key, _ACTING), index)


def draw_apart(
    configuration: Configuration, key: PRNGKeyArray, index: Int[Array, ""], which: Int[Array, ""], *, rows: int
) -> BatchDraws:
    """Random numbers for one of several further outer iterations after block `index`, which training does not use."""
    inner = configuration.estimator
    apart = jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(key, _APART), index), which)
    words, sampling = jax.random.split(apart)
    drawn = jax.random.bits(words, (rows + inner.inner_iterations * inner.inner_batch,), jnp.uint32)
    picks = drawn[rows:].reshape(inner.inner_iterations, inner.inner_batch)
    return BatchDraws(drawn[:rows], picks, sampling, jnp.asarray(configuration.training.gradient_steps))


def _sampling_keys(key: PRNGKeyArray, count: int) -> PRNGKeyArray:
    """As many keys, of which the first is the key itself."""
    others = jax.vmap(jax.random.fold_in, (None, 0))(key, _OTHERS + jnp.arange(count - 1))
    return jnp.concatenate([key[None], others]) if count > 1 else key[None]


def _stream(key: PRNGKeyArray, index: Int[Array, ""], which: int) -> PRNGKeyArray:
    return jax.random.fold_in(key, index.astype(jnp.uint32) * 3 + which)


def _split(words: Array, sizes: list[int]) -> list[Array]:
    ends = itertools.accumulate(sizes)
    return [words[end - size : end] for end, size in zip(ends, sizes, strict=True)]
