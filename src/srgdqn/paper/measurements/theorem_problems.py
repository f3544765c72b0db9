"""Finite sums on which Theorem 1's assumptions can be met: smooth losses of a fixed batch whose targets y stay put.

With γ = 0 the target of a transition is its reward, so that the package's own outer iteration then descends
F(θ) = mean of (y_i - Q(S_i, A_i; θ))² over the batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from srgdqn.config import Configuration
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.gradients.bellman import loss_of
from srgdqn.learner.networks import MLP, Network, Parameters, make_network
from srgdqn.paper.measurements.smoothness import linear_smoothness, tanh_smoothness
from srgdqn.tasks.mountain_car import MountainCar
from srgdqn.training.jax_setup import hot_program_flags

# Least squares: the standard deviations of the features fall from 1 to the last of them.
FEATURES, LAST_SCALE, NOISE = 8, 0.2, 0.5

# The network: its width, and the region of the last layer's weights and biases in which the β_i hold.
WIDTH, LARGEST_WEIGHT, LARGEST_BIAS = 20, 0.75, 1.5


class Problem(NamedTuple):
    """A finite sum F = mean of f_i, a start θ_0, and constants β_i of its terms that hold where `inside` does."""

    name: str
    configuration: Configuration
    network: Network
    transitions: Transitions
    start: Parameters
    errors: np.ndarray  # Q(S_i, A_i; θ_0) - y_i
    slopes: np.ndarray  # ∇Q(S_i, A_i; θ_0), a row each
    constants: np.ndarray
    inside: Callable[[Parameters], Array]

    @property
    def terms(self) -> int:
        """n, the number of terms."""
        return int(self.transitions.reward.shape[0])


def make_problem(name: str, terms: int, seed: int | Sequence[int]) -> Problem:
    """The problem of that name with that many terms. Its numbers have the precision that jax is set to."""
    return PROBLEMS[name](terms, np.random.default_rng(seed))


def first_terms(problem: Problem, terms: int) -> Problem:
    """The problem with only its first terms, so that problems of different n are of one kind."""
    return problem._replace(
        configuration=problem.configuration.with_options({"batch_size": terms}),
        # NumPy's slices need no compiling.
        transitions=jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[:terms]), problem.transitions),
        errors=problem.errors[:terms],
        slopes=problem.slopes[:terms],
        constants=problem.constants[:terms],
    )


def term_losses(problem: Problem, parameters: Parameters) -> Float[Array, " n"]:
    """f_1(θ) … f_n(θ)."""
    rows = problem.transitions
    q = problem.network.q_values(parameters, rows.observation)
    return loss_of(problem.configuration.gradients, q[jnp.arange(problem.terms), rows.action] - rows.reward)


class At(NamedTuple):
    """What is known of F at one θ."""

    loss: Float[Array, ""]  # F(θ)
    square: Float[Array, ""]  # ‖∇F(θ)‖²
    largest: Float[Array, ""]  # the largest f_i(θ)


def at(problem: Problem, parameters: Parameters) -> At:
    """F, the squared length of its exact gradient and its largest term; by autodiff, not as the algorithms do it."""

    def mean(theta: Parameters) -> tuple[Array, Array]:
        losses = term_losses(problem, theta)
        return losses.mean(), losses.max()

    (loss, largest), gradient = jax.value_and_grad(mean, has_aux=True)(parameters)
    return At(loss, optax.tree.norm(gradient, squared=True), largest)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled in a hurry: programs here are many and run for a second or less."""
    return jax.jit(function, compiler_options=hot_program_flags())


def _convex(terms: int, rng: np.random.Generator) -> Problem:
    """Least squares: one action, uniform features of unequal scale, each of which matters as much to y, and noise."""
    features = rng.uniform(-(3**0.5), 3**0.5, (terms, FEATURES))
    noise = NOISE * rng.uniform(-(3**0.5), 3**0.5, terms)
    y = features @ rng.choice([-1.0, 1.0], FEATURES) + noise
    observation = features * np.geomspace(1.0, LAST_SCALE, FEATURES)
    configuration = _configuration(terms, hidden=())
    network = make_network(configuration.network, FEATURES, 1)
    return _problem(
        "convex",
        configuration,
        network,
        _frozen(observation, np.zeros(terms, np.int32), y),
        compiled(network.init)(_key(rng)),
        linear_smoothness(observation),
        lambda parameters: jnp.asarray(True),
    )


def _network(terms: int, rng: np.random.Generator) -> Problem:
    """Regression of a tanh network on Bellman targets: MountainCar's states, uniform in their box, uniform actions,
    and the height reward of the next state plus the discounted greatest value that another, frozen network gives it.
    """
    task = MountainCar()
    box = task.observation_space
    observation = rng.uniform(box.low, box.high, (terms, 2))
    action = rng.integers(3, size=terms).astype(np.int32)
    configuration = _configuration(terms, hidden=(WIDTH,), activation="tanh")
    network = make_network(configuration.network, 2, 3)
    init = compiled(network.init)

    @compiled
    @functools.partial(jax.vmap, in_axes=(None, 0, 0))
    def target(frozen: Parameters, state: Array, action: Array) -> Array:
        after = task.transition(state, action)
        discount = 0.9 * (1 - task.terminal(after))
        return task.reward(state, action, after) + discount * network.q_values(frozen, after).max(-1)

    y = np.asarray(target(init(_key(rng)), observation, action))
    constants = tanh_smoothness(
        observation, width=WIDTH, weights=LARGEST_WEIGHT, biases=LARGEST_BIAS, targets=float(np.abs(y).max())
    )
    return _problem(
        "network",
        configuration,
        network,
        _frozen(observation, action, y),
        init(_key(rng)),
        constants,
        _last_layer_is_small,
    )


PROBLEMS: dict[str, Callable[[int, np.random.Generator], Problem]] = {"convex": _convex, "network": _network}


def _problem(
    name: str,
    configuration: Configuration,
    network: Network,
    transitions: Transitions,
    start: Parameters,
    constants: np.ndarray,
    inside: Callable[[Parameters], Array],
) -> Problem:
    @compiled
    @functools.partial(jax.vmap, in_axes=(None, 0, 0))
    def value_and_slope(parameters: Parameters, observation: Array, action: Array) -> tuple[Array, Parameters]:
        return jax.value_and_grad(lambda theta: network.q_values(theta, observation[None])[0, action])(parameters)

    values, slopes = value_and_slope(start, transitions.observation, transitions.action)
    return Problem(
        name,
        configuration,
        network,
        transitions,
        start,
        np.asarray(values) - np.asarray(transitions.reward),
        np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in jax.tree.leaves(slopes)], axis=1),
        constants,
        inside,
    )


def _configuration(terms: int, **options: object) -> Configuration:
    # Which target it is makes no difference to y at γ = 0; `outer` spares each inner step the pass over next states.
    frozen = {"gamma": 0.0, "target": "outer", "adam_process": False, "batch_size": terms}
    return Configuration().with_options({**frozen, **options})


def _key(rng: np.random.Generator) -> PRNGKeyArray:
    return jax.random.key(int(rng.integers(2**31)))


def _frozen(observation: np.ndarray, action: np.ndarray, y: np.ndarray) -> Transitions:
    """Transitions whose target is y whatever the parameters, as γ is 0."""
    x, reward = jnp.asarray(observation, float), jnp.asarray(y, float)
    return Transitions(x, jnp.asarray(action), reward, x, jnp.asarray(np.ones(len(y)), float))


def _last_layer_is_small(parameters: MLP) -> Array:
    last = parameters.layers[-1]
    return (jnp.abs(last.weight).max() <= LARGEST_WEIGHT) & (jnp.abs(last.bias).max() <= LARGEST_BIAS)
