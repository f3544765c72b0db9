"""Greedy actions on the host: a small perceptron in NumPy, which is faster than a compiled call for a single row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from srgdqn.config.options import VARIANCE_FLOOR
from srgdqn.learner.networks import MLP, Network, Parameters
from srgdqn.learner.normalisation import Normaliser, Scale


class GreedyPolicy(Protocol):
    """The best actions by parameters that change after every outer iteration."""

    def update(self, parameters: Parameters, normaliser: Normaliser) -> None:
        """Sets the parameters, and what observations are normalised with."""

    def one(self, observation: np.ndarray, mask: np.ndarray | None = None) -> int:
        """The best action for one observation, among those that a mask allows."""

    def rows(self, observations: np.ndarray, masks: np.ndarray | None = None) -> np.ndarray:
        """The best action for each of several."""


def greedy_policy(network: Network, compiled: Callable[..., Any]) -> GreedyPolicy:
    """A policy of the network: in NumPy if it is the built-in perceptron, else by the compiled function from
    parameters, statistics, rows of observations and (where they are given) of masks to actions.
    """
    return NumPyPolicy(network.structure.activation) if network.is_mlp else CompiledPolicy(compiled)


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, _ZERO, out=x)


def _tanh(x: np.ndarray) -> np.ndarray:
    return np.tanh(x, out=x)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, _ZERO, out=x)


_ZERO = np.float32(0)  # a Python number would have its type looked up at every call
_ACTIVATIONS = {"relu": _relu, "tanh": _tanh, "softplus": _softplus}


class NumPyPolicy:
    """The built-in perceptron, computed layer by layer into the same arrays."""

    def __init__(self, activation: str) -> None:
        self._activation = _ACTIVATIONS[activation]
        self._layers: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._mean: np.ndarray | None = None
        self._scale: np.ndarray | None = None

    def update(self, parameters: MLP, normaliser: Normaliser) -> None:
        """Sets the parameters."""
        arrays = [(np.asarray(layer.weight), np.asarray(layer.bias)) for layer in parameters.layers]
        if not self._layers:
            self._layers = [(weight, bias, np.empty_like(bias)) for weight, bias in arrays]
        else:
            self._layers = [(*new, old[2]) for new, old in zip(arrays, self._layers, strict=True)]
        if normaliser.observations is not None:
            self._mean, self._scale = normalising(normaliser)

    def one(self, observation: np.ndarray, mask: np.ndarray | None = None) -> int:
        """The best action for one observation."""
        x = observation if self._mean is None else (observation - self._mean) / self._scale
        activation, (*hidden, last) = self._activation, self._layers
        for weight, bias, out in hidden:
            np.dot(x, weight, out)
            out += bias
            x = activation(out)
        weight, bias, out = last
        np.dot(x, weight, out)
        out += bias
        return int(out.argmax() if mask is None else np.where(mask, out, -np.inf).argmax())

    def rows(self, observations: np.ndarray, masks: np.ndarray | None = None) -> np.ndarray:
        """The best action for each of several: one by one, as a product of matrices may round otherwise."""
        if masks is None:
            return np.array([self.one(row) for row in observations])
        return np.array([self.one(row, mask) for row, mask in zip(observations, masks, strict=True)])


class CompiledPolicy:
    """Any network, by its compiled program."""

    def __init__(self, compiled: Callable[..., Any]) -> None:
        self._compiled = compiled
        self._parameters: Parameters = None
        self._normaliser: Any = None

    def update(self, parameters: Parameters, normaliser: Normaliser) -> None:
        """Sets the parameters."""
        self._parameters, self._normaliser = parameters, normaliser

    def one(self, observation: np.ndarray, mask: np.ndarray | None = None) -> int:
        """The best action for one observation."""
        return int(self.rows(observation[None], None if mask is None else mask[None])[0])

    def rows(self, observations: np.ndarray, masks: np.ndarray | None = None) -> np.ndarray:
        """The best action for each of several."""
        given = (observations,) if masks is None else (observations, masks)
        return np.asarray(self._compiled(self._parameters, self._normaliser, *given))


def normalising(normaliser: Normaliser) -> tuple[np.ndarray, np.ndarray]:
    """The mean that is subtracted from an observation, and the deviation that it is then divided by."""
    seen = normaliser.observations
    assert seen is not None
    if isinstance(seen, Scale):
        return np.asarray(seen.mean), np.asarray(seen.deviation)
    return np.asarray(seen.mean), np.sqrt(np.asarray(seen.variance) + np.float32(VARIANCE_FLOOR))
