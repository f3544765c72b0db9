"""Policies of random numbers, and Q-values computed another way: in double precision, sum by sum."""

import itertools
from typing import Any

import numpy as np

from srgdqn.integrations.policy import (
    Convolution,
    Kind,
    Layer,
    Observation,
    Policy,
    Scale,
)

STRIDES = (4, 2, 1)  # Mnih et al. 2015, written out here

ACTIVATIONS = {
    "relu": lambda x: np.where(x > 0, x, 0.0),
    "tanh": lambda x: 1 - 2 / (np.exp(2 * x) + 1),
    "softplus": lambda x: np.log(1 + np.exp(x)),
}


def perceptron(
    sizes: tuple[int, ...],
    activation: str = "relu",
    *,
    seed: int = 0,
    kind: Kind = "vector",
    normalised: bool = False,
    dtype: Any = np.float32,
) -> Policy:
    """Layers of the given sizes, input and output included."""
    draw = _drawing(seed, dtype)
    layers = tuple(Layer(draw(a, b) / dtype(a**0.5), draw(b)) for a, b in itertools.pairwise(sizes))
    scale = Scale(draw(sizes[0]), abs(draw(sizes[0])) + dtype(0.5)) if normalised else None
    about = {"algorithm": "srg-dqn", "task": "Somewhere", "round": "3", "configuration": "0123456789abcdef"}
    return Policy(layers, activation, Observation(kind, sizes[:1]), scale=scale, about=about)


def convolutional(
    shape: tuple[int, int, int] = (4, 84, 84),
    *,
    channels: tuple[int, int, int] = (32, 64, 64),
    windows: tuple[int, int, int] = (8, 4, 3),
    hidden: int = 512,
    actions: int = 6,
    activation: str = "relu",
    seed: int = 0,
    normalised: bool = False,
) -> Policy:
    """The convolutional network with other numbers, of which there are fewer if so asked."""
    draw = _drawing(seed, np.float32)
    convolutions = []
    inputs, *sides = shape
    for outputs, window, stride in zip(channels, windows, STRIDES, strict=True):
        spread = np.float32((2 / (inputs * window**2)) ** 0.5)
        convolutions.append(Convolution(draw(outputs, inputs, window, window) * spread, draw(outputs) / 10, stride))
        inputs, sides = outputs, [(side - window) // stride + 1 for side in sides]
    width = inputs * sides[0] * sides[1]
    layers = (
        Layer(draw(width, hidden) * np.float32((2 / width) ** 0.5), draw(hidden) / 10),
        Layer(draw(hidden, actions) / np.float32(hidden**0.5), draw(actions)),
    )
    scale = Scale(100 + 10 * draw(*shape), abs(draw(*shape)) + np.float32(0.5)) if normalised else None
    return Policy(layers, activation, Observation("image", shape), tuple(convolutions), scale)


def exact(policy: Policy, observations: np.ndarray) -> np.ndarray:
    """The Q-values in double precision."""
    x = np.asarray(observations, np.float64)
    if policy.observation.kind == "one-hot":
        x = (np.asarray(observations)[:, None] == np.arange(policy.observation.shape[0])).astype(np.float64)
    if policy.scale is not None:
        x = (x - policy.scale.mean.astype(np.float64)) / policy.scale.deviation.astype(np.float64)
    if policy.observation.kind == "image":
        x = x / 255
    for part in policy.convolutions:
        x = ACTIVATIONS[policy.activation](_convolved(x, part))
    x = x.reshape(len(x), -1)
    for index, layer in enumerate(policy.layers):
        x = np.einsum("ri,io->ro", x, layer.weight.astype(np.float64)) + layer.bias
        if index < len(policy.layers) - 1:
            x = ACTIVATIONS[policy.activation](x)
    return x


def clear(values: np.ndarray, tolerance: float) -> np.ndarray:
    """Which rows have a best action that rounding cannot change."""
    best, second = np.sort(values, axis=1)[:, :-3:-1].T
    return best - second > tolerance


def _convolved(x: np.ndarray, part: Convolution) -> np.ndarray:
    """Place by place of the window: each weight times the pixels that it ever lies upon."""
    _, _, tall, wide = part.weight.shape
    high, across = ((side - window) // part.stride + 1 for side, window in zip(x.shape[2:], (tall, wide), strict=True))
    total = np.zeros((len(x), len(part.weight), high, across)) + part.bias[:, None, None]
    for down in range(tall):
        for along in range(wide):
            rows = slice(down, down + part.stride * (high - 1) + 1, part.stride)
            columns = slice(along, along + part.stride * (across - 1) + 1, part.stride)
            weight = part.weight[:, :, down, along].astype(np.float64)
            total += np.einsum("oi,rihw->rohw", weight, x[:, :, rows, columns])
    return total


def _drawing(seed: int, dtype: Any) -> Any:
    generator = np.random.default_rng(seed)
    return lambda *shape: generator.normal(size=shape).astype(dtype)
