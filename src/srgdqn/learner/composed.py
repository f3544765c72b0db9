"""A built-in network with parts beside its layers: a dueling head, layer normalisation, dropout, noisy layers, several
outputs per action.

It is made around the plain network, which has the same layers from the same random key. A network without any of these
parts stays the plain one, whose gradients have a closed form.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from srgdqn.config import NetworkSettings
from srgdqn.learner.convolution import Convolution, seen
from srgdqn.learner.layers import ACTIVATIONS, Layer, draw_layer

_FLOOR = 1e-5  # added to a variance that is divided by, as PyTorch does

# What is folded into the key of a network's initialisation, which the plain network splits.
_VALUE_HEAD = 2**32 - 1


class Norm(eqx.Module):
    """Layer normalisation (Ba et al. 2016): mean 0 and variance 1 over the units, then a gain and a shift of each."""

    gain: Float[Array, " units"]
    shift: Float[Array, " units"]


def standardised(x: Float[Array, "*rows units"]) -> Float[Array, "*rows units"]:
    """The units with mean 0 and variance 1, row by row."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + _FLOOR)


class NoisyLayer(eqx.Module):
    """An affine map whose weights are μ_w + σ_w ∘ f(p) f(q)ᵀ and whose biases are μ_b + σ_b ∘ f(q) (Fortunato et al.
    2018, equations 9 to 11): factorised Gaussian noise.
    """

    weight: Float[Array, "inputs outputs"]  # μ
    bias: Float[Array, " outputs"]
    weight_scale: Float[Array, "inputs outputs"]  # σ
    bias_scale: Float[Array, " outputs"]


AnyLayer: TypeAlias = Layer | NoisyLayer


class Noise(NamedTuple):
    """What is random in a network, row by row; an empty tuple where the network has no such part."""

    inputs: tuple[Float[Array, "*rows inputs"], ...] = ()  # f(p) of each layer
    outputs: tuple[Float[Array, "*rows outputs"], ...] = ()  # f(q) of each layer
    masks: tuple[Float[Array, "*rows units"], ...] = ()  # of each hidden layer: 0 for a unit that is dropped


class Taps(NamedTuple):
    """Numbers added within a network, by which the loss is differentiated: with respect to them its derivatives are the
    deltas of every row. Zeros, which change nothing.
    """

    affine: tuple[Float[Array, "rows outputs"], ...]  # to what each affine layer gives
    norms: tuple[Float[Array, "rows units"], ...]  # to what each layer normalisation gives


class Inputs(NamedTuple):
    """What the parts of a network were given: with the deltas, the factors of its gradients."""

    affine: tuple[Float[Array, "rows inputs"], ...]
    norms: tuple[Float[Array, "rows units"], ...]  # standardised


class ComposedNetwork(eqx.Module):
    """Convolutions, if any, and affine layers; works on one observation or on rows of them.

    The last of `layers` gives the Q-values, or, where there is a `value` head, the advantages.
    """

    convolutions: tuple[Convolution, ...]
    layers: tuple[AnyLayer, ...]
    value: AnyLayer | None
    norms: tuple[Norm, ...]  # of the hidden layers
    activation: str = eqx.field(static=True)
    atoms: int = eqx.field(static=True)  # outputs per action
    takes_rows: ClassVar[bool] = True

    def __call__(self, x: Shaped[Array, "*rows *shape"], noise: Noise | None = None) -> Float[Array, "*rows outputs"]:
        """The Q-values of the observations `x`, or, with several atoms, rows of logits for each action. Without noise
        it is the network of the means μ, and nothing is dropped.
        """
        return self.perceive(self.features(x), noise)[0]

    def features(self, x: Shaped[Array, "*rows *shape"]) -> Float[Array, "*rows features"]:
        """What the affine layers are given."""
        return seen(self.convolutions, self.activation, x) if self.convolutions else x

    def perceive(
        self, x: Float[Array, "*rows features"], noise: Noise | None = None, taps: Taps | None = None
    ) -> tuple[Float[Array, "*rows outputs"], Inputs]:
        """What the affine layers make of features, and what each of their parts was given."""
        given: tuple[list[Array], list[Array]] = ([], [])

        def affine(x: Array) -> Array:
            index = len(given[0])
            given[0].append(x)
            y = _affine(self.affine_layers[index], x, noise, index)
            return y if taps is None else y + taps.affine[index]

        for index in range(len(self.layers) - 1):
            x = affine(x)
            if self.norms:
                x = standardised(x)
                given[1].append(x)
                x = x * self.norms[index].gain + self.norms[index].shift
                x = x if taps is None else x + taps.norms[index]
            x = ACTIVATIONS[self.activation].value(x)
            if noise is not None and noise.masks:
                x = x * noise.masks[index]
        out = affine(x)
        out = out.reshape(*out.shape[:-1], -1, self.atoms)
        if self.value is not None:  # Q = V + A - mean_a A (Wang et al. 2016, equation 9), atom by atom
            out = affine(x)[..., None, :] + out - out.mean(-2, keepdims=True)
        return out[..., 0] if self.atoms == 1 else out, Inputs(*map(tuple, given))

    @property
    def affine_layers(self) -> tuple[AnyLayer, ...]:
        """The layers, and the value head where there is one."""
        return self.layers if self.value is None else (*self.layers, self.value)

    def no_taps(self, rows: int) -> Taps:
        """Zeros for as many rows."""
        return Taps(
            *(
                tuple(jnp.zeros((rows, *each.shape), each.dtype) for each in shapes)
                for shapes in ([layer.bias for layer in self.affine_layers], [norm.shift for norm in self.norms])
            )
        )

    def draw_noise(self, key: PRNGKeyArray, rows: tuple[int, ...], dropout: Array | float | None = None) -> Noise:
        """Noise for rows: for noisy layers, and the masks of hidden units that are dropped with that probability.

        Each row's p and q are standard normal. Their sizes are drawn once, and their signs for every row: what two rows
        have is uncorrelated (flipout, Wen et al. 2018), at the price of a bit per number. Units that stay are
        multiplied by 1/(1 - `dropout`), so that their mean is what it is without masks.
        """
        size_key, sign_key, mask_key = jax.random.split(key, 3)
        inputs: tuple[Array, ...] = ()
        outputs: tuple[Array, ...] = ()
        masks: tuple[Array, ...] = ()
        layers = [layer for layer in self.affine_layers if isinstance(layer, NoisyLayer)]
        if layers:
            sizes = [size for layer in layers for size in layer.weight.shape]
            drawn = jnp.sqrt(jnp.abs(jax.random.normal(size_key, (sum(sizes),), layers[0].weight.dtype)))
            drawn = jax.lax.optimization_barrier(drawn)  # computed once, and not anew for every row
            factors = _split(jnp.where(_coins(sign_key, rows, sum(sizes)), drawn, -drawn), sizes)  # f(x) = sign(x)√|x|
            inputs, outputs = tuple(factors[::2]), tuple(factors[1::2])
        if dropout is not None:
            sizes = [layer.bias.shape[0] for layer in self.layers[:-1]]
            dtype = self.layers[-1].bias.dtype
            stays = _sixteen_bits(mask_key, rows, sum(sizes)) >= jnp.asarray(dropout, dtype) * 2**16
            masks = tuple(_split(stays / jnp.asarray(1 - dropout, dtype), sizes))
        return Noise(inputs, outputs, masks)

    def perturbed(self, key: PRNGKeyArray) -> ComposedNetwork:
        """The network whose means are the weights and biases of one draw of noise: to act by."""
        noise = self.draw_noise(key, ())
        shifted = tuple(
            _shifted(layer, p, q) for layer, p, q in zip(self.affine_layers, noise.inputs, noise.outputs, strict=True)
        )
        layers, value = (shifted, None) if self.value is None else (shifted[:-1], shifted[-1])
        return ComposedNetwork(self.convolutions, layers, value, self.norms, self.activation, self.atoms)


def _affine(layer: AnyLayer, x: Float[Array, "*rows inputs"], noise: Noise | None, index: int) -> Array:
    """The affine map of rows. The product with factorised noise is that of x ∘ f(p) with σ, times f(q): each row has
    noise of its own at the price of a second product.
    """
    y = x @ layer.weight + layer.bias
    if not isinstance(layer, NoisyLayer) or noise is None:
        return y
    p, q = noise.inputs[index], noise.outputs[index]
    return y + ((x * p) @ layer.weight_scale + layer.bias_scale) * q


def _shifted(layer: AnyLayer, p: Float[Array, " inputs"], q: Float[Array, " outputs"]) -> NoisyLayer:
    assert isinstance(layer, NoisyLayer)
    weight, bias = layer.weight + layer.weight_scale * jnp.outer(p, q), layer.bias + layer.bias_scale * q
    return NoisyLayer(weight, bias, layer.weight_scale, layer.bias_scale)


def _coins(key: PRNGKeyArray, rows: tuple[int, ...], count: int) -> Array:
    """True or False, as likely: a bit of a random word each."""
    many = math.prod(rows)
    words = jax.random.bits(key, (-(-many // 32), 1, count), jnp.uint32)  # 32 rows share the words
    coins = (words >> jnp.arange(32, dtype=jnp.uint32)[:, None]) & 1
    return coins.reshape(-1, count)[:many].reshape(*rows, count).astype(bool)


def _sixteen_bits(key: PRNGKeyArray, rows: tuple[int, ...], count: int) -> Array:
    """Whole numbers below 2^16, two of a random word."""
    words = jax.random.bits(key, (*rows, -(-count // 2)), jnp.uint32)
    return jnp.concatenate([words >> 16, words & 0xFFFF], axis=-1)[..., :count].astype(jnp.int32)


def _split(drawn: Array, sizes: list[int]) -> list[Array]:
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    return [drawn[..., end - size : end] for end, size in zip(ends, sizes, strict=True)]


def compose(settings: NetworkSettings, plain: eqx.Module, atoms: int, *, key: PRNGKeyArray) -> ComposedNetwork:
    """The network with the parts of the settings around a plain one, whose random key is `key`."""
    convolutions: tuple[Convolution, ...] = getattr(plain, "convolutions", ())
    layers: tuple[AnyLayer, ...] = plain.layers  # type: ignore[attr-defined]  # every built-in network has them
    value: AnyLayer | None = None
    if settings.dueling:
        inputs = layers[-1].weight.shape[0]
        value = Layer(*draw_layer(settings, jax.random.fold_in(key, _VALUE_HEAD), inputs, atoms))
    norms: tuple[Norm, ...] = ()
    if settings.layer_norm:
        norms = tuple(Norm(jnp.ones_like(layer.bias), jnp.zeros_like(layer.bias)) for layer in layers[:-1])
    if settings.noisy:
        layers = tuple(_noisy(layer, settings.noisy_sigma) for layer in layers)
        value = None if value is None else _noisy(value, settings.noisy_sigma)
    return ComposedNetwork(convolutions, layers, value, norms, settings.activation, atoms)


def _noisy(layer: AnyLayer, sigma: float) -> NoisyLayer:
    """The layer with every σ at σ_0/√p, p being the number of its inputs."""
    scale = sigma / math.sqrt(layer.weight.shape[0])
    return NoisyLayer(layer.weight, layer.bias, jnp.full_like(layer.weight, scale), jnp.full_like(layer.bias, scale))
