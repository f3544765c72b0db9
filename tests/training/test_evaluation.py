"""Greedy evaluation against Gymnasium's own CartPole-v1 and a network in NumPy."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from srgdqn.config import NetworkSettings
from srgdqn.learner.networks import make_network
from srgdqn.learner.normalisation import Moments, Normaliser
from srgdqn.tasks import Task
from srgdqn.training import train_rounds
from srgdqn.training.evaluation import Evaluation, evaluate_greedily, evaluation_keys
from srgdqn.training.program import programs_for
from tiny import HIDDEN, LANES, TIME_LIMIT, q_values, tiny

EPISODES, SEED, POLICIES = 3, 11, 8
AS_IT_IS = Normaliser(None, None, None)

# Rounding differs, so that the actions of long episodes may part ways where two are equally good.
SHORT = 60

Policies = dict[str, np.ndarray]
Episode = tuple[float, int, bool]  # return, length, whether terminated


@pytest.fixture(scope="module")
def policies() -> Policies:
    """Random perceptrons, but for the last one, which balances: it pushes to where the pole leans and turns."""
    random = np.random.default_rng(0)
    shapes = {"0.weight": (4, HIDDEN), "0.bias": (HIDDEN,), "1.weight": (HIDDEN, 2), "1.bias": (2,)}
    drawn = {name: random.normal(0, 1, (POLICIES, *shape)).astype(np.float32) for name, shape in shapes.items()}
    for array in drawn.values():
        array[-1] = 0
    drawn["0.weight"][-1, :, 0] = [0.1, 0.3, 3.0, 1.0]
    drawn["0.weight"][-1, :, 1] = [-0.1, -0.3, -3.0, -1.0]
    drawn["1.weight"][-1, 0, 1] = drawn["1.weight"][-1, 1, 0] = 1.0
    return {f"network.layers.{name}": array for name, array in drawn.items()}


def in_gymnasium(policies: Policies, row: int, start: np.ndarray) -> Episode:
    environment: Any = gymnasium.make("CartPole-v1").unwrapped
    environment.reset()
    environment.state = np.asarray(start, np.float64)
    observation, total = np.asarray(start, np.float32), 0.0
    for length in range(1, 501):
        action = int(np.argmax(q_values(policies, row, observation)))
        observation, reward, terminated, _, _ = environment.step(action)
        total += float(reward)
        if terminated:
            return total, length, True
    return total, 500, False


def starts(seed: int, episodes: int) -> np.ndarray:
    """Where the episodes start, drawn as CartPole's documentation says: uniformly within 0.05."""
    keys = evaluation_keys(seed, episodes)
    return np.stack([np.asarray(jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)) for key in keys.start])


def parameters_of(policies: Policies) -> Any:
    """The arrays in the form of the package's perceptron."""
    network = make_network(NetworkSettings(hidden=(HIDDEN,)), 4, 2)
    form = jax.eval_shape(network.init, jax.random.key(0))
    leaves = [policies[f"network.{jax.tree_util.keystr(p, simple=True, separator='.')}"] for p, _ in _paths(form)]
    return jax.tree.unflatten(jax.tree.structure(form), leaves)


def _paths(tree: Any) -> list[tuple[Any, Any]]:
    return jax.tree_util.tree_leaves_with_path(tree)


def evaluate(task: Task, policies: Policies, keys: Any, normaliser: Normaliser = AS_IT_IS) -> Evaluation:
    """All policies at once, as many as there are."""
    network = make_network(NetworkSettings(hidden=(HIDDEN,)), 4, 2)
    play = jax.vmap(lambda parameters: evaluate_greedily(task, network, parameters, normaliser, keys))
    return jax.tree.map(np.asarray, jax.jit(play)(parameters_of(policies)))


@pytest.fixture(scope="module")
def task() -> Task:
    return tiny()[1]


@pytest.fixture(scope="module")
def evaluation(task: Task, policies: Policies) -> Evaluation:
    return evaluate(task, policies, evaluation_keys(SEED, EPISODES))


def by_hand(policies: Policies) -> list[Episode]:
    rows = range(len(next(iter(policies.values()))))
    return [in_gymnasium(policies, row, start) for row in rows for start in starts(SEED, EPISODES)]


def assert_alike(played: list[Episode], expected: list[Episode], short: int) -> None:
    """Episodes are alike if they are equal, or both long; so many of them are short."""
    assert len(played) == len(expected)
    assert sum(length <= SHORT for _, length, _ in expected) >= short
    for one, other in zip(played, expected, strict=True):
        assert one == other or min(one[1], other[1]) > SHORT


def episodes(evaluation: Evaluation) -> list[Episode]:
    columns = (column.ravel().tolist() for column in evaluation)
    return list(zip(*columns, strict=True))


def test_lengths_and_raw_returns_are_those_of_gymnasium(evaluation: Evaluation, policies: Policies) -> None:
    assert_alike(episodes(evaluation), by_hand(policies), short=12)
    # The policies differ, and the task's time limit is not the evaluation's, which the last policy reaches.
    assert len(set(evaluation.length.ravel().tolist())) > 5
    assert evaluation.length.max() > TIME_LIMIT
    assert episodes(evaluation)[-EPISODES:] == [(500.0, 500, False)] * EPISODES


def test_normalised_observations_are_what_the_network_sees(task: Task, policies: Policies) -> None:
    some = {name: array[:4] for name, array in policies.items()}
    moments = Moments(jnp.float32(9), jnp.array([0.1, -0.3, 0.02, 0.4]), jnp.array([0.5, 2.0, 0.1, 0.7]))
    seen = evaluate(task, some, evaluation_keys(SEED, EPISODES), Normaliser(moments, None, None))
    stored = {f"normaliser.{name}": np.stack([np.asarray(value)] * 4) for name, value in moments._asdict().items()}
    assert_alike(episodes(seen), by_hand({**some, **stored}), short=6)
    assert episodes(seen) != by_hand(some)


def test_the_keys_depend_on_the_seed_and_the_episode_alone() -> None:
    few, many, other = (
        [np.asarray(jax.random.key_data(part)) for part in evaluation_keys(*args)] for args in ((7, 2), (7, 5), (8, 5))
    )
    assert len(np.unique(np.concatenate([*many, *other]), axis=0)) == 30
    for short, long in zip(few, many, strict=True):
        np.testing.assert_array_equal(short, long[:2])


def test_every_round_of_a_run_has_the_same_starts() -> None:
    configuration, task = tiny()
    programs, _ = programs_for(configuration, task)
    lanes = programs.init(jnp.uint32(0), jnp.arange(LANES, dtype=jnp.uint32), jnp.ones(LANES, bool))
    same = jax.tree.map(lambda leaf: jnp.stack([leaf[2]] * LANES), lanes.learner.parameters)
    lanes = lanes._replace(learner=lanes.learner._replace(parameters=same))
    played = episodes(jax.tree.map(np.asarray, programs.evaluate(lanes, evaluation_keys(SEED, EPISODES))))
    assert played == played[:EPISODES] * LANES


def test_the_table_of_a_run_is_what_its_final_policies_play_in_gymnasium() -> None:
    trained = train_rounds(*tiny(rounds=6, seed=SEED))
    table = trained.tables["evaluations"]
    assert table["round"].tolist() == [row for row in range(6) for _ in range(EPISODES)]
    assert table["episode"].tolist() == list(range(EPISODES)) * 6
    assert set(table["step"].tolist()) == {200}
    terminated = [not success for success in table["success"].tolist()]
    played = list(zip(table["return"].tolist(), table["length"].tolist(), terminated, strict=True))
    assert_alike(played, by_hand(trained.policies), short=12)
