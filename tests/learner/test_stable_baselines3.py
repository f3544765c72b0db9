"""The steps that docs/coming-from-stable-baselines3.md writes down are PyTorch's of smooth-L1, clipping and Adam."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from srgdqn.config.configure import configure
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import init_learner, outer_iteration
from translation import flat, to_parameters, to_transitions

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-stable-baselines3.md").read_text("utf-8")
SIZES, ROWS, UPDATES = (3, 6, 2), 5, 4


def recipes() -> dict[str, Any]:
    """The names that the page's recipes define."""
    (code,) = re.findall(r"```python\n(import srgdqn\n\n# What is.*?)\ntask = ", PAGE, flags=re.S)
    found: dict[str, Any] = {}
    exec(code, found)
    return found


def as_there(theta: np.ndarray, target: np.ndarray, batches: list[list[Any]], rate: float, gamma: float) -> np.ndarray:
    """PyTorch's Adam (ϵ = 1e-8) along the gradients of smooth-L1's mean, their norm clipped to 10."""
    o = reference.Options(SIZES)
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for number, batch in enumerate(batches, 1):
        gradient = np.zeros_like(theta)
        for x in batch:
            y = x.r + (0.0 if x.terminal else gamma * reference.q_values(o, target, x.s_next).max())
            error = reference.q_values(o, theta, x.s)[x.a] - y
            # Of ½ (Q - (Q - 1))² the reference's gradient is that of Q alone, whatever θ.
            of_q = reference.gradient(o, theta, x, reference.q_values(o, theta, x.s)[x.a] - 0.5)
            gradient += np.clip(error, -1, 1) * of_q / len(batch)
        gradient *= min(1.0, 10 / (np.linalg.norm(gradient) + 1e-6))
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        theta = theta - rate * (m / (1 - 0.9**number)) / (np.sqrt(v / (1 - 0.999**number)) + 1e-8)
    return theta


@pytest.mark.parametrize("scale", [0.1, 3.0, 400.0], ids=["squared", "linear", "clipped"])
def test_updates_are_pytorchs(scale: float) -> None:
    found = recipes()
    chosen = {**found["AS_THERE"], **found["RECIPES"]["CartPole-v1"], "hidden": SIZES[1:-1], "batch_size": ROWS}
    configuration = configure("CartPole-v1", "dqn-adam", **chosen)
    theta, data, _ = reference.random_problem(0, SIZES, ROWS * UPDATES, 0)
    states = max(1.0, scale / 4)  # long gradients where they are to be clipped
    data = [x._replace(r=scale * x.r, s=states * x.s, s_next=states * x.s_next) for x in data]
    batches = [data[ROWS * k : ROWS * (k + 1)] for k in range(UPDATES)]
    expected = as_there(theta, theta, batches, chosen["alpha"], chosen["gamma"])
    with jax.enable_x64(True):
        network = make_network(configuration.network, SIZES[0], SIZES[-1])
        state = init_learner(configuration, to_parameters(theta, SIZES))
        nothing = jnp.zeros((0, 1), jnp.int32)
        for batch in batches:
            given = (configuration, network, state, to_transitions(batch), nothing)
            state, _ = outer_iteration(*given, renewed=jnp.zeros((), bool))
        np.testing.assert_allclose(flat(state.parameters), expected, rtol=1e-6, atol=1e-8)


def test_recipes_are_the_zoos() -> None:
    """Learning rate, batch, buffer, start, γ, target, train_freq, gradient_steps (-1: train_freq), exploration."""
    zoo = {
        "CartPole-v1": (5e4, 2.3e-3, 64, 100_000, 1_000, 0.99, 10, 256, 128, 0.16, 0.04),
        "MountainCar-v0": (1.2e5, 4e-3, 128, 10_000, 1_000, 0.98, 600, 16, 8, 0.2, 0.07),
        "Acrobot-v1": (1e5, 6.3e-4, 128, 50_000, 0, 0.99, 250, 4, 4, 0.12, 0.1),
        "LunarLander-v3": (1e5, 6.3e-4, 128, 50_000, 0, 0.99, 250, 4, 4, 0.12, 0.1),
    }
    names = "steps alpha batch_size replay_capacity learning_starts gamma target_update_interval learning_frequency"
    names += " gradient_steps epsilon_fraction epsilon_end"
    found = recipes()
    assert {task: tuple(each[name] for name in names.split()) for task, each in found["RECIPES"].items()} == zoo
    for task, options in found["RECIPES"].items():
        whole = {**found["AS_THERE"], **options}
        configuration = configure(task, "dqn-adam", typed=whole, **whole).options()  # of which each has an effect
        assert {name: configuration[name] for name in whole} == whole
        assert (configuration["sampling"], configuration["huber_delta"]) == ("with-replacement", 1.0)
        assert (configuration["activation"], configuration["mask_terminal"]) == ("relu", True)
        assert (configuration["beta1"], configuration["beta2"], configuration["reward_scale"]) == (0.9, 0.999, 1.0)
