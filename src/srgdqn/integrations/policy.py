"""A trained policy as plain arrays: what every export format is made from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from srgdqn.config import Configuration
from srgdqn.config.options import VARIANCE_FLOOR
from srgdqn.errors import InputError
from srgdqn.integrations.numpy_policy import PlainPolicy

if TYPE_CHECKING:
    from srgdqn.results.result import Result

Kind = Literal["vector", "one-hot", "image"]

# Of the built-in convolutional network (Mnih et al. 2015); the other sizes are those of its arrays.
STRIDES = (4, 2, 1)


@dataclass(frozen=True)
class Observation:
    """What is observed: a `vector` of flat numbers, a number made `one-hot`, or an `image` of bytes, channels first."""

    kind: Kind
    shape: tuple[int, ...]
    """As the network sees it: (size,), or (channels, height, width)."""

    @property
    def described(self) -> str:
        """A description for readers."""
        if self.kind == "one-hot":
            return f"a whole number from 0 to {self.shape[0] - 1}"
        if self.kind == "image":
            return f"{' × '.join(map(str, self.shape))} bytes (channels, height, width)"
        return f"{self.shape[0]} numbers, flat"


@dataclass(frozen=True, eq=False)
class Layer:
    """An affine map x ↦ x W + b, with W stored input first."""

    weight: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True, eq=False)
class Convolution:
    """A convolution without padding, with weights of shape (outputs, inputs, height, width)."""

    weight: np.ndarray
    bias: np.ndarray
    stride: int


@dataclass(frozen=True, eq=False)
class Scale:
    """Normalisation of observations: (observation - mean) / deviation."""

    mean: np.ndarray
    deviation: np.ndarray


@dataclass(frozen=True, eq=False)
class Policy:
    """The greedy policy of one network: the action with the highest Q-value, the first of equals.

    The arrays must fit each other and the observation, and be finite; otherwise making one is an `InputError`.
    """

    layers: tuple[Layer, ...]
    activation: str
    """What follows every convolution, and every layer but the last."""
    observation: Observation
    convolutions: tuple[Convolution, ...] = ()
    scale: Scale | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    """Names and texts about its origin that are written with it."""

    def __post_init__(self) -> None:
        _check_finite(self.arrays())
        _check_shapes(self)

    @property
    def actions(self) -> int:
        """How many actions there are; they are counted from 0."""
        return int(self.layers[-1].bias.size)

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the convolutions."""
        return tuple(convolution.stride for convolution in self.convolutions)

    def arrays(self) -> dict[str, np.ndarray]:
        """Its arrays by the names that `PlainPolicy` knows them by."""
        parts: dict[str, Layer | Convolution] = {
            **{f"convolutions.{index}": part for index, part in enumerate(self.convolutions)},
            **{f"layers.{index}": part for index, part in enumerate(self.layers)},
        }
        found = {f"{name}.{side}": getattr(part, side) for name, part in parts.items() for side in ("weight", "bias")}
        return found if self.scale is None else {**found, "mean": self.scale.mean, "deviation": self.scale.deviation}


def policy_of(result: Result, number: int) -> Policy:
    """The greedy policy of a round of a result."""
    provenance = result.run.provenance
    images = result.configuration.network.network == "cnn"
    for name in ("observation_shape" if images else "observation_size", "actions"):
        if name not in provenance:
            raise InputError(
                f"this run does not record its {name}, so that no policy can be made of it. Train it again."
            )
    policy = make_policy(
        result.parameters_of(number),
        result.configuration,
        _observation(result),
        about={"round": str(number), "trained_with": f"srgdqn {_version(provenance)}"},
    )
    if policy.actions != provenance["actions"]:
        raise InputError(
            f"the network of round {number} has {policy.actions} outputs, but its task has {provenance['actions']} "
            "actions: the run is damaged. Train it again."
        )
    return policy


def make_policy(
    parameters: Mapping[str, np.ndarray],
    configuration: Configuration,
    observation: Observation,
    *,
    about: Mapping[str, str] | None = None,
) -> Policy:
    """A policy of one network's parameters by path (`network.layers.0.weight`, …, `normaliser.mean`, …).

    Args:
      parameters: without an axis of rounds.
      configuration: that the network was trained with.
      observation: what it reads.
      about: further texts beside algorithm, task and the configuration's digest.

    """
    settings = configuration.network
    if settings.network not in ("mlp", "cnn"):
        raise InputError(
            f"the network of this run is the module {settings.network!r}, of which nothing is known but its arrays, so "
            "that it cannot be exported. Export a run with a built-in network (mlp, cnn), or use result.policy(round)."
        )
    return Policy(
        layers=tuple(Layer(*_pair(parameters, f"network.layers.{index}")) for index in range(len(settings.hidden) + 1)),
        activation=settings.activation,
        observation=observation,
        convolutions=tuple(
            Convolution(*_pair(parameters, f"network.convolutions.{index}"), stride)
            for index, stride in enumerate(STRIDES if settings.network == "cnn" else ())
        ),
        scale=_scale(parameters, observation),
        about={
            "algorithm": configuration.algorithm,
            "task": configuration.task.task,
            "configuration": configuration_digest(configuration),
            **(about or {}),
        },
    )


def numpy_policy(policy: Policy) -> PlainPolicy:
    """The policy as a function that needs only NumPy: from an observation to an action, or from rows to actions.

    >>> rows = Policy((Layer(np.eye(2), np.zeros(2)),), "relu", Observation("vector", (2,)))
    >>> act = numpy_policy(rows)
    >>> act([0.5, 2.0]), act([[0.5, 2.0], [3.0, 2.0]]).tolist()
    (1, [1, 0])
    """
    kind, shape = policy.observation.kind, policy.observation.shape
    return PlainPolicy(policy.arrays(), activation=policy.activation, strides=policy.strides, kind=kind, shape=shape)


def configuration_digest(configuration: Configuration) -> str:
    """Sixteen hexadecimal digits that identify a configuration."""
    from srgdqn.runs.configurations import dumps

    return hashlib.sha256(dumps(configuration).encode()).hexdigest()[:16]


def _observation(result: Result) -> Observation:
    provenance = result.run.provenance
    if result.configuration.network.network == "cnn":
        return Observation("image", tuple(provenance["observation_shape"]))
    kind: Kind = "one-hot" if provenance.get("observation_kind") == "one-hot" else "vector"
    return Observation(kind, (provenance["observation_size"],))


def _version(provenance: Mapping[str, Any]) -> str:
    return provenance.get("versions", {}).get("srgdqn") or "unknown"


def _pair(parameters: Mapping[str, np.ndarray], path: str) -> tuple[np.ndarray, np.ndarray]:
    found = [parameters.get(f"{path}.{name}") for name in ("weight", "bias")]
    weight, bias = found
    if weight is None or bias is None:
        missing = f"{path}.{'weight' if weight is None else 'bias'}"
        raise InputError(f"the run holds no {missing}, though its configuration asks for it. Train it again.")
    return weight, bias


def _scale(parameters: Mapping[str, np.ndarray], observation: Observation) -> Scale | None:
    mean, variance = (parameters.get(f"normaliser.{name}") for name in ("mean", "variance"))
    if mean is None or variance is None:
        return None
    size = math.prod(observation.shape)
    if mean.size != size or variance.size != size:
        raise InputError(
            f"the run's observations are normalised with {mean.size} means and {variance.size} variances, but have "
            f"{size} numbers: the run is damaged. Train it again."
        )
    return Scale(mean.reshape(observation.shape), np.sqrt(variance + VARIANCE_FLOOR).reshape(observation.shape))


def _check_finite(arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if not (np.issubdtype(array.dtype, np.floating) and np.isfinite(array).all()):
            raise InputError(f"{name} of the policy has entries that are no finite numbers. Give another round.")


def _check_shapes(policy: Policy) -> None:
    """Checks that every layer takes the output of the one before."""
    kind, shape = policy.observation.kind, policy.observation.shape
    if (kind == "image") != bool(policy.convolutions) or len(shape) != (3 if kind == "image" else 1):
        wanted = "convolutions and channels, height and width" if kind == "image" else "a size and no convolutions"
        raise InputError(
            f"the policy's observation is of the kind {kind!r} and of shape {shape}, with {len(policy.convolutions)} "
            f"convolutions, but that kind has {wanted}. Give what it was trained with."
        )
    for index, part in enumerate(policy.convolutions):
        weight = part.weight.shape
        fits = len(weight) == 4 and weight[1] == shape[0] and weight[2] <= shape[1] and weight[3] <= shape[2]
        if not fits or part.bias.shape != weight[:1]:
            raise _misfit(f"convolutions.{index}", part, shape)
        sides = ((side - window) // part.stride + 1 for side, window in zip(shape[1:], weight[2:], strict=True))
        shape = (weight[0], *sides)
    width = math.prod(shape)
    for index, layer in enumerate(policy.layers):
        if layer.weight.ndim != 2 or len(layer.weight) != width or layer.bias.shape != layer.weight.shape[1:]:
            raise _misfit(f"layers.{index}", layer, (width,))
        width = layer.bias.size


def _misfit(name: str, part: Layer | Convolution, given: tuple[int, ...]) -> InputError:
    return InputError(
        f"{name} of the policy has weights of shape {part.weight.shape} and biases of shape {part.bias.shape}, which "
        f"do not take an input of shape {given}. Give the parameters and the observation that it was trained with."
    )
