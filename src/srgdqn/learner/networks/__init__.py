"""Q-networks: equinox modules from one observation to one Q-value per action.

A module is a pytree, so parameters, gradients and moments add and subtract leaf by leaf. Its inexact arrays are learned
(its *parameters*); the rest is its structure.

Every file here is a built-in network, called as the file is, with a function `make(settings, shape, actions, *, key)`;
no list names them. Around it, `learner.composed` puts what the settings ask for. Gradients by autodiff and compiled
policies work for any.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from srgdqn.config import NetworkSettings, discovery
from srgdqn.errors import InputError
from srgdqn.learner.composed import ComposedNetwork, Noise, compose
from srgdqn.learner.networks.cnn import CNN
from srgdqn.learner.networks.mlp import MLP

Parameters: TypeAlias = Any
NetworkFactory = Callable[[PRNGKeyArray], eqx.Module]

__all__ = [
    "CNN",
    "MLP",
    "NETWORKS",
    "ComposedNetwork",
    "Network",
    "NetworkFactory",
    "Noise",
    "Parameters",
    "make_network",
    "named",
]

NETWORKS: dict[str, Callable[..., eqx.Module]] = {
    name: importlib.import_module(f"{__name__}.{name}").make for name in discovery.NETWORKS
}


class Network(NamedTuple):
    """A Q-network taken apart: how to draw its parameters, and how to apply them."""

    init: Callable[[PRNGKeyArray], Parameters]
    structure: Any
    atoms: int = 1  # outputs per action; where there are several, the logits of a distribution

    @property
    def is_mlp(self) -> bool:
        """Whether it is the built-in perceptron. A subclass may compute something else, of which there is no closed
        form.
        """
        return type(self.structure) is MLP

    def module(self, parameters: Parameters) -> Callable[[Array], Array]:
        """The parameters put back into their module."""
        return eqx.combine(parameters, self.structure)

    def q_values(self, parameters: Parameters, observations: Array, noise: Noise | None = None) -> Array:
        """The Q-values of rows of observations; of distributions, on the scale on which the least atom is 0 and the
        largest 1: the best action is the same on any.
        """
        outputs = self.outputs(parameters, observations, noise)
        if self.atoms == 1:
            return outputs
        probabilities = jax.nn.softmax(outputs)
        return probabilities @ jnp.linspace(0, 1, self.atoms, dtype=probabilities.dtype)

    def outputs(self, parameters: Parameters, observations: Array, noise: Noise | None = None) -> Array:
        """What the network gives for rows of observations: Q-values, or logits with an axis of atoms last."""
        module = self.module(parameters)
        if isinstance(module, ComposedNetwork):
            return module(observations, noise)
        if "takes_rows" in vars(type(self.structure)):  # its own: a subclass may take single observations
            return module(observations)
        # Images are whole numbers in memory, which not every layer of the user's would take.
        return jax.vmap(module)(observations.astype(jnp.result_type(observations, float)))

    def draw_noise(
        self, parameters: Parameters, key: PRNGKeyArray, rows: tuple[int, ...], dropout: Array | float | None = None
    ) -> Noise:
        """The noise of a built-in network with such parts, for as many rows."""
        module = self.module(parameters)
        assert isinstance(module, ComposedNetwork)
        return module.draw_noise(key, rows, dropout)

    def perturbed(self, parameters: Parameters, key: PRNGKeyArray) -> Parameters:
        """The parameters of a noisy network with one draw of noise added to its means: to act by."""
        module = self.module(parameters)
        assert isinstance(module, ComposedNetwork)
        return eqx.filter(module.perturbed(key), eqx.is_inexact_array)


def make_network(
    settings: NetworkSettings,
    observation: int | tuple[int, ...],
    actions: int,
    user: eqx.Module | NetworkFactory | None = None,
    *,
    atoms: int = 1,
) -> Network:
    """The network of the settings, or the user's own: a module (every round starts from it), or a function from a
    random key to one (every round starts from its own). `observation` is the size of flat observations, or a shape; the
    perceptron takes flat ones in any case. Of several `atoms`, an action has as many outputs.
    """
    shape = (observation,) if isinstance(observation, int) else tuple(observation)

    def make(key: PRNGKeyArray) -> eqx.Module:
        if user is not None:
            return user if isinstance(user, eqx.Module) else _made_by(user, key)
        plain = NETWORKS[settings.network](settings, shape, actions * atoms, key=key)
        return compose(settings, plain, atoms, key=key) if settings.has_parts or atoms > 1 else plain

    # The user's module may hold arrays that are not learned, so it is made once for its structure.
    key = jax.random.key(0)
    module = eqx.filter_eval_shape(make, key) if user is None else make(key)
    _, structure = eqx.partition(module, _is_parameter)
    network = Network(lambda key: eqx.filter(make(key), eqx.is_inexact_array), structure, atoms)
    if user is not None:
        _require_q_values(network, shape, actions)
    return network


def named(network: Any) -> tuple[dict[str, str], Any]:
    """The option that a network's name is (none if none was given), and the user's own network, if it is one."""
    if network is None:
        return {}, None
    if isinstance(network, str) and network in NETWORKS:
        return {"network": network}, None
    if not callable(network):
        raise InputError(
            f"network is {network!r}, which is neither an equinox module, nor a function from a random key to one, nor "
            f"one of {', '.join(NETWORKS)}. Give one of these, or leave it out."
        )
    its = network if hasattr(network, "__qualname__") else type(network)
    return {"network": f"{its.__module__}.{its.__qualname__}"}, network


def _made_by(factory: NetworkFactory, key: PRNGKeyArray) -> eqx.Module:
    try:
        return factory(key)
    except Exception as error:
        raise InputError(
            f"the network given, {factory!r}, raised {type(error).__name__} ({error}) when it was called with a random "
            "key. Give an equinox module, or a function from a random key to one."
        ) from error


def _is_parameter(leaf: Any) -> bool:
    is_array = isinstance(leaf, jax.ShapeDtypeStruct) or eqx.is_array(leaf)
    return is_array and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _require_q_values(network: Network, shape: tuple[int, ...], actions: int) -> None:
    parameters = eqx.filter_eval_shape(network.init, jax.random.key(0))
    row = jax.ShapeDtypeStruct((1, *shape), jnp.result_type(float))
    try:
        out = eqx.filter_eval_shape(network.outputs, parameters, row)
    except Exception as error:
        raise InputError(
            f"the network given cannot take an observation of shape {shape}: {error}. Give an equinox "
            f"module that maps one {'flat ' if len(shape) == 1 else ''}observation to {actions} Q-values."
        ) from error
    wanted = (actions,) if network.atoms == 1 else (actions, network.atoms)
    if getattr(out, "shape", None) != (1, *wanted):
        got = getattr(out, "shape", (type(out).__name__,))[1:]
        atoms = "" if network.atoms == 1 else f" and the loss a distribution over {network.atoms} atoms for each"
        raise InputError(
            f"the network given maps an observation of shape {shape} to an output of shape {got}, "
            f"but the task has {actions} actions{atoms}. Give an equinox module with an output of shape {wanted}."
        )
