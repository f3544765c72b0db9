"""The convolutional network once more, in NumPy and double precision, from its definition."""

from __future__ import annotations

from typing import Any

import numpy as np

ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}


def convolve(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    """Images (rows, C, H, W), place by place of the window: each weight times the pixels that it ever lies upon."""
    _, _, tall, wide = weight.shape
    high, across = ((side - window) // stride + 1 for side, window in zip(x.shape[2:], (tall, wide), strict=True))
    total = np.zeros((len(x), len(weight), high, across)) + bias[:, None, None]
    for down in range(tall):
        for along in range(wide):
            rows = slice(down, down + stride * (high - 1) + 1, stride)
            columns = slice(along, along + stride * (across - 1) + 1, stride)
            total += np.einsum("oi,rihw->rohw", weight[:, :, down, along], x[:, :, rows, columns])
    return total


def q_values(parameters: Any, image: np.ndarray) -> np.ndarray:
    """The Q-values of one image (C, H, W) by a module's parameters."""
    activation = ACTIVATIONS[parameters.activation]
    x = np.asarray(image, np.float64)[None] / 255
    for convolution in parameters.convolutions:
        x = activation(convolve(x, np.asarray(convolution.weight), np.asarray(convolution.bias), convolution.stride))
    x = x.ravel()
    *hidden, last = parameters.layers
    for layer in hidden:
        x = activation(x @ np.asarray(layer.weight) + np.asarray(layer.bias))
    return x @ np.asarray(last.weight) + np.asarray(last.bias)
