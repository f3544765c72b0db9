"""The greedy policy of a trained network: read from a run's or an agent's parameters, and checked."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from srgdqn.config import Configuration
from srgdqn.config.options import VARIANCE_FLOOR
from srgdqn.errors import InputError
from srgdqn.integrations.numpy_policy import PlainPolicy

if TYPE_CHECKING:
    from srgdqn.results.result import Result, Which

STRIDES: dict[str, tuple[int, ...]] = {"mlp": (), "cnn": (4, 2, 1)}
"""The networks that an export can compute, and the strides of their convolutions (`cnn`: Mnih et al. 2015). Each has
convolutions, if any, and then layers, all but the last followed by the activation; layer normalisation and a value head
where the options say so. Of a noisy network the means are exported. Any other network, also a built-in one, is refused
until `PlainPolicy` and the formats know it."""


def policy_of(result: Result, number: int, which: Which = "last") -> PlainPolicy:
    """The greedy policy of a round of a result, its last or its best one."""
    provenance = result.run.provenance
    images = result.configuration.network.network == "cnn"
    for name in ("observation_shape" if images else "observation_size", "actions"):
        if name not in provenance:
            raise InputError(f"this run does not record its {name}, so that it has no policy. Train it again.")
    if images:
        kind, shape = "image", tuple(provenance["observation_shape"])
    else:
        kind = "one-hot" if provenance.get("observation_kind") == "one-hot" else "vector"
        shape = (provenance["observation_size"],)
    version = provenance.get("versions", {}).get("srgdqn") or "unknown"
    about = {"round": str(number), "trained_with": f"srgdqn {version}", **about_parts(provenance.get("observations"))}
    about |= {} if which == "last" else {"which": which}
    policy = make_policy(result.parameters_of(number, which), result.configuration, kind, shape, about)
    if policy.actions != provenance["actions"]:
        raise InputError(
            f"the network of round {number} has {policy.actions} outputs, but its task has {provenance['actions']} "
            "actions: the run is damaged. Train it again."
        )
    return policy


def make_policy(
    parameters: Mapping[str, np.ndarray],
    configuration: Configuration,
    kind: str,
    shape: tuple[int, ...],
    about: Mapping[str, str],
) -> PlainPolicy:
    """A policy of one network's parameters by path (`network.layers.0.weight`, …, `normaliser.mean`, …).

    Args:
      parameters: without an axis of rounds. They must fit each other and the observation, and be finite.
      configuration: that the network was trained with.
      kind: what is observed: `vector`, `one-hot` or `image`.
      shape: of one observation, as the network sees it.
      about: further texts beside algorithm, task and the configuration's digest.

    """
    settings = configuration.network
    if settings.network not in STRIDES:
        raise InputError(
            f"the network of this run is the module {settings.network!r}, of which nothing is known but its arrays, so "
            "that it cannot be exported. Export a run with a built-in network (mlp, cnn), or use result.policy(round)."
        )
    if configuration.gradients.is_distributional:
        raise InputError(
            f"the network of this run gives distributions (loss = {configuration.gradients.loss!r}), which exports do "
            "not know. Export a run with another loss, or use result.policy(round)."
        )
    strides = STRIDES[settings.network]
    parts = [f"convolutions.{index}" for index in range(len(strides))]
    parts += [f"layers.{index}" for index in range(len(settings.hidden) + 1)]
    parts += ["value"] if settings.dueling else []
    names = [f"{part}.{side}" for part in parts for side in ("weight", "bias")]
    if settings.layer_norm:
        names += [f"norms.{index}.{side}" for index in range(len(settings.hidden)) for side in ("gain", "shift")]
    for name in names:
        if f"network.{name}" not in parameters:
            raise InputError(f"the run holds no network.{name}, though its configuration asks for it. Train it again.")
    policy = PlainPolicy(
        {name: parameters[f"network.{name}"] for name in names} | _scale(parameters, shape),
        activation=settings.activation,
        strides=strides,
        kind=kind,
        shape=shape,
        about={
            "algorithm": configuration.algorithm,
            "task": configuration.task.task,
            "configuration": configuration_digest(configuration),
            **about,
        },
    )
    _check(policy)
    return policy


def about_parts(observations: Mapping[str, Any] | None) -> dict[str, str]:
    """What the numbers of an observation are that is made of several arrays, for files of the policy."""
    if not observations or "parts" not in observations:
        return {}
    from srgdqn.adapters.spaces import Observations

    words = Observations.from_metadata(dict(observations)).words
    return {"observation": f"{words}, in the order of gymnasium.spaces.flatten"}


def described(policy: PlainPolicy) -> str:
    """What the policy observes, for readers."""
    if "observation" in policy.about:
        return policy.about["observation"]
    if policy.kind == "one-hot":
        return f"a whole number from 0 to {policy.shape[0] - 1}"
    if policy.kind == "image":
        return f"{' × '.join(map(str, policy.shape))} bytes (channels, height, width)"
    return f"{policy.shape[0]} numbers, flat"


def configuration_digest(configuration: Configuration) -> str:
    """Sixteen hexadecimal digits that identify a configuration."""
    from srgdqn.runs.configurations import dumps

    return hashlib.sha256(dumps(configuration).encode()).hexdigest()[:16]


def _scale(parameters: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The mean and deviation that observations are normalised with, if they are."""
    mean, variance, deviation = (parameters.get(f"normaliser.{name}") for name in ("mean", "variance", "deviation"))
    if variance is not None:
        deviation = np.sqrt(variance + VARIANCE_FLOOR)
    if mean is None or deviation is None:
        return {}
    size = math.prod(shape)
    if mean.size != size or deviation.size != size:
        raise InputError(
            f"the run's observations are normalised with {mean.size} means and {deviation.size} deviations, but have "
            f"{size} numbers: the run is damaged. Train it again."
        )
    return {"mean": mean.reshape(shape), "deviation": deviation.reshape(shape)}


def _check(policy: PlainPolicy) -> None:
    """Checks that the arrays are finite and that every layer takes the output of the one before."""
    for name, array in policy.arrays.items():
        if not (np.issubdtype(array.dtype, np.floating) and np.isfinite(array).all()):
            raise InputError(f"{name} of the policy has entries that are no finite numbers. Give another round.")
    shape, images = policy.shape, policy.kind == "image"
    if images != bool(policy.strides) or len(shape) != (3 if images else 1):
        wanted = "convolutions and channels, height and width" if images else "a size and no convolutions"
        raise InputError(
            f"the policy's observation is of the kind {policy.kind!r} and of shape {shape}, with {len(policy.strides)} "
            f"convolutions, but that kind has {wanted}. Give what it was trained with."
        )
    for index, stride in enumerate(policy.strides):
        weight, bias = (policy.arrays[f"convolutions.{index}.{side}"].shape for side in ("weight", "bias"))
        fits = len(weight) == 4 and weight[1] == shape[0] and weight[2] <= shape[1] and weight[3] <= shape[2]
        if not fits or bias != weight[:1]:
            raise _misfit(f"convolutions.{index}", weight, bias, shape)
        shape = (weight[0], (shape[1] - weight[2]) // stride + 1, (shape[2] - weight[3]) // stride + 1)
    width = math.prod(shape)
    for index in range(policy.layers):
        weight, bias = (policy.arrays[f"layers.{index}.{side}"].shape for side in ("weight", "bias"))
        if len(weight) != 2 or weight[0] != width or bias != weight[1:]:
            raise _misfit(f"layers.{index}", weight, bias, (width,))
        given, width = width, weight[1]
        for side in ("gain", "shift"):
            norm = policy.arrays.get(f"norms.{index}.{side}")
            if norm is not None and norm.shape != bias:
                raise _misfit(f"norms.{index}", norm.shape, norm.shape, bias)
    if "value.weight" in policy.arrays:
        weight, bias = (policy.arrays[f"value.{side}"].shape for side in ("weight", "bias"))
        if weight != (given, 1) or bias != (1,):
            raise _misfit("value", weight, bias, (given,))


def _misfit(name: str, weight: tuple[int, ...], bias: tuple[int, ...], given: tuple[int, ...]) -> InputError:
    return InputError(
        f"{name} of the policy has weights of shape {weight} and biases of shape {bias}, which do not take an input of "
        f"shape {given}. Give the parameters and the observation that it was trained with."
    )
