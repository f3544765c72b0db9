"""The gradient over many recorded transitions: what the paper calls exact."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from srgdqn.config import Configuration
from srgdqn.learner.gradients import make_batch, make_gradients
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.replay import unpack

_PIECE = 1_000  # rows whose activations are held at once, so that they stay in the processor's cache


def exact_gradient(
    configuration: Configuration, network: Network, theta: Parameters, rows: Float[Array, "count width"]
) -> Parameters:
    """The mean gradient at θ over packed transitions, with y at the same θ."""
    settings = configuration.gradients
    source = make_gradients(settings, network)

    def total(piece: Float[Array, "rows width"]) -> Parameters:
        mean, _, _ = source.mean(theta, make_batch(settings, network, unpack(piece), None))
        return jax.tree.map(lambda leaf: leaf * piece.shape[0], mean)

    def add(sums: Parameters, piece: Float[Array, "rows width"]) -> tuple[Parameters, None]:
        return jax.tree.map(jnp.add, sums, total(piece)), None

    count = rows.shape[0]
    whole = count // _PIECE * _PIECE
    sums = jax.tree.map(jnp.zeros_like, theta)
    sums, _ = jax.lax.scan(add, sums, rows[:whole].reshape(-1, _PIECE, rows.shape[1]))
    if whole < count:
        sums, _ = add(sums, rows[whole:])
    return jax.tree.map(lambda leaf: leaf / count, sums)
