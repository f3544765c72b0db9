"""A convolution without padding, and its gradients, in the one layout that XLA computes fast wherever they stand.

XLA turns convolutions on a processor into that layout (channels last) by itself, but not within loops, and inner
iterations are one: there the gradients of `jax.grad` took some twenty times as long.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import equinox as eqx
import jax
from jaxtyping import Array, Float, Shaped

from srgdqn.learner.layers import ACTIVATIONS

Images: TypeAlias = Float[Array, "rows height width channels"]
Kernels: TypeAlias = Float[Array, "height width in out"]

_Residuals: TypeAlias = tuple[Array, Array]


class Convolution(eqx.Module):
    """A convolution and its biases."""

    weight: Float[Array, "out in height width"]
    bias: Float[Array, " out"]
    stride: int = eqx.field(static=True)

    def __call__(self, x: Images) -> Images:
        """The convolution of rows of images, channels last."""
        return convolve(x, self.weight.transpose(2, 3, 1, 0), self.stride) + self.bias


def seen(
    convolutions: tuple[Convolution, ...], activation: str, x: Shaped[Array, "*rows channels height width"]
) -> Float[Array, "*rows features"]:
    """What convolutions, each followed by the activation, make of images of numbers from 0 to 255, flattened channels
    first.
    """
    rows = x.shape[:-3]
    x = x.reshape(-1, *x.shape[-3:]).transpose(0, 2, 3, 1).astype(convolutions[0].weight.dtype) / 255
    for convolution in convolutions:
        x = ACTIVATIONS[activation].value(convolution(x))
    return x.transpose(0, 3, 1, 2).reshape(*rows, -1)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(x: Images, kernels: Kernels, stride: int) -> Images:
    """Y[h, w, o] = Σ_{i, j, c} x[stride·h + i, stride·w + j, c] · kernels[i, j, c, o], of every row."""
    return _convolution(x, kernels, strides=stride)


def _forward(x: Images, kernels: Kernels, stride: int) -> tuple[Images, _Residuals]:
    return convolve(x, kernels, stride), (x, kernels)


def _backward(stride: int, residuals: _Residuals, deltas: Images) -> tuple[Images, Kernels]:
    x, kernels = residuals
    sides = kernels.shape[:2]
    used = [stride * (count - 1) + side for count, side in zip(deltas.shape[1:3], sides, strict=True)]
    unused = [side - part for side, part in zip(x.shape[1:3], used, strict=True)]  # beyond the last whole stride
    # Δkernels[i, j, c, o]: the deltas are the kernel, and rows and channels change places.
    across = _convolution(
        x[:, : used[0], : used[1]].transpose(3, 1, 2, 0), deltas.transpose(1, 2, 0, 3), kernel_dilation=stride
    )
    # Δx: the kernels turned by half a turn, over deltas that lie a stride apart.
    padding = [(side - 1, side - 1 + rest) for side, rest in zip(sides, unused, strict=True)]
    turned = kernels[::-1, ::-1].transpose(0, 1, 3, 2)
    return _convolution(deltas, turned, image_dilation=stride, padding=padding), across.transpose(1, 2, 0, 3)


convolve.defvjp(_forward, _backward)


def _convolution(
    x: Array,
    kernels: Array,
    *,
    strides: int = 1,
    image_dilation: int = 1,
    kernel_dilation: int = 1,
    padding: str | list[tuple[int, int]] = "VALID",
) -> Array:
    return jax.lax.conv_general_dilated(
        x,
        kernels,
        (strides, strides),
        padding,
        lhs_dilation=(image_dilation, image_dilation),
        rhs_dilation=(kernel_dilation, kernel_dilation),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
