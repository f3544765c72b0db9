"""A round that learns in the kernel and acts in Python, beside the plain NumPy reference in double precision."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings

import reference
from srgdqn.adapters.replay_memory import FlatMemory
from srgdqn.config import Configuration
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.configure import configure
from srgdqn.learner.estimator import Origin
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.outer_iteration import LearnerState, batch_rows, init_learner
from srgdqn.training.batches import ChosenRows
from srgdqn.training.host.learner import KernelLearner
from storm_reference import Before
from translation import KERNELS, expected_iteration, flat, from_packed, options_of, to_packed, to_parameters

pytestmark = pytest.mark.usefixtures("kernel")

CLOSE, ROUNDING, MARGIN = 1e-4, 1e-6, 2e-5  # as in test_learning.py
NO_STATISTICS = Normaliser(None, None, None)


def learner_of(configuration: Configuration, theta: np.ndarray, sizes: tuple[int, ...]) -> KernelLearner:
    state = init_learner(configuration, to_parameters(theta.astype(np.float32), sizes))
    made = KernelLearner(configuration, state)
    made.restore(state, NO_STATISTICS)
    return made


def remembering(data: list[reference.Transition]) -> FlatMemory:
    rows = to_packed(data).astype(np.float32)
    memory = FlatMemory(len(rows), (rows.shape[1] - 3) // 2, 9)
    memory.rows[:] = rows
    return memory


def rows_of(count: int, picks: np.ndarray) -> ChosenRows:
    """All rows of a memory, and picks from them."""
    slots = np.arange(count)
    return ChosenRows(Origin(slots, slots + 1, *[np.array(count)] * 2), None, picks, None, None)  # type: ignore[arg-type]


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    inner_iterations, inner_batch = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    target, double = draw(st.sampled_from(["current", "outer", "hard", "polyak"])), draw(st.booleans())
    return dict(
        name=draw(st.sampled_from(sorted(KERNELS.keys() - {"dqn-sgd-queries"}))),
        readings=draw(st.sampled_from(["corrected", "printed"])),
        sizes=(draw(st.integers(1, 9)), *draw(st.lists(st.integers(1, 9), max_size=2)), draw(st.integers(1, 5))),
        rows=draw(st.sampled_from([1, 5, 8, 16, 40])),  # some can be shared out among eight, some cannot
        seed=draw(st.integers(0, 2**32 - 1)),
        progress=draw(st.floats(0, 1, width=32)),
        options=dict(
            inner_iterations=inner_iterations,
            inner_batch=inner_batch,
            target=target,
            bootstrap="double" if double and target in ("hard", "polyak") else "max",
            loss=draw(st.sampled_from(["squared", "huber"])),
            clip_norm=draw(st.sampled_from([None, 0.5])),
            schedule=draw(st.sampled_from(["constant", "linear", "cosine"])),
            schedule_end=0.25,
            huber_delta=0.5,
            target_period=2,
            target_tau=0.25,
            eta=0.01,
            alpha=0.005,
        ),
    )


@given(problems())
@settings(max_examples=60)
def test_outer_iterations_are_the_references(problem: dict[str, Any]) -> None:
    sizes, count, options = problem["sizes"], problem["rows"], problem["options"]
    algorithm, more = KERNELS[problem["name"]]
    assume(ALGORITHMS[algorithm].options["estimator"] == "none" or options["inner_iterations"] > 0)
    configuration = configure(
        "Lander-v0",
        algorithm,
        readings=problem["readings"],
        defaults={},
        hidden=sizes[1:-1],
        batch_size=count,
        learning_starts=max(count, 64),
        replay_capacity=max(count, 64),
        steps=10_000,
        **options,
        **more,
    )
    assert batch_rows(configuration) == count
    o = options_of(configuration, sizes)
    inner = configuration.estimator
    theta, drawn, chosen = reference.random_problem(
        problem["seed"], sizes, count, inner.inner_iterations, inner.inner_batch
    )
    theta, picks = theta.astype(np.float32), np.array(chosen, np.int32).reshape(-1, inner.inner_batch)
    data = from_packed(to_packed(drawn).astype(np.float32))
    learner = learner_of(configuration, theta, sizes)
    expected = reference.init(o, theta.astype(float))
    before = Before(expected.theta, np.zeros_like(expected.theta))
    memory = remembering(data)
    for _ in range(2):  # the second with moments, and with a target network and a memory that are others
        start = expected
        good, found = learner.learn(memory, rows_of(count, picks), np.float32(problem["progress"]), NO_STATISTICS)
        expected, before, record = expected_iteration(
            configuration, sizes, start, before, data, picks.tolist(), problem["progress"]
        )
        assume(max(np.linalg.norm(each) for each in record.theta) < 1e3)
        assume(len(sizes) == 2 or reference.smallest_preactivation(o, record.theta, data) > MARGIN)
        assert good
        got: LearnerState = learner.state
        largest = max(np.linalg.norm(v) for v in (*record.delta, record.raw))
        along = max(np.linalg.norm(expected.theta - start.theta), 0.01 * largest)
        size = np.linalg.norm(expected.theta)
        for tree, wanted, scale, rounded in (
            (got.parameters, expected.theta, along, size),
            (got.adam.first, expected.first, largest, 1.0),
            (got.adam.second, expected.second, largest**2, 1.0),
            *(() if expected.target is None else ((got.target, expected.target, along, size),)),
            *(() if before is None else zip(got.memory, before, (0, largest), (size, 1.0), strict=True)),
        ):
            error = np.linalg.norm(flat(tree).astype(float) - wanted)
            assert error <= 4 * (CLOSE * scale + ROUNDING * rounded)
        assert (int(got.adam.updates), int(got.iterations)) == (expected.adam_count, expected.iterations)
        assert found[0] == pytest.approx(record.loss, rel=1e-3, abs=1e-4)
        assert found[3] == pytest.approx(size, rel=1e-5)


@pytest.mark.parametrize("algorithm", ["srg-dqn", "dqn-storm"])
def test_what_is_given_is_what_is_taken_back(algorithm: str) -> None:
    configuration = configure("Lander-v0", algorithm, defaults={}, steps=10_000, hidden=(7, 5), target="hard")
    rng = np.random.default_rng(0)
    sizes = (3, 7, 5, 2)
    learner = learner_of(configuration, rng.normal(size=4 * 7 + 8 * 5 + 6 * 2), sizes)
    given = jax.tree.map(
        lambda leaf: (
            jnp.asarray(rng.normal(size=leaf.shape).astype(np.float32))
            if leaf.dtype == np.float32
            else jnp.asarray(rng.integers(100), jnp.int32)
        ),
        learner.state,
    )
    learner.restore(given, NO_STATISTICS)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((np.asarray(a) == np.asarray(b)).all()), given, learner.state))


@pytest.mark.parametrize("rows", [8, 7])
@pytest.mark.parametrize("algorithm", ["srg-dqn", "dqn-storm"])
def test_an_iteration_that_leads_to_no_number_is_undone(algorithm: str, rows: int) -> None:
    options = dict(steps=10_000, hidden=(4,), target="polyak", batch_size=rows, replay_capacity=64, learning_starts=64)
    sizes_of_steps = dict(step="gradient", eta=1e30)
    configuration = configure("Lander-v0", algorithm, defaults={}, **sizes_of_steps, **options)
    sizes = (2, 4, 3)
    rng = np.random.default_rng(1)
    learner = learner_of(configuration, rng.normal(size=12 + 15), sizes)
    _, data, _ = reference.random_problem(1, sizes, rows, 0)
    before = jax.tree.leaves(learner.state)
    picks = np.zeros((16, 1), np.int32)
    good, found = learner.learn(remembering(data), rows_of(rows, picks), np.float32(0), NO_STATISTICS)
    assert not good
    assert not np.isfinite(found[2:]).all()
    assert all((a == b).all() for a, b in zip(before, jax.tree.leaves(learner.state), strict=True))


@given(st.integers(0, 2**32 - 1))
def test_its_actions_are_the_best_by_its_parameters(seed: int) -> None:
    configuration = configure("Lander-v0", "dqn-adam", defaults={}, steps=10_000, hidden=(11, 5))
    sizes = (6, 11, 5, 4)
    rng = np.random.default_rng(seed)
    theta = np.float32(rng.normal(size=7 * 11 + 12 * 5 + 6 * 4))
    learner, o = learner_of(configuration, theta, sizes), options_of(configuration, sizes)
    rows = np.float32(rng.normal(size=(20, 6)))
    chosen = learner.policy.rows(rows)
    for row, action in zip(rows.astype(float), chosen, strict=True):
        q = reference.q_values(o, theta.astype(float), row)
        assert q[action] >= q.max() - 1e-5 * (1 + np.abs(q).max())
