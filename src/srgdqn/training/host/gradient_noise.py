"""How noisy the gradients are that a round learns from, measured now and then beside training."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from srgdqn.config import Configuration
from srgdqn.learner.gradients import make_gradients, outer_batch, row_noise
from srgdqn.learner.networks import Network
from srgdqn.learner.outer_iteration import batch_rows
from srgdqn.learner.replay import unpack
from srgdqn.learner.reward_estimation import with_estimates
from srgdqn.training.host.program import filling
from srgdqn.training.host.round import HostRound
from srgdqn.training.lane import normalised

# Transitions that stand for the whole replay: many times a batch.
_REFERENCE_ROWS = 1_024
# A perceptron's noise takes milliseconds, and a convolutional network's seconds: this share of the time at most.
_SHARE = 0.02


class GradientNoise:
    """Measures, at the present parameters, the variance of single transitions' gradients and how far the gradient on a
    batch D (the anchor of an outer iteration) is from that on a much larger draw from the replay.

    Its draws are its own: measuring changes nothing of what is learnt.
    """

    def __init__(self, configuration: Configuration, network: Network) -> None:
        self._rows = batch_rows(configuration)
        self._compiled = jax.jit(_program(configuration, network))
        self._next = 0.0  # on the clock, not before
        self._is_compiled = False

    def measure(self, round_: HostRound) -> tuple[float | None, float | None]:
        """E‖g − E g‖² over a batch, and the distance of its mean from the reference; None before anything is learnt,
        and where it has been measured too recently for what it costs.
        """
        began = time.perf_counter()
        if round_.iterations == 0 or began < self._next:
            return None, None
        settings = round_.configuration
        random = np.random.default_rng([settings.training.seed, round_.number, round_.blocks])
        live = min(
            (round_.blocks - round_.blocks_before_memory) * settings.training.learning_frequency,
            settings.replay.replay_capacity,
        )
        newest = round_.memory.written - 1
        ages = random.integers(live, size=self._rows + _REFERENCE_ROWS)
        rows = round_.memory.gather((newest - ages) % round_.memory.slots)
        words = random.integers(2**32, size=2, dtype=np.uint32)
        variance, distance = self._compiled(round_.learner, round_.normaliser, round_.numbers, rows, words)
        measured = float(variance), float(distance)
        now = time.perf_counter()
        if self._is_compiled:
            self._next = now + (now - began) / _SHARE
        self._is_compiled = True
        return measured


def _program(configuration: Configuration, network: Network) -> Any:
    filled = filling(configuration)
    count = batch_rows(configuration)

    def measure(learner: Any, normaliser: Any, numbers: Array, rows: Any, words: Array) -> tuple[Array, Array]:
        settings = filled(numbers)
        theta = learner.parameters
        seen = with_estimates(network, learner.rewards, normalised(normaliser, unpack(rows)))
        batch = outer_batch(
            settings.gradients, network, seen, theta, learner.target, noise=row_noise(settings.network, words)
        )
        source = make_gradients(settings.gradients, network)
        few = batch.rows(slice(None, count))
        mean = source.mean(theta, few)[0]

        def squared_norm(row: Array) -> Array:
            gradient = source.query(theta, few.rows(row[None, None]))[0]
            dense = source.dense(jax.tree.map(lambda leaf: leaf[0], gradient))
            return optax.tree.norm(dense, squared=True)

        single = jax.lax.map(squared_norm, jnp.arange(count)).mean()
        reference = source.mean(theta, batch.rows(slice(count, None)))[0]
        distance = optax.tree.norm(jax.tree.map(jnp.subtract, mean, reference))
        return single - optax.tree.norm(mean, squared=True), distance

    return measure
