"""A Q-network and its DQN update in plain JAX, for the contenders that are written in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from job.settings import GAMMA, STEP_SIZE, Transitions

Parameters = list[tuple[jax.Array, jax.Array]]  # a weight and a bias per layer

OPTIMISER = optax.adam(STEP_SIZE)


def make_parameters(key: jax.Array, sizes: tuple[int, ...]) -> Parameters:
    initialise = jax.nn.initializers.lecun_normal()
    keys, shapes = jax.random.split(key, len(sizes) - 1), itertools.pairwise(sizes)
    return [(initialise(key, shape), jnp.zeros(shape[1])) for key, shape in zip(keys, shapes, strict=True)]


def q_values(parameters: Parameters, observations: jax.Array) -> jax.Array:
    *hidden, (weight, bias) = parameters
    for hidden_weight, hidden_bias in hidden:
        observations = jax.nn.relu(observations @ hidden_weight + hidden_bias)
    return observations @ weight + bias


def update(parameters: Parameters, target: Parameters, moments: Any, batch: Transitions) -> tuple[Parameters, Any]:
    """One step of Adam on the mean squared Bellman error of a batch."""
    following = q_values(target, batch.next_observation).max(-1)
    y = batch.reward + GAMMA * (1 - batch.terminated) * following
    chosen = jnp.asarray(batch.action)[:, None]

    def loss(parameters: Parameters) -> jax.Array:
        q = jnp.take_along_axis(q_values(parameters, batch.observation), chosen, axis=1)[:, 0]
        return ((y - q) ** 2).mean()

    steps, moments = OPTIMISER.update(jax.grad(loss)(parameters), moments)
    return optax.apply_updates(parameters, steps), moments


def train_all(train: Callable[[jax.Array], Any], rounds: int) -> Callable[[int], None]:
    """Compiles a round written as a function of its random key for all rounds at once; the result takes a seed."""

    def keys(seed: int) -> jax.Array:
        # A single round is not mapped over an axis of one: conditions would become selections.
        return jax.random.key(seed) if rounds == 1 else jax.random.split(jax.random.key(seed), rounds)

    compiled = jax.jit(train if rounds == 1 else jax.vmap(train)).lower(keys(0)).compile()

    def run(seed: int) -> None:
        jax.block_until_ready(compiled(keys(seed)))

    return run
