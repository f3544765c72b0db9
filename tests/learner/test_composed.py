"""Networks with parts, against the papers' formulas in plain NumPy and double precision, unit by unit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from srgdqn.config import Configuration, GradientSettings, NetworkSettings
from srgdqn.errors import InputError
from srgdqn.learner.composed import ComposedNetwork, NoisyLayer
from srgdqn.learner.gradients import RowNoise, Transitions, make_gradients, outer_batch
from srgdqn.learner.networks import CNN, MLP, Network, make_network
from srgdqn.learner.outer_iteration import init_learner, outer_iteration

INPUTS, HIDDEN, ACTIONS, ROWS = 3, (5, 4), 3, 6
EVERY: dict[str, Any] = {"dueling": True, "layer_norm": True, "noisy": True, "dropout": 0.4}
PARTS: dict[str, dict[str, Any]] = {**{name: {name: value} for name, value in EVERY.items()}, "all": EVERY}


def key_of(seed: int) -> Any:
    return jax.random.key(seed, impl="threefry2x32")


def perturbed(parameters: Any, seed: int) -> Any:
    """The parameters with noise of size 0.3 on every number, so that none is 0 or 1."""
    generator = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: leaf + 0.3 * generator.normal(size=leaf.shape), parameters)


def problem(parts: dict[str, Any], seed: int, **options: Any) -> tuple[NetworkSettings, Network, Any]:
    chosen = NetworkSettings(**{"hidden": HIDDEN, "activation": "tanh", **options, **parts})
    network = make_network(chosen, INPUTS, ACTIONS)
    return chosen, network, perturbed(network.init(key_of(seed)), seed)


def rows_of(seed: int) -> Transitions:
    generator = np.random.default_rng(seed)
    return Transitions(
        jnp.asarray(generator.normal(size=(ROWS, INPUTS))),
        jnp.asarray(generator.integers(ACTIONS, size=ROWS), jnp.int32),
        jnp.asarray(generator.normal(size=ROWS)),
        jnp.asarray(generator.normal(size=(ROWS, INPUTS))),
        jnp.asarray(generator.integers(2, size=ROWS), float),
    )


def expected_q(theta: ComposedNetwork, x: np.ndarray, row: int, noise: Any) -> np.ndarray:
    """One row's Q-values: every layer's own weights are written out."""

    def affine(index: int, x: np.ndarray) -> np.ndarray:
        layer = [*theta.layers, theta.value][index]
        weight, bias = np.array(layer.weight), np.array(layer.bias)
        if isinstance(layer, NoisyLayer) and noise is not None:
            p, q = np.array(noise.inputs[index][row]), np.array(noise.outputs[index][row])
            weight = weight + np.array(layer.weight_scale) * p[:, None] * q[None, :]
            bias = bias + np.array(layer.bias_scale) * q
        return np.array([sum(x[i] * weight[i, j] for i in range(len(x))) + bias[j] for j in range(len(bias))])

    last = len(theta.layers) - 1
    for index in range(last):
        x = affine(index, x)
        if theta.norms:
            x = (x - np.mean(x)) / np.sqrt(np.var(x) + 1e-5)
            x = x * np.array(theta.norms[index].gain) + np.array(theta.norms[index].shift)
        x = np.tanh(x)
        if noise is not None and noise.masks:
            x = x * np.array(noise.masks[index][row])
    q = affine(last, x)
    return q if theta.value is None else affine(last + 1, x)[0] + q - np.mean(q)


@pytest.mark.parametrize("parts", PARTS)
def test_q_values_are_the_formulas(parts: str) -> None:
    with jax.enable_x64(True):
        chosen, network, theta = problem(PARTS[parts], 3)
        assert isinstance(network.structure, ComposedNetwork)
        x = rows_of(4).observation
        noise = network.draw_noise(theta, key_of(1), (ROWS,), chosen.dropout)
        for given_noise in (None, noise):
            found = network.q_values(theta, x, given_noise)
            expected = [expected_q(theta, np.array(x[row]), row, given_noise) for row in range(ROWS)]
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        assert (np.abs(found - network.q_values(theta, x)).max() > 1e-3) == chosen.has_noise


def test_without_parts_it_is_the_plain_class() -> None:
    assert type(make_network(NetworkSettings(), 3, 2).structure) is MLP
    assert type(make_network(NetworkSettings(network="cnn"), (1, 36, 36), 2).structure) is CNN
    plain = make_network(NetworkSettings(hidden=HIDDEN), INPUTS, ACTIONS).init(key_of(0))
    composed = make_network(NetworkSettings(hidden=HIDDEN, **EVERY), INPUTS, ACTIONS).init(key_of(0))
    for layer, other in zip(plain.layers, composed.layers, strict=True):
        np.testing.assert_array_equal(layer.weight, other.weight)
        np.testing.assert_array_equal(other.weight_scale, np.float32(0.5 / np.sqrt(layer.weight.shape[0])))
        np.testing.assert_array_equal(other.bias_scale, np.float32(0.5 / np.sqrt(layer.weight.shape[0])))


def test_noise_has_the_moments_of_the_paper_and_rows_are_uncorrelated() -> None:
    _, network, theta = problem({"noisy": True}, 0)
    draws = jax.vmap(lambda key: network.draw_noise(theta, key, (2,)))(jax.random.split(key_of(0), 40_000))
    for each in (*draws.inputs, *draws.outputs):
        f = np.array(each, np.float64)  # keys, rows, units
        np.testing.assert_allclose(f.mean(0), 0, atol=0.03)
        np.testing.assert_allclose((f**2).mean(0), np.sqrt(2 / np.pi), rtol=0.03)  # E|x| of a normal x
        np.testing.assert_allclose((f**4).mean(0), 1, rtol=0.05)  # E x²
        np.testing.assert_allclose((f[:, 0] * f[:, 1]).mean(0), 0, atol=0.03)
        units = f[:, 0]
        assert np.abs(np.corrcoef(units.T) - np.eye(units.shape[1])).max() < 0.03
    both = np.array(draws.inputs[0][:, 0, :, None] * draws.outputs[0][:, 0, None, :])
    np.testing.assert_allclose(both.var(0), 2 / np.pi, rtol=0.05)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.97])
def test_masks_drop_their_share_and_keep_the_mean(share: float) -> None:
    _, network, theta = problem({"dropout": share}, 0)
    masks = network.draw_noise(theta, key_of(5), (50_000,), share).masks
    assert [mask.shape[1] for mask in masks] == list(HIDDEN)
    for mask in masks:
        np.testing.assert_allclose(np.unique(mask), [0, 1 / (1 - share)], rtol=1e-6)
        np.testing.assert_allclose((np.array(mask) == 0).mean(0), share, atol=0.01)
        assert np.abs(np.corrcoef(np.array(mask).T) - np.eye(mask.shape[1])).max() < 0.02


def test_acting_parameters_are_one_draw_of_noise_on_the_means() -> None:
    with jax.enable_x64(True):
        _, network, theta = problem({"noisy": True, "dueling": True}, 2)
        x, noise = rows_of(1).observation, network.draw_noise(theta, key_of(9), ())
        rows = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (ROWS, *leaf.shape)), noise)
        found = network.q_values(network.perturbed(theta, key_of(9)), x)
        np.testing.assert_allclose(found, network.q_values(theta, x, rows), rtol=1e-12)


def batch_of(chosen: NetworkSettings, network: Network, theta: Any, target: str, seed: Any) -> Any:
    """The rows of one seed with the noise of another."""
    noise = RowNoise(key_of(seed), chosen.dropout) if chosen.has_noise else None
    gradients = GradientSettings(target=target)  # type: ignore[arg-type]
    return outer_batch(gradients, network, rows_of(1), theta, perturbed(theta, 1), None, noise)


@pytest.mark.parametrize(("parts", "target"), [*((name, "hard") for name in PARTS), ("all", "current")])
def test_gradients_are_differences_of_the_loss_with_its_noise(parts: str, target: str) -> None:
    """Against central differences of the loss on every pick, with y held constant; by factors and by autodiff. The
    difference of a pair vanishes in proportion to the distance of its points: nothing of it is noise.
    """
    picks = np.array([[0, 1], [3, 3]])
    with jax.enable_x64(True):
        chosen, network, theta = problem(PARTS[parts], 0)
        drawn = jax.jit(lambda theta, seed: batch_of(chosen, network, theta, target, seed))
        sources = [
            make_gradients(GradientSettings(target=target, differentiation=how), network)  # type: ignore[arg-type]
            for how in ("auto", "autodiff")
        ]

        def along(gradient: Any, direction: Any) -> Any:
            return sum(jnp.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))

        @jax.jit
        def queried(theta: Any, direction: Any, batch: Any) -> list[Any]:
            found = []
            for source in sources:
                compact, loss, max_q = source.query(theta, batch.rows(picks))
                dense = [source.dense(jax.tree.map(lambda leaf, p=place: leaf[p], compact)) for place in range(2)]
                mean = along(source.mean(theta, batch)[0], direction)
                found.append((jnp.stack([along(each, direction) for each in dense]), mean, loss, max_q, dense))
            return found

        @jax.jit
        def values(theta: Any, batch: Any) -> tuple[Any, Any]:
            next_q = network.q_values(theta, batch.next_observation, batch.next_noise)
            return network.q_values(theta, batch.observation, batch.noise), next_q.max(-1)

        for seed in range(4):
            theta = perturbed(theta, seed)
            batch = drawn(theta, seed)
            direction = perturbed(jax.tree.map(jnp.ones_like, theta), seed + 1)
            y = batch.frozen_target
            y = batch.reward + batch.discount * values(theta, batch)[1] if y is None else y

            def losses(theta: Any, batch: Any = batch, y: Any = y) -> np.ndarray:
                return np.array((values(theta, batch)[0][np.arange(ROWS), batch.action] - y) ** 2)

            def moved(step: float, theta: Any = theta, direction: Any = direction) -> Any:
                return jax.tree.map(lambda a, b: a + step * b, theta, direction)

            slopes = (losses(moved(1e-5)) - losses(moved(-1e-5))) / 2e-5
            for each, mean, loss, max_q, _ in (made := queried(theta, direction, batch)):
                np.testing.assert_allclose(each, slopes[picks].mean(1), rtol=1e-6, atol=1e-6)
                np.testing.assert_allclose(mean, slopes.mean(), rtol=1e-6, atol=1e-6)
                np.testing.assert_allclose(loss, losses(theta)[picks].mean(1), rtol=1e-10)
                np.testing.assert_allclose(max_q, np.array(values(theta, batch)[0]).max(-1)[picks].mean(1), rtol=1e-10)

            def distance(step: float, made: Any = made, direction: Any = direction, batch: Any = batch) -> float:
                pair = made[0][-1], queried(moved(step), direction, batch)[0][-1]
                return float(sum(np.abs(a - b).sum() for a, b in zip(*map(jax.tree.leaves, pair), strict=True)))

            assert distance(0.0) == 0
            assert distance(1e-7) < 1e-2 * distance(1e-4)


@pytest.mark.parametrize(
    ("estimator", "target"), [("srg", "current"), ("svrg", "hard"), ("storm", "hard"), ("sgd", "hard")]
)
def test_estimators_that_stand_still_have_the_anchor_for_their_direction(estimator: str, target: str) -> None:
    """With step size 0 every pair's gradients are the same, so that nothing but Δ_0 is left of a reduced direction."""
    with jax.enable_x64(True):
        chosen, network, theta = problem(EVERY, 7)
        configuration = Configuration(network=chosen).with_options(
            dict(estimator=estimator, target=target, eta=0.0, adam_process=False, inner_iterations=3, batch_size=ROWS)
        )
        state = init_learner(configuration, theta)
        picks = jnp.asarray([[0], [4], [1]])

        @jax.jit
        def traced(noise: Any) -> Any:
            return outer_iteration(configuration, network, state, rows_of(1), picks, noise=noise, keep_iterates=True)[1]

        def trace(words: list[int]) -> Any:
            return traced(jnp.asarray(words, jnp.uint32))

        made, again, other = trace([1, 2]), trace([1, 2]), trace([1, 3])
    for first, second in zip(jax.tree.leaves(made.deltas), jax.tree.leaves(again.deltas), strict=True):
        np.testing.assert_array_equal(first, second)
    assert any((a != b).any() for a, b in zip(*map(jax.tree.leaves, (made.deltas, other.deltas)), strict=True))
    if estimator in ("srg", "svrg"):
        for leaf in jax.tree.leaves(made.deltas):
            np.testing.assert_allclose(leaf[1:], np.broadcast_to(leaf[:1], leaf[1:].shape), rtol=1e-9, atol=1e-12)


def test_target_networks_and_rows_have_noise_of_their_own() -> None:
    chosen, network, theta = problem({"noisy": True}, 1)
    moving = batch_of(chosen, network, theta, "current", 3)
    frozen = batch_of(chosen, network, theta, "hard", 3)
    assert frozen.next_noise is None
    y = frozen.reward + frozen.discount * network.q_values(
        perturbed(theta, 1), frozen.next_observation, moving.next_noise
    ).max(-1)
    same = np.array(frozen.discount) == 0
    assert (np.abs(np.array(y - frozen.frozen_target))[~same] > 1e-4).all()  # the target's noise is another
    for noise in (moving.noise, moving.next_noise):
        assert len({tuple(np.sign(row).tolist()) for row in np.concatenate(noise.inputs[:2], -1)}) == ROWS
    assert (np.sign(moving.noise.inputs[0]) != np.sign(moving.next_noise.inputs[0])).any()


def test_a_convolutional_network_has_them_on_its_affine_layers() -> None:
    with jax.enable_x64(True):
        chosen = NetworkSettings(network="cnn", hidden=(6,), activation="tanh", **EVERY)
        network = make_network(chosen, (1, 36, 36), ACTIONS)
        theta = perturbed(network.init(key_of(0)), 0)
        generator = np.random.default_rng(0)
        images = jnp.asarray(generator.integers(256, size=(2, 3, 1, 36, 36)), jnp.uint8)
        data = rows_of(0)._replace(observation=images[0], next_observation=images[1])
        data = jax.tree.map(lambda leaf: leaf[:3], data)
        noise = RowNoise(key_of(1), chosen.dropout)
        plain = CNN(theta.convolutions, (), "tanh").features(data.observation)
        for target in ("current",):
            settings_ = GradientSettings(target=target)  # type: ignore[arg-type]
            batch = outer_batch(settings_, network, data, theta, theta, None, noise)
            found = network.q_values(theta, batch.observation, batch.noise)
            expected = [expected_q(theta, np.array(plain[row]), row, batch.noise) for row in range(3)]
            np.testing.assert_allclose(found, expected, rtol=1e-9)
            picks = batch.rows(jnp.asarray([[0, 1], [2, 2]]))
            source = make_gradients(settings_, network)
            compact, *rest = source.query(theta, picks)
            wanted, *others = make_gradients(
                GradientSettings(target=target, differentiation="autodiff"),  # type: ignore[arg-type]
                network,
            ).query(theta, picks)
            for place in range(2):
                dense = source.dense(jax.tree.map(lambda leaf, p=place: leaf[p], compact))
                for a, b in zip(jax.tree.leaves(dense), jax.tree.leaves(wanted), strict=True):
                    np.testing.assert_allclose(a, b[place], rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(rest, others, rtol=1e-10)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"dueling": True, "network": "mine.Own"}, "module of your own. Leave dueling out"),
        ({"noisy": True, "layer_norm": True, "network": "mine.Own"}, "Leave layer_norm and noisy out"),
        ({"dropout": 0.2, "hidden": ()}, "hidden = \\(\\) has none"),
        ({"noisy": True, "differentiation": "closed-form"}, "plain perceptrons, but noisy = True"),
        ({"dropout": 1.0}, "above 0 and below 1"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], why: str) -> None:
    from srgdqn.config.configure import configure

    with pytest.raises(InputError, match=why):
        configure("CartPole", "srg-dqn", steps=5_000, **options)
