"""Gradients of composed networks on single picks, as the factors of `closed_form`.

The deltas come from automatic differentiation, with respect to zeros that are added to what every affine layer gives;
the layers' inputs are at hand. So no gradient of a layer is multiplied out before the sum that uses it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from srgdqn.config import GradientSettings
from srgdqn.learner.composed import AnyLayer, ComposedNetwork, Inputs, NoisyLayer, Norm, Taps
from srgdqn.learner.convolution import Convolution, seen
from srgdqn.learner.gradients.bellman import Batch, row_losses
from srgdqn.learner.gradients.closed_form import Factors, layer_gradient


class FactoredGradient(NamedTuple):
    """The gradient of a pick: those of the convolutions and of layer normalisation as they are, of the affine layers
    the factors.
    """

    convolutions: tuple[Convolution, ...]
    layers: tuple[Factors, ...]  # the value head's last
    scales: tuple[Factors, ...]  # of the sizes σ of noisy layers' noise
    norms: tuple[Norm, ...]


def factored_query(
    settings: GradientSettings, parameters: ComposedNetwork, picks: Batch
) -> tuple[FactoredGradient, Array, Array]:
    """For each pick of `picks` (k, b): its gradient, its mean loss and mean max_a Q."""
    if parameters.convolutions:  # one pick after the other, as in `convolutional`
        return jax.lax.map(lambda rows: _with_convolutions(settings, parameters, rows), picks)
    count, width = picks.reward.shape
    rows = jax.tree.map(lambda leaf: leaf.reshape(count * width, *leaf.shape[2:]), picks)
    next_features = rows.next_observation if rows.frozen_target is None else None
    gradient, losses, q, _ = _of_affine_layers(settings, parameters, rows, rows.observation, next_features, count)
    return gradient, losses, q


def multiply_composed_out(structure: ComposedNetwork, gradient: FactoredGradient) -> ComposedNetwork:
    """The gradient of one pick, in the form of the parameters."""
    layers: list[AnyLayer] = [layer_gradient(*each) for each in gradient.layers]
    if gradient.scales:
        scales = (layer_gradient(*each) for each in gradient.scales)
        layers = [NoisyLayer(mu.weight, mu.bias, s.weight, s.bias) for mu, s in zip(layers, scales, strict=True)]
    value = None if structure.value is None else layers.pop()
    return ComposedNetwork(
        gradient.convolutions, tuple(layers), value, gradient.norms, structure.activation, structure.atoms
    )


def _with_convolutions(
    settings: GradientSettings, parameters: ComposedNetwork, rows: Batch
) -> tuple[FactoredGradient, Array, Array]:
    def see(convolutions: tuple[Convolution, ...]) -> Array:
        return seen(convolutions, parameters.activation, rows.observation)

    features, pull_back = jax.vjp(see, parameters.convolutions)
    next_features = parameters.features(rows.next_observation) if rows.frozen_target is None else None
    gradient, losses, q, deltas = _of_affine_layers(settings, parameters, rows, features, next_features, 1)
    gradient, loss, max_q = jax.tree.map(lambda leaf: leaf[0], (gradient, losses, q))
    (convolutions,) = pull_back(deltas / len(rows.reward))
    return gradient._replace(convolutions=convolutions), loss, max_q


def _of_affine_layers(
    settings: GradientSettings,
    parameters: ComposedNetwork,
    rows: Batch,
    features: Array,
    next_features: Array | None,
    picks: int,
) -> tuple[FactoredGradient, Array, Array, Array]:
    """The gradients, mean losses and mean max_a Q of so many picks of equally many rows; and the features' deltas."""
    next_outputs = None if next_features is None else parameters.perceive(next_features, rows.next_noise)[0]

    def total(taps: Taps, x: Array) -> tuple[Array, tuple[Inputs, Array, Array]]:
        outputs, inputs = parameters.perceive(x, rows.noise, taps)
        losses, q = row_losses(settings, rows, outputs, next_outputs)
        return losses.sum(), (inputs, losses, q)

    differentiated = jax.grad(total, (0, 1), has_aux=True)
    (deltas, at_features), (inputs, losses, q) = differentiated(parameters.no_taps(len(rows.reward)), features)

    def by_pick(leaf: Array) -> Array:
        return leaf.reshape(picks, -1, *leaf.shape[1:])

    factors = tuple(Factors(by_pick(x), by_pick(d)) for x, d in zip(inputs.affine, deltas.affine, strict=True))
    scales: tuple[Factors, ...] = ()
    if rows.noise is not None and rows.noise.inputs:  # of y = ((x ∘ f(p)) σ_w + σ_b) ∘ f(q)
        noise = zip(factors, rows.noise.inputs, rows.noise.outputs, strict=True)
        scales = tuple(Factors(each.inputs * by_pick(p), each.deltas * by_pick(q)) for each, p, q in noise)
    elif any(isinstance(layer, NoisyLayer) for layer in parameters.affine_layers):  # the means alone
        scales = tuple(jax.tree.map(jnp.zeros_like, factors))
    norms = tuple(
        Norm(by_pick(d * x).mean(1), by_pick(d).mean(1)) for x, d in zip(inputs.norms, deltas.norms, strict=True)
    )
    gradient = FactoredGradient((), factors, scales, norms)
    return gradient, by_pick(losses).mean(1), by_pick(q.max(-1)).mean(1), at_features
