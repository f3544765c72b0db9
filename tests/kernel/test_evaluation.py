"""The kernel's greedy episodes beside those of `evaluate_greedily`: the same lengths and ends, and the same returns."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from native_rounds import native, random_parameters
from srgdqn.learner.networks import make_network
from srgdqn.learner.normalisation import Normaliser, Scale
from srgdqn.training.evaluation import evaluate_greedily, evaluation_keys
from srgdqn.training.kernel_program import NativeProgram

pytestmark = pytest.mark.usefixtures("kernel")

LANES, EPISODES, LIMIT = 9, 4, 150
AS_IT_IS = Normaliser(None, None, None)


def policies(task: str, sizes: tuple[int, ...]) -> Any:
    """Random perceptrons, but for one in MountainCar that pushes where it rolls, and so reaches the flag."""
    parameters = random_parameters(np.random.default_rng(4), sizes, LANES)
    if task == "MountainCar":
        for leaf in jax.tree.leaves(parameters):
            leaf[-1] = 0
        parameters.layers[0].weight[-1, 1, :2] = 10, -10
        parameters.layers[1].weight[-1, 0, 2] = parameters.layers[1].weight[-1, 1, 0] = 1
    return parameters


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("MountainCar", {}),
        ("Pendulum", {}),
        ("Pendulum", {"torques": "midpoints", "dynamics": "v1"}),
        ("CartPole", {}),
        ("Acrobot", {}),
    ],
)
def test_greedy_episodes_are_those_of_the_package(task: str, options: dict[str, Any], scaled: bool) -> None:
    made = native(task, hidden=(5,), **options)
    judged = dataclasses.replace(made.program.task, evaluation_limit=LIMIT)
    network = make_network(made.configuration.network, made.sizes[0], made.sizes[-1])
    parameters, keys = policies(task, made.sizes), evaluation_keys(3, EPISODES)
    seen = AS_IT_IS
    if scaled:  # each lane by its own constants
        size, rng = (LANES, made.sizes[0]), np.random.default_rng(5)
        scale = Scale(np.float32(rng.normal(0, 0.02, size)), np.float32(rng.uniform(0.8, 1.2, size)))  # type: ignore[arg-type]
        for constants in scale:
            constants[-1] = 0 if constants is scale.mean else 1  # type: ignore[index]
        seen = Normaliser(scale, None, None)
    play = jax.jit(jax.vmap(lambda theta, seen: evaluate_greedily(judged, network, theta, seen, keys)))
    expected = jax.tree.map(np.asarray, play(*jax.tree.map(jax.numpy.asarray, (parameters, seen))))
    found = NativeProgram(made.program._replace(task=judged)).evaluate(parameters, seen, keys)
    np.testing.assert_array_equal(found.length, expected.length)
    np.testing.assert_array_equal(found.terminated, expected.terminated)
    np.testing.assert_allclose(found.total_reward, expected.total_reward, rtol=1e-4)
    assert np.asarray(found.terminated).any() == (task != "Pendulum")
    if task != "Pendulum":  # the raw reward, whatever is learned from
        paid = found.length - np.asarray(found.terminated) if task == "Acrobot" else found.length
        np.testing.assert_array_equal(np.abs(found.total_reward), paid)
        assert made.configuration.task.reward != "raw" or task == "Acrobot"
    # Alone, a policy plays the same.
    alone = NativeProgram(made.program._replace(task=judged)).evaluate(
        *jax.tree.map(lambda leaf: leaf[2:3], (parameters, seen)), keys
    )
    for one, all_ in zip(alone, found, strict=True):
        np.testing.assert_array_equal(one, np.asarray(all_)[2:3])
