"""A greedy policy that needs nothing but NumPy. Its text is also the beginning of every policy exported as Python."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class PlainPolicy:
    """From an observation to the index of an action, or from rows of observations to indices.

    Args:
      arrays: `layers.0.weight` (inputs first), `layers.0.bias` and so on; `convolutions.0.weight` (output and input
        channels, height, width) and `.bias`; `mean` and `deviation` where observations are normalised;
        `norms.0.gain` and `.shift` where layers are; `value.weight` and `.bias` of a dueling network's value head.
      activation: what follows every convolution, and every layer but the last.
      strides: of each convolution.
      kind: what is observed: a `vector`, an `image` (channels first, 0 to 255), or the index of a `one-hot` vector.
      shape: of one observation, as the network sees it: (size,), or (channels, height, width).
      about: names and texts about its origin.

    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        *,
        activation: str,
        strides: Sequence[int],
        kind: str,
        shape: Sequence[int],
        about: Mapping[str, str] | None = None,
    ) -> None:
        self.arrays, self.activation, self.strides = dict(arrays), activation, tuple(strides)
        self.kind, self.shape, self.about = kind, tuple(shape), dict(about or {})
        self.layers = sum(name.startswith("layers.") and name.endswith(".weight") for name in self.arrays)
        self.actions = self.arrays[f"layers.{self.layers - 1}.bias"].size
        self._dtype = self.arrays["layers.0.weight"].dtype

    def __call__(self, observation: Any) -> Any:
        """The action of an observation (an int), or the actions of rows of them."""
        rows, single = self._rows(observation)
        actions = self._forward(rows).argmax(-1)
        return int(actions[0]) if single else actions

    def q_values(self, observation: Any) -> np.ndarray:
        """The Q-values of an observation, or of rows of them."""
        rows, single = self._rows(observation)
        values = self._forward(rows)
        return values[0] if single else values

    def _rows(self, observation: Any) -> tuple[np.ndarray, bool]:
        """Observations as rows of the shape that the network reads, and whether there was only one."""
        given, size = np.asarray(observation), math.prod(self.shape)
        if self.kind == "one-hot" and np.issubdtype(given.dtype, np.integer) and given.ndim < 2:
            if ((given < 0) | (given >= size)).any():
                raise ValueError(f"the observation is {observation!r}, but the policy expects 0 to {size - 1}.")
            hot = np.zeros((given.size, size), self._dtype)
            hot[np.arange(given.size), given.reshape(-1)] = 1
            return hot, given.ndim == 0
        if self.kind == "image":
            return self._images(given)
        if given.ndim >= 2 and math.prod(given.shape[1:]) == size:
            return given.reshape(-1, size).astype(self._dtype), False
        if given.ndim >= 1 and given.size == size:
            return given.reshape(1, size).astype(self._dtype), True
        raise ValueError(f"the observation has shape {given.shape}; the policy expects ({size},), or (rows, {size}).")

    def _images(self, given: np.ndarray) -> tuple[np.ndarray, bool]:
        """Images are never reshaped: one with its channels last has as many numbers, and would become another image."""
        if given.shape == self.shape:
            return given[None].astype(self._dtype), True
        if given.shape[1:] == self.shape:
            return given.astype(self._dtype), False
        row = ", ".join(map(str, self.shape))
        raise ValueError(
            f"the observation has shape {given.shape}; the policy expects an image of shape ({row}), which are its "
            f"channels, height and width, or (rows, {row}). Channels that come last are moved by np.moveaxis(image, "
            "-1, -3)."
        )

    def _forward(self, x: np.ndarray) -> np.ndarray:
        arrays = self.arrays
        if "mean" in arrays:
            x = (x - arrays["mean"]) / arrays["deviation"]
        if self.kind == "image":
            x = x / np.asarray(255, self._dtype)
        for index, stride in enumerate(self.strides):
            weight, bias = arrays[f"convolutions.{index}.weight"], arrays[f"convolutions.{index}.bias"]
            x = _activate(_convolve(x, weight, stride) + bias[:, None, None], self.activation)
        x = x.reshape(len(x), math.prod(x.shape[1:]))
        for index in range(self.layers - 1):
            x = x @ arrays[f"layers.{index}.weight"] + arrays[f"layers.{index}.bias"]
            if f"norms.{index}.gain" in arrays:
                x = _standardised(x) * arrays[f"norms.{index}.gain"] + arrays[f"norms.{index}.shift"]
            x = _activate(x, self.activation)
        q = x @ arrays[f"layers.{self.layers - 1}.weight"] + arrays[f"layers.{self.layers - 1}.bias"]
        if "value.weight" in arrays:
            q = x @ arrays["value.weight"] + arrays["value.bias"] + q - q.mean(-1, keepdims=True)
        return q


def _activate(x: np.ndarray, name: str) -> np.ndarray:
    if name == "tanh":
        return np.tanh(x)
    return np.logaddexp(x, np.zeros((), x.dtype)) if name == "softplus" else np.maximum(x, 0)


def _standardised(x: np.ndarray) -> np.ndarray:
    """Every row with mean 0 and variance 1."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + np.asarray(1e-5, x.dtype))


def _convolve(x: np.ndarray, weight: np.ndarray, stride: int) -> np.ndarray:
    """Rows of images seen through a window that stays inside them (a cross-correlation, as networks have it)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.moveaxis(np.tensordot(windows, weight, axes=((1, 4, 5), (1, 2, 3))), -1, 1)
