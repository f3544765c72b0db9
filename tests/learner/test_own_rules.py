"""Rules of the user's own: weights in F_D, another way to draw D and another value of S', against plain NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
import srgdqn
from srgdqn.config import ReplaySettings
from srgdqn.config.configure import configure
from srgdqn.config.discovery import OWN_RULES
from srgdqn.errors import InputError
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import init_learner, outer_iteration
from srgdqn.learner.own_rules import Drawing, Drawn, make_known, own_parts
from srgdqn.learner.replay import draw_ages
from translation import CLOSE, flat, options_of, to_parameters, to_transitions

SIZES = (3, 6, 4)
ROWS, INNER = 6, 3


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = {option: dict(rules) for option, rules in OWN_RULES.items()}
    yield
    for option, rules in before.items():
        OWN_RULES[option].clear()
        OWN_RULES[option].update(rules)


def oldest_half(drawing: Drawing) -> Drawn:
    """Only from the older half, whose weights are their place in the batch."""
    half = drawing.stored // 2
    ages = drawing.stored - 1 - (drawing.words % jnp.maximum(half, 1).astype(drawing.words.dtype)).astype(jnp.int32)
    return Drawn(ages, 1.0 + jnp.arange(drawing.rows) % 2)


def second(q: Any, frozen: Any, online: Any) -> Any:
    """As Double DQN: θ_0 chooses the action, the target network values it."""
    return jnp.take_along_axis(q(frozen), q(online).argmax(-1)[..., None], axis=-1)[..., 0]


def made(name: str, weights: np.ndarray | None, **options: Any) -> Any:
    configuration = configure(
        "MountainCar", name, hidden=SIZES[1:-1], batch_size=ROWS, inner_iterations=INNER, **options
    )
    o = options_of(configuration, SIZES)
    theta, data, picks = reference.random_problem(5, SIZES, ROWS, INNER)
    network = make_network(configuration.network, SIZES[0], SIZES[-1])
    with jax.enable_x64(True):
        state = init_learner(configuration, to_parameters(theta, SIZES))
        if state.target is not None:
            state = state._replace(target=to_parameters(theta[::-1].copy(), SIZES))
        given = (state, to_transitions(data), jnp.asarray(picks))
        weighed = None if weights is None else jnp.asarray(weights)
        iterate = jax.jit(
            lambda *given: outer_iteration(configuration, network, *given, weights=weighed, keep_iterates=True)
        )
        state, trace = iterate(*given)
    return o, theta, data, picks, state, trace


@pytest.mark.parametrize("differentiation", ["closed-form", "autodiff"])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_weights_multiply_every_gradient_of_a_row(differentiation: str, loss: str) -> None:
    """The full one and both of a pair: SRG's recursion on f_i w_i, step by step in NumPy."""
    weights = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 0.25])
    options: dict[str, Any] = dict(differentiation=differentiation, loss=loss)
    o, theta, data, picks, _, trace = made("srg-dqn-no-adam", weights, **options)

    def g(at: np.ndarray, i: int) -> np.ndarray:
        return weights[i] * reference.gradient(o, at, data[i], reference.bellman_target(o, at, data[i]))

    iterates, deltas = flat(trace.iterates, 1), flat(trace.deltas, 1)
    delta = np.mean([g(theta, i) for i in range(ROWS)], axis=0)
    np.testing.assert_allclose(deltas[0], delta, atol=CLOSE)
    for m in range(1, INNER + 1):
        [i] = picks[m - 1]
        delta = g(iterates[m], i) - g(iterates[m - 1], i) + delta
        np.testing.assert_allclose(deltas[m], delta, atol=CLOSE)
        assert np.linalg.norm(delta) > 1e-3


@pytest.mark.parametrize("differentiation", ["closed-form", "autodiff"])
def test_another_value_of_the_next_state_is_in_every_target(differentiation: str) -> None:
    srgdqn.register_bootstrap("second", second)
    options: dict[str, Any] = dict(target="hard", bootstrap="second", differentiation=differentiation)
    o, theta, data, _, _, trace = made("dqn-sgd", None, **options)
    behind, expected, differing = theta[::-1].copy(), np.zeros_like(theta), 0
    for x in data:
        action = int(np.argmax(reference.q_values(o, theta, x.s_next)))
        value = reference.q_values(o, behind, x.s_next)[action]
        differing += value != max(reference.q_values(o, behind, x.s_next))
        y = x.r + (0.0 if x.terminal else o.gamma * value)
        expected = expected + reference.gradient(o, theta, x, y) / ROWS
    assert differing  # otherwise max would give the same
    np.testing.assert_allclose(flat(trace.last_delta), expected, atol=CLOSE)
    built_in = made("dqn-sgd", None, **{**options, "bootstrap": "double"})[-1]
    np.testing.assert_array_equal(flat(built_in.last_delta), flat(trace.last_delta))


def test_with_the_present_parameters_it_is_max() -> None:
    srgdqn.register_bootstrap("second", second)
    moving = [flat(made("srg-dqn", None, bootstrap=rule)[4].parameters) for rule in ("max", "second")]
    np.testing.assert_allclose(*moving, atol=CLOSE)


def test_a_rule_draws_what_it_says() -> None:
    srgdqn.register_sampling("oldest-half", oldest_half)
    settings = ReplaySettings(replay_capacity=20, sampling="oldest-half")
    words = np.random.default_rng(0).integers(2**32, size=5_000, dtype=np.uint32)
    drawn = draw_ages(settings, Drawing(5_000, jnp.int32(12), jnp.asarray(words), jax.random.key(0)))
    ages, counts = np.unique(np.asarray(drawn.ages), return_counts=True)
    assert ages.tolist() == [6, 7, 8, 9, 10, 11]
    assert counts.min() > 700


@pytest.mark.parametrize("task", ["CartPole", "CartPole-v1"])
def test_rules_train_agents_and_are_part_of_a_runs_identity(task: str) -> None:
    """Compiled and in a Gymnasium environment: each rule changes what is learnt, and who made the run."""
    srgdqn.register_sampling("oldest-half", oldest_half)
    srgdqn.register_bootstrap("second", second)
    how: dict[str, Any] = dict(
        steps=1_000, learning_starts=64, alpha=0.01, rounds=1, target="hard", target_period=5, progress=False
    )
    how |= dict(evaluation_episodes=1, evaluation_interval=None, lanes=1)
    runs = [
        srgdqn.train(task, "dqn-adam", **how, **options)
        for options in ({"kernel": "xla"}, {"sampling": "oldest-half"}, {"bootstrap": "second"})
    ]
    norms = {float(run.curves["theta_norm"][-1]) for run in runs}
    assert len(norms) == 3
    code = [set(run.run.provenance["inputs"].get("user_code", {})) - {"environment"} for run in runs]
    assert code == [set(), {"sampling"}, {"bootstrap"}]


def test_another_process_is_told_of_them() -> None:
    srgdqn.register_sampling("oldest-half", oldest_half)
    parts = {key: part for key, part in own_parts().items() if key[0] == "sampling"}
    assert parts == {("sampling", "oldest-half"): oldest_half}
    OWN_RULES["sampling"].clear()
    make_known(parts)
    assert OWN_RULES["sampling"] == {"oldest-half": oldest_half}


def test_names_and_what_is_no_rule_are_refused() -> None:
    srgdqn.register_sampling("oldest-half", oldest_half)
    srgdqn.register_sampling("oldest-half", oldest_half)  # a cell of a notebook that runs again
    with pytest.raises(InputError, match="there already is a rule for sampling called 'oldest-half'"):
        srgdqn.register_sampling("oldest-half", second)
    with pytest.raises(InputError, match="there already is a rule for bootstrap called 'max'"):
        srgdqn.register_bootstrap("max", second)
    with pytest.raises(InputError, match=r"is a float, not a function[.] Give a function"):
        srgdqn.register_bootstrap("half", 0.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"unknown sampling 'oldest-hal'[.] Did you mean 'oldest-half'[?]"):
        configure("CartPole", sampling="oldest-hal")
    with pytest.raises(InputError, match=r"unknown bootstrap 'secon'.*[(]--import my_module[)]"):
        configure("CartPole", bootstrap="secon")
