"""The Bellman loss of transitions and its gradients, in closed form or by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array

from srgdqn.config import GradientSettings
from srgdqn.errors import InputError
from srgdqn.learner.gradients.autodiff import autodiff_mean
from srgdqn.learner.gradients.bellman import (
    BEYOND,
    REFERENCE,
    Batch,
    RowNoise,
    Transitions,
    make_batch,
    outer_batch,
    row_noise,
    target_parameters,
)
from srgdqn.learner.gradients.closed_form import closed_form_mean, closed_form_query, multiply_out
from srgdqn.learner.gradients.convolutional import convolutional_mean, convolutional_query, multiply_layers_out
from srgdqn.learner.gradients.factored import factored_query, multiply_composed_out
from srgdqn.learner.networks import CNN, MLP, ComposedNetwork, Network, Parameters

__all__ = [
    "BEYOND",
    "REFERENCE",
    "Batch",
    "Compact",
    "GradientSource",
    "RowNoise",
    "Transitions",
    "make_batch",
    "make_gradients",
    "outer_batch",
    "row_noise",
    "target_parameters",
]

Compact = Any
"""A gradient in its source's cheapest form; `GradientSource.dense` gives it that of the parameters."""


class GradientSource(NamedTuple):
    """The gradients of one network; estimators get theirs from nowhere else.

    `query` takes parameters and picks of shape (k, b) and gives k compact gradients, each the mean over b transitions,
    with their mean losses and mean max_a Q. `dense` takes one compact gradient to the form of the parameters. `mean`
    gives the full gradient on a batch (line 5 of Algorithm 1), its mean loss and its mean max_a Q.
    """

    query: Callable[[Parameters, Batch], tuple[Compact, Array, Array]]
    dense: Callable[[Compact], Parameters]
    mean: Callable[[Parameters, Batch], tuple[Parameters, Array, Array]]


def make_gradients(settings: GradientSettings, network: Network) -> GradientSource:
    """The gradients of a network: of the plain built-in ones in closed form (not the convolutions), of those with parts
    as factors, of others by autodiff.
    """
    method = settings.differentiation
    if method == "closed-form" and not network.is_mlp:
        raise InputError(
            "differentiation='closed-form' needs the built-in perceptron, and the network given is another module. "
            "Use differentiation='auto' or 'autodiff'."
        )
    # Of exactly these classes: a subclass may compute something else.
    kind = type(network.structure)
    if kind is MLP and method != "autodiff":
        return GradientSource(
            lambda theta, picks: closed_form_query(settings, theta, picks),
            lambda factors: multiply_out(network.structure, factors),
            lambda theta, batch: closed_form_mean(settings, theta, batch),
        )
    if kind is CNN and method != "autodiff":
        return GradientSource(
            lambda theta, picks: convolutional_query(settings, theta, picks),
            lambda gradient: multiply_layers_out(network.structure, gradient),
            lambda theta, batch: convolutional_mean(settings, theta, batch),
        )
    if kind is ComposedNetwork and method != "autodiff":
        return GradientSource(
            lambda theta, picks: factored_query(settings, theta, picks),
            lambda gradient: multiply_composed_out(network.structure, gradient),
            lambda theta, batch: autodiff_mean(settings, network, theta, batch),
        )
    return GradientSource(
        lambda theta, picks: jax.vmap(lambda rows: autodiff_mean(settings, network, theta, rows))(picks),
        lambda gradient: gradient,
        lambda theta, batch: autodiff_mean(settings, network, theta, batch),
    )
