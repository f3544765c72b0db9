"""C51 and HL-Gauss, against double loops in NumPy, SciPy's normal distribution, and finite differences."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from srgdqn.config import GradientSettings, NetworkSettings
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.learner.gradients import RowNoise, Transitions, make_gradients, outer_batch
from srgdqn.learner.gradients.distributional import categorical_target, histogram, projected
from srgdqn.learner.networks import make_network

LEAST, MOST, ATOMS = -2.0, 3.0, 6
Z = [LEAST + (MOST - LEAST) * i / (ATOMS - 1) for i in range(ATOMS)]
ACTIONS, ROWS = 3, 7
RANGE: dict[str, Any] = dict(atoms=ATOMS, value_min=LEAST, value_max=MOST, gamma=0.8)


def by_hand(p: np.ndarray, reward: float, discount: float) -> np.ndarray:
    """Algorithm 1 of Bellemare et al. (2017)."""
    m, width = np.zeros(ATOMS), (MOST - LEAST) / (ATOMS - 1)
    for j in range(ATOMS):
        b = (min(max(reward + discount * Z[j], LEAST), MOST) - LEAST) / width
        b = round(b) if abs(b - round(b)) < 1e-9 else b
        lower, upper = int(np.floor(b)), int(np.ceil(b))
        if lower == upper:
            m[lower] += p[j]
        else:
            m[lower] += p[j] * (upper - b)
            m[upper] += p[j] * (b - lower)
    return m


def test_the_projection_is_the_papers() -> None:
    generator = np.random.default_rng(0)
    rows = 600
    p = generator.dirichlet(np.full(ATOMS, 0.3), rows)
    reward = generator.normal(0, 3, rows)  # also beyond both ends
    reward[::5] = generator.choice(Z, len(reward[::5]))  # on atoms, and where the episode ended exactly on them
    reward[1::7] = generator.integers(-3, 4, len(reward[1::7]))
    discount = np.where(generator.random(rows) < 0.3, 0.0, generator.choice([0.5, 0.9, 1.0], rows))
    with jax.enable_x64(True):
        settings = GradientSettings(loss="c51", **RANGE)
        found = np.array(projected(settings, jnp.asarray(p), jnp.asarray(reward), jnp.asarray(discount)))
    expected = np.array([by_hand(*each) for each in zip(p, reward, discount, strict=True)])
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-12)
    inside = (reward + discount * LEAST >= LEAST) & (reward + discount * MOST <= MOST)
    assert inside.sum() > 50
    mean = reward + discount * (p @ Z)
    np.testing.assert_allclose((found @ Z)[inside], mean[inside], atol=1e-12)  # it keeps the mean of what fits


def test_the_histogram_is_the_normal_distributions_within_the_range() -> None:
    with jax.enable_x64(True):
        for sigma in (0.3, 0.75, 3.0):
            y = np.concatenate([np.linspace(-4, 5, 41), Z])
            found = np.array(
                histogram(GradientSettings(loss="hl-gauss", hl_gauss_sigma=sigma, **RANGE), jnp.asarray(y))
            )
            width = (MOST - LEAST) / (ATOMS - 1)
            for value, row in zip(y, found, strict=True):
                bell = scipy.stats.norm(min(max(value, LEAST), MOST), sigma * width)
                mass = np.array([bell.cdf(z + width / 2) - bell.cdf(z - width / 2) for z in Z])
                np.testing.assert_allclose(row, mass / mass.sum(), atol=1e-12)
            np.testing.assert_allclose(found.sum(1), 1, rtol=1e-12)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def rows_of(seed: int) -> Transitions:
    generator = np.random.default_rng(seed)
    return Transitions(
        jnp.asarray(generator.normal(size=(ROWS, 2))),
        jnp.asarray(generator.integers(ACTIONS, size=ROWS), jnp.int32),
        jnp.asarray(generator.normal(size=ROWS)),
        jnp.asarray(generator.normal(size=(ROWS, 2))),
        jnp.asarray(generator.integers(2, size=ROWS), float),
    )


CASES = [
    ("c51", "current", "max"),
    ("c51", "outer", "max"),
    ("c51", "hard", "double"),
    ("c51", "polyak", "max"),
    ("hl-gauss", "current", "max"),
    ("hl-gauss", "hard", "double"),
]


@pytest.mark.parametrize(("loss", "target", "bootstrap"), CASES)
def test_losses_and_gradients(loss: Any, target: Any, bootstrap: Any) -> None:
    """Losses against sums written out, gradients against central differences with the target held constant."""
    with jax.enable_x64(True):
        settings = GradientSettings(loss=loss, target=target, bootstrap=bootstrap, **RANGE)
        parts = NetworkSettings(hidden=(4,), activation="tanh", dueling=True, noisy=True, layer_norm=target == "hard")
        network = make_network(parts, 2, ACTIONS, atoms=ATOMS)
        keys = jax.random.split(jax.random.key(1), 2)
        theta, behind = (jax.tree.map(lambda leaf: 2 * leaf, network.init(key)) for key in keys)
        weights = jnp.linspace(0.5, 2, ROWS)
        noise = RowNoise(jax.random.key(5, impl="threefry2x32"), None)
        data = rows_of(3)
        batch = outer_batch(settings, network, data, theta, behind, weights, noise)
        silent = outer_batch(settings, network, data, theta, behind, weights)
        logits = jax.jit(lambda theta, x, noise: network.outputs(theta, x, noise))

        def target_of() -> np.ndarray:
            """Without noise."""
            frozen = {"current": theta, "outer": theta}.get(target, behind)
            p = softmax(np.array(logits(frozen, data.next_observation, None)))
            choosing = softmax(np.array(logits(theta, data.next_observation, None))) if bootstrap == "double" else p
            made = []
            for row in range(ROWS):
                best = int(np.argmax(choosing[row] @ Z))
                reward, discount = float(data.reward[row]), 0.8 * (1 - float(data.terminated[row]))
                if loss == "c51":
                    made.append(by_hand(p[row, best], reward, discount))
                else:
                    y = jnp.asarray(reward + discount * p[row, best] @ Z)
                    made.append(np.array(histogram(settings, y)))
            return np.array(made)

        def losses(theta: Any, batch: Any, m: np.ndarray) -> np.ndarray:
            p = softmax(np.array(logits(theta, batch.observation, batch.noise)))
            chosen = p[np.arange(ROWS), np.array(batch.action)]
            return np.array([-sum(m[r, i] * np.log(chosen[r, i]) for i in range(ATOMS)) for r in range(ROWS)])

        source = make_gradients(settings, network)
        query = jax.jit(lambda theta, batch: source.query(theta, jax.tree.map(lambda leaf: leaf[:, None], batch)))
        _, loss_found, max_q = query(theta, silent)
        np.testing.assert_allclose(loss_found, losses(theta, silent, target_of()) * weights, rtol=1e-9)
        q = softmax(np.array(logits(theta, silent.observation, None))) @ Z
        np.testing.assert_allclose(max_q, q.max(-1), rtol=1e-9)

        # With noise: the target that the batch has, or that moves with θ.
        if target == "current":
            following = logits(theta, batch.next_observation, batch.next_noise)
            values = jax.nn.softmax(following) @ jnp.asarray(Z)
            if loss == "c51":
                m = np.array(categorical_target(settings, values, following, batch.reward, batch.discount))
            else:
                m = np.array(histogram(settings, batch.reward + batch.discount * values.max(-1)))
        else:
            m = np.array(batch.frozen_target if loss == "c51" else histogram(settings, batch.frozen_target))
        generator = np.random.default_rng(0)
        direction = jax.tree.map(lambda leaf: jnp.asarray(generator.normal(size=leaf.shape)), theta)
        ahead, back = (
            losses(jax.tree.map(lambda a, b, s=sign: a + s * 1e-5 * b, theta, direction), batch, m) for sign in (1, -1)
        )
        slopes = (ahead - back) / 2e-5 * np.array(weights)
        compact = query(theta, batch)[0]
        dense = jax.vmap(source.dense)(compact)
        found = sum(
            (np.array(a) * np.array(b)).reshape(ROWS, -1).sum(1)
            for a, b in zip(jax.tree.leaves(dense), jax.tree.leaves(direction), strict=True)
        )
        np.testing.assert_allclose(found, slopes, rtol=1e-6, atol=1e-7)
        mean = jax.jit(source.mean)(theta, batch)[0]
        for each, rows in zip(jax.tree.leaves(mean), jax.tree.leaves(dense), strict=True):
            np.testing.assert_allclose(each, rows.mean(0), rtol=1e-8, atol=1e-12)

        # The best action is the same on the network's own scale.
        own = network.q_values(theta, silent.observation)
        np.testing.assert_allclose(LEAST + (MOST - LEAST) * own, q, rtol=1e-9)

        # A pair's difference vanishes as its points meet.
        def distance(step: float) -> float:
            other = query(jax.tree.map(lambda leaf: leaf + step, theta), batch)[0]
            return float(sum(np.abs(a - b).sum() for a, b in zip(*map(jax.tree.leaves, (compact, other)), strict=True)))

        assert distance(0.0) == 0
        assert distance(1e-7) < 1e-2 * distance(1e-4)


class Table(eqx.Module):
    """The logits of every action, whatever is observed."""

    logits: jax.Array

    def __call__(self, observation: jax.Array) -> jax.Array:
        return self.logits


def test_a_network_of_ones_own_gives_logits_for_every_action() -> None:
    logits = np.random.default_rng(0).normal(size=(ACTIONS, ATOMS)).astype(np.float32)
    network = make_network(NetworkSettings(network="Table"), 2, ACTIONS, Table(jnp.asarray(logits)), atoms=ATOMS)
    q = network.q_values(network.init(jax.random.key(0)), jnp.zeros((1, 2)))
    np.testing.assert_allclose(LEAST + (MOST - LEAST) * q[0], softmax(logits) @ Z, rtol=1e-5)
    for shape in ((ACTIONS,), (ATOMS, ACTIONS)):
        with pytest.raises(InputError, match=r"over 6 atoms for each. Give .* of shape \(3, 6\)"):
            make_network(NetworkSettings(network="Table"), 2, ACTIONS, Table(jnp.zeros(shape)), atoms=ATOMS)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"loss": "c51"}, "value_min and value_max were not given"),
        ({"loss": "hl-gauss", "value_min": 0.0}, "but value_max was not given"),
        ({"loss": "c51", "value_min": 2.0, "value_max": 2.0}, "Give a value_max above value_min"),
        ({"value_min": 0.0}, "loss = 'squared' has none"),
        ({"loss": "c51", "value_min": 0.0, "value_max": 9.0, "differentiation": "closed-form"}, "a single Q-value"),
        ({"loss": "c51", "value_min": 0.0, "value_max": 9.0, "atoms": 1}, "a whole number from 2"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        configure("CartPole", "srg-dqn", steps=5_000, **options)
