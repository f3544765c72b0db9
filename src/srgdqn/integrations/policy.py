"""A trained policy as plain arrays: what every export format is made from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
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

EXPORTABLE_NETWORKS = ("mlp", "cnn")
"""The networks that an export can compute: convolutions where there are any, then layers, each but the last followed by
the activation. Any other network, also a built-in one, is refused until `PlainPolicy` and the formats know it."""

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
class Policy:
    """The greedy policy of one network: the action with the highest Q-value, the first of equals.

    The arrays must fit each other and the observation, and be finite; otherwise making one is an `InputError`.
    """

    arrays: Mapping[str, np.ndarray]
    """By the names that `PlainPolicy` describes."""
    activation: str
    """What follows every convolution, and every layer but the last."""
    observation: Observation
    strides: tuple[int, ...] = ()
    """Of the convolutions."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Names and texts about its origin that are written with it."""

    def __post_init__(self) -> None:
        _check_finite(self.arrays)
        _check_shapes(self)

    @property
    def layers(self) -> int:
        """How many layers there are after the convolutions."""
        return sum(name.startswith("layers.") and name.endswith(".weight") for name in self.arrays)

    @property
    def actions(self) -> int:
        """How many actions there are; they are counted from 0."""
        return int(self.arrays[f"layers.{self.layers - 1}.bias"].size)


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
    if settings.network not in EXPORTABLE_NETWORKS:
        raise InputError(
            f"the network of this run is the module {settings.network!r}, of which nothing is known but its arrays, so "
            "that it cannot be exported. Export a run with a built-in network (mlp, cnn), or use result.policy(round)."
        )
    strides = STRIDES if settings.network == "cnn" else ()
    parts = [f"convolutions.{index}" for index in range(len(strides))]
    parts += [f"layers.{index}" for index in range(len(settings.hidden) + 1)]
    about = {
        "algorithm": configuration.algorithm,
        "task": configuration.task.task,
        "configuration": configuration_digest(configuration),
        **(about or {}),
    }
    arrays = _network_arrays(parameters, parts) | _scale(parameters, observation)
    return Policy(arrays, settings.activation, observation, strides, about)


def numpy_policy(policy: Policy) -> PlainPolicy:
    """The policy as a function that needs only NumPy: from an observation to an action, or from rows to actions.

    >>> arrays = {"layers.0.weight": np.eye(2), "layers.0.bias": np.zeros(2)}
    >>> act = numpy_policy(Policy(arrays, "relu", Observation("vector", (2,))))
    >>> act([0.5, 2.0]), act([[0.5, 2.0], [3.0, 2.0]]).tolist()
    (1, [1, 0])
    """
    kind, shape = policy.observation.kind, policy.observation.shape
    return PlainPolicy(policy.arrays, activation=policy.activation, strides=policy.strides, kind=kind, shape=shape)


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


def _network_arrays(parameters: Mapping[str, np.ndarray], parts: Sequence[str]) -> dict[str, np.ndarray]:
    names = [f"{part}.{side}" for part in parts for side in ("weight", "bias")]
    for name in names:
        if f"network.{name}" not in parameters:
            raise InputError(f"the run holds no network.{name}, though its configuration asks for it. Train it again.")
    return {name: parameters[f"network.{name}"] for name in names}


def _scale(parameters: Mapping[str, np.ndarray], observation: Observation) -> dict[str, np.ndarray]:
    """The mean and deviation that observations are normalised with, if they are."""
    mean, variance = (parameters.get(f"normaliser.{name}") for name in ("mean", "variance"))
    if mean is None or variance is None:
        return {}
    size = math.prod(observation.shape)
    if mean.size != size or variance.size != size:
        raise InputError(
            f"the run's observations are normalised with {mean.size} means and {variance.size} variances, but have "
            f"{size} numbers: the run is damaged. Train it again."
        )
    deviation = np.sqrt(variance + VARIANCE_FLOOR)
    return {"mean": mean.reshape(observation.shape), "deviation": deviation.reshape(observation.shape)}


def _check_finite(arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if not (np.issubdtype(array.dtype, np.floating) and np.isfinite(array).all()):
            raise InputError(f"{name} of the policy has entries that are no finite numbers. Give another round.")


def _check_shapes(policy: Policy) -> None:
    """Checks that every layer takes the output of the one before."""
    arrays, kind, shape = policy.arrays, policy.observation.kind, policy.observation.shape
    if (kind == "image") != bool(policy.strides) or len(shape) != (3 if kind == "image" else 1):
        wanted = "convolutions and channels, height and width" if kind == "image" else "a size and no convolutions"
        raise InputError(
            f"the policy's observation is of the kind {kind!r} and of shape {shape}, with {len(policy.strides)} "
            f"convolutions, but that kind has {wanted}. Give what it was trained with."
        )
    for index, stride in enumerate(policy.strides):
        weight, bias = (arrays[f"convolutions.{index}.{side}"].shape for side in ("weight", "bias"))
        fits = len(weight) == 4 and weight[1] == shape[0] and weight[2] <= shape[1] and weight[3] <= shape[2]
        if not fits or bias != weight[:1]:
            raise _misfit(f"convolutions.{index}", weight, bias, shape)
        shape = (
            weight[0],
            *((side - window) // stride + 1 for side, window in zip(shape[1:], weight[2:], strict=True)),
        )
    width = math.prod(shape)
    for index in range(policy.layers):
        weight, bias = (arrays[f"layers.{index}.{side}"].shape for side in ("weight", "bias"))
        if len(weight) != 2 or weight[0] != width or bias != weight[1:]:
            raise _misfit(f"layers.{index}", weight, bias, (width,))
        width = weight[1]


def _misfit(name: str, weight: tuple[int, ...], bias: tuple[int, ...], given: tuple[int, ...]) -> InputError:
    return InputError(
        f"{name} of the policy has weights of shape {weight} and biases of shape {bias}, which do not take an input of "
        f"shape {given}. Give the parameters and the observation that it was trained with."
    )
