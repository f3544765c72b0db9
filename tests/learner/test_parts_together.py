"""All parts of the learner together: where θ stands still, the two gradients of a pair are the same numbers, whatever
noise, masks, weights and targets they have. Combinations cover every two values of different options.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from srgdqn.config.checks import check
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.learner.estimator import Origin
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import coins_needed, init_learner, outer_iteration
from srgdqn.learner.reward_estimation import first_estimate

INPUTS, ACTIONS, ROWS, M = 3, 3, 6, 4
ATOMS: dict[str, Any] = dict(atoms=5, value_min=-4.0, value_max=4.0)
CHOICES: dict[str, list[dict[str, Any]]] = {
    "estimator": [{"estimator": name} for name in ("srg", "svrg", "saga", "loopless_sarah", "sarah_plus")],
    "target": [
        {"target": "current"},
        {"target": "outer"},
        {"target": "hard"},
        {"target": "hard", "target_networks": 3},
    ],
    "bootstrap": [{"bootstrap": name} for name in ("max", "double", "munchausen")],
    "loss": [{"loss": "squared"}, {"loss": "huber"}, {"loss": "c51", **ATOMS}, {"loss": "hl-gauss", **ATOMS}],
    "heads": [{"dueling": False}, {"dueling": True}],
    "units": [{}, {"layer_norm": True}, {"dropout": 0.4}, {"layer_norm": True, "dropout": 0.4}],
    "layers": [{"noisy": False}, {"noisy": True}],
    "steps": [{"n_step": 1}, {"n_step": 3}],
    "draws": [{}, {"sampling": "prioritised"}],
    "rewards": [{"reward_estimation": False}, {"reward_estimation": True}],
}


def configured(parts: dict[str, Any]) -> Any:
    """The configuration of some parts; None where they make no sense together, which is refused."""
    options = dict(hidden=(4,), activation="tanh", batch_size=ROWS, inner_iterations=M, eta=0.0, adam_process=False)
    try:
        return check(configure("CartPole", "srg-dqn", **{**options, "replay_capacity": 32, "steps": 3_000, **parts}))
    except InputError:
        return None


def covering() -> list[dict[str, Any]]:
    """Combinations in which every two values of different options are together, where they may be: of some drawn at
    random the one with most new pairs, until none has any.
    """
    generator, covered, found = np.random.default_rng(0), set[Any](), []

    def drawn() -> tuple[set[Any], dict[str, Any]]:
        places = {name: int(generator.integers(len(each))) for name, each in CHOICES.items()}
        parts: dict[str, Any] = {}
        for name, place in places.items():
            parts |= CHOICES[name][place]
        if configured(parts) is None:
            return set(), parts
        return set(itertools.combinations(places.items(), 2)), parts

    candidates = [drawn() for _ in range(3_000)]
    while best := max(candidates, key=lambda each: len(each[0] - covered)):
        if not best[0] - covered:
            return found
        covered |= best[0]
        found.append(best[1])
    return found


COVERING = covering()


def test_combinations_cover_every_two_values_that_may_be_together() -> None:
    assert len(COVERING) < 36
    for one, other in itertools.combinations(CHOICES, 2):
        for first, second in itertools.product(CHOICES[one], CHOICES[other]):
            both = {**first, **second}
            together = any(both.items() <= parts.items() for parts in COVERING)
            alone = configured(both | ({"target": "hard"} if "target" not in both else {}))
            assert together == (alone is not None), both


@pytest.mark.parametrize("number", range(len(COVERING)))
def test_the_gradients_of_a_pair_share_all_but_theta(number: int) -> None:
    configuration = configured(COVERING[number])
    atoms = configuration.gradients.atoms if configuration.gradients.is_distributional else 1
    network = make_network(configuration.network, INPUTS, ACTIONS, atoms=atoms)
    key, generator = jax.random.key(number, impl="threefry2x32"), np.random.default_rng(number)
    theta = network.init(key)
    state = init_learner(configuration, theta, first_estimate(configuration, network, key))
    n = configuration.replay.n_step
    rows = Transitions(
        jnp.asarray(generator.normal(size=(ROWS, INPUTS))),
        jnp.asarray(generator.integers(ACTIONS, size=ROWS), jnp.int32),
        jnp.asarray(generator.normal(size=(ROWS, n) if n > 1 else ROWS)),
        jnp.asarray(generator.normal(size=(ROWS, INPUTS))),
        jnp.asarray(generator.integers(2, size=ROWS), float),
        jnp.asarray(generator.integers(1, n + 1, size=ROWS)) if n > 1 else None,
    )
    slots = jnp.arange(ROWS)
    if state.priorities is not None:
        state = state._replace(priorities=jax.tree.map(lambda leaf: leaf + 1.0, state.priorities))
    _, trace = outer_iteration(
        configuration,
        network,
        state,
        rows,
        jnp.asarray(generator.integers(ROWS, size=(M, 1))),
        origin=Origin(slots, slots + 1, jnp.asarray(ROWS), jnp.asarray(ROWS)),
        coins=jnp.full(coins_needed(configuration), 0.99),
        noise=jnp.asarray(generator.integers(2**32, size=2), jnp.uint32),
        keep_iterates=True,
    )
    deltas = [np.asarray(leaf, float) for leaf in jax.tree.leaves(trace.deltas)]
    assert any(np.abs(leaf[0]).max() > 0 for leaf in deltas)
    size = max(np.abs(leaf).max() for leaf in deltas)
    for leaf in deltas:
        np.testing.assert_allclose(leaf[1:], np.broadcast_to(leaf[:1], leaf[1:].shape), rtol=0, atol=1e-5 * size)
