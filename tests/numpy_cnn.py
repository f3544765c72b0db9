"""The convolutional network once more, in NumPy and double precision, from its definition."""

from __future__ import annotations

from typing import Any

import numpy as np

ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}


def convolve(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    """One image (C, H, W), one output number at a time."""
    kernel = weight.shape[2]
    height, width = ((side - kernel) // stride + 1 for side in x.shape[1:])
    y = np.empty((len(weight), height, width))
    for h in range(height):
        for w in range(width):
            window = x[:, stride * h : stride * h + kernel, stride * w : stride * w + kernel]
            y[:, h, w] = (weight * window).sum((1, 2, 3)) + bias
    return y


def q_values(parameters: Any, image: np.ndarray) -> np.ndarray:
    """The Q-values of one image (C, H, W) by a module's parameters."""
    activation = ACTIVATIONS[parameters.activation]
    x = np.asarray(image, np.float64) / 255
    for convolution in parameters.convolutions:
        x = activation(convolve(x, np.asarray(convolution.weight), np.asarray(convolution.bias), convolution.stride))
    x = x.ravel()
    *hidden, last = parameters.layers
    for layer in hidden:
        x = activation(x @ np.asarray(layer.weight) + np.asarray(layer.bias))
    return x @ np.asarray(last.weight) + np.asarray(last.bias)
