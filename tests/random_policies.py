"""Policies of random numbers, and Q-values computed another way: in double precision, sum by sum."""

import itertools
from typing import Any

import numpy as np

import numpy_cnn
from srgdqn.integrations.numpy_policy import PlainPolicy

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
    kind: str = "vector",
    normalised: bool = False,
    dtype: Any = np.float32,
) -> PlainPolicy:
    """Layers of the given sizes, input and output included."""
    draw = _drawing(seed, dtype)
    arrays = {}
    for index, (a, b) in enumerate(itertools.pairwise(sizes)):
        arrays |= {f"layers.{index}.weight": draw(a, b) / dtype(a**0.5), f"layers.{index}.bias": draw(b)}
    if normalised:
        arrays |= {"mean": draw(sizes[0]), "deviation": abs(draw(sizes[0])) + dtype(0.5)}
    about = {"algorithm": "srg-dqn", "task": "Somewhere", "round": "3", "configuration": "0123456789abcdef"}
    return PlainPolicy(arrays, activation=activation, strides=(), kind=kind, shape=sizes[:1], about=about)


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
) -> PlainPolicy:
    """The convolutional network with other numbers, of which there are fewer if so asked."""
    draw = _drawing(seed, np.float32)
    arrays = {}
    inputs, *sides = shape
    for index, (outputs, window, stride) in enumerate(zip(channels, windows, STRIDES, strict=True)):
        spread = np.float32((2 / (inputs * window**2)) ** 0.5)
        arrays[f"convolutions.{index}.weight"] = draw(outputs, inputs, window, window) * spread
        arrays[f"convolutions.{index}.bias"] = draw(outputs) / 10
        inputs, sides = outputs, [(side - window) // stride + 1 for side in sides]
    width = inputs * sides[0] * sides[1]
    arrays |= {
        "layers.0.weight": draw(width, hidden) * np.float32((2 / width) ** 0.5),
        "layers.0.bias": draw(hidden) / 10,
        "layers.1.weight": draw(hidden, actions) / np.float32(hidden**0.5),
        "layers.1.bias": draw(actions),
    }
    if normalised:
        arrays |= {"mean": 100 + 10 * draw(*shape), "deviation": abs(draw(*shape)) + np.float32(0.5)}
    return PlainPolicy(arrays, activation=activation, strides=STRIDES, kind="image", shape=shape)


def exact(policy: PlainPolicy, observations: np.ndarray) -> np.ndarray:
    """The Q-values in double precision."""
    x = np.asarray(observations, np.float64)
    if policy.kind == "one-hot":
        x = (np.asarray(observations)[:, None] == np.arange(policy.shape[0])).astype(np.float64)
    arrays = {name: array.astype(np.float64) for name, array in policy.arrays.items()}
    if "mean" in arrays:
        x = (x - arrays["mean"]) / arrays["deviation"]
    if policy.kind == "image":
        x = x / 255
    for index, stride in enumerate(policy.strides):
        weight, bias = arrays[f"convolutions.{index}.weight"], arrays[f"convolutions.{index}.bias"]
        x = ACTIVATIONS[policy.activation](numpy_cnn.convolve(x, weight, bias, stride))
    x = x.reshape(len(x), -1)
    for index in range(policy.layers):
        x = np.einsum("ri,io->ro", x, arrays[f"layers.{index}.weight"]) + arrays[f"layers.{index}.bias"]
        if index < policy.layers - 1:
            x = ACTIVATIONS[policy.activation](x)
    return x


def clear(values: np.ndarray, tolerance: float) -> np.ndarray:
    """Which rows have a best action that rounding cannot change."""
    best, second = np.sort(values, axis=1)[:, :-3:-1].T
    return best - second > tolerance


def _drawing(seed: int, dtype: Any) -> Any:
    generator = np.random.default_rng(seed)
    return lambda *shape: generator.normal(size=shape).astype(dtype)
