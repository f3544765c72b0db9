"""What is wrong with an estimator or a rule of the user's own is said in a sentence that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srgdqn
from srgdqn.config.discovery import OWN_RULES
from srgdqn.errors import InputError, UserCodeError
from srgdqn.estimators import ESTIMATORS, Direction, Estimator, Number, Query, register_estimator
from srgdqn.learner.guarded import require_form
from srgdqn.learner.own_rules import Drawing, Drawn
from srgdqn.learner.replay import draw_ages
from tiny import TINY

HOW: dict[str, Any] = {**TINY, "rounds": 1, "progress": False}


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    estimators, rules = dict(ESTIMATORS), {option: dict(known) for option, known in OWN_RULES.items()}
    yield
    ESTIMATORS.clear()
    ESTIMATORS.update(estimators)
    for option, known in rules.items():
        OWN_RULES[option].clear()
        OWN_RULES[option].update(known)


def plain(state: Any, theta: Any, previous: Any, query: Query) -> Direction:
    gradient = query.on_batch(theta)
    return Direction(gradient, gradient, state)


def changed(change: Callable[[Any], Any]) -> Any:
    """A direction of which every leaf is changed."""

    def direction(state: Any, theta: Any, previous: Any, query: Query) -> Direction:
        gradient = query.on_batch(theta)
        return Direction(jax.tree.map(change, gradient), gradient, state)

    return direction


def raises(*given: Any) -> Any:
    raise ValueError("no such size")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a scalar": (dict(direction=changed(jnp.mean)), r"Δ of the estimator 'mine' has an array of shape \(\) .*weight"),
    "an axis more": (dict(direction=changed(lambda leaf: leaf[None])), r"Δ of the estimator 'mine' has an array of"),
    "whole numbers": (dict(direction=changed(lambda leaf: leaf.astype(int))), r"type int32 .* has an array of"),
    "a tuple": (dict(direction=lambda *given: (1, 2, 3)), r"gives a tuple. Return Direction\(Δ, g, state\)"),
    "a target network that is not there": (
        dict(direction=lambda state, theta, previous, query: Direction(query.target, query.on_batch(theta), state)),
        r"direction of the estimator 'mine' raised ValueError: there is no target network .* give target = 'hard' or",
    ),
    "another module in the state": (
        dict(init=lambda theta, work: (theta, jnp.zeros(3)), direction=lambda *given: plain(*given)._replace(state=())),
        r"the state after direction .* is \(\), but the state before it is \(MLP of \d arrays, \*\)\. Give both",
    ),
    "an unknown number": (
        dict(direction=lambda state, theta, previous, query: query.numbers["bal"]),
        r"direction of the estimator 'mine' raised KeyError: 'bal' \(line \d+ of test_guarded.py\)",
    ),
    "a memory that grows": (
        dict(init=lambda theta, work: jnp.zeros(3), direction=lambda *given: plain(*given)._replace(state=jnp.ones(4))),
        r"the state after direction .* \(4,\) .* the state before it has an array of shape \(3,\)",
    ),
    "a memory that ends as another": (
        dict(init=lambda theta, work: jnp.zeros(3), finish=lambda state, theta: (state, state)),
        r"what the memory of the estimator 'mine' becomes is \(\*, \*\), but the memory that init makes is \*",
    ),
    "queries that raise": (dict(queries=raises), r"queries of the estimator 'mine' raised ValueError: no such size"),
    "queries in words": (dict(evaluations=lambda work: "3"), r"evaluations .* gives '3'. Return the number"),
    "a logged tree": (dict(logged=(("x", lambda memory, theta: theta),)), r"'x' in logged .* gives a MLP"),
    "a logged vector": (dict(logged=(("x", lambda memory, theta: jnp.ones(3)),)), r"'x' in logged .* shape \(3,\)"),
    "no parameters": (dict(evaluated=lambda memory, theta: 3.0), r"what evaluated .* gives is \*, but the parameters"),
    "an end per batch": (
        dict(direction=lambda *given: plain(*given)._replace(ended=jnp.asarray(True))),
        r"there are none. Leave ended out",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_estimator_that_does_what_it_should_not(case: str) -> None:
    wrong, says = WRONG[case]
    right: dict[str, Any] = dict(direction=plain, queries=lambda work: 1, evaluations=lambda work: 1, per="batch")
    register_estimator("mine", Estimator(**{**right, **wrong}))
    with pytest.raises(InputError, match=says):
        srgdqn.train("CartPole", "dqn-adam", **HOW, estimator="mine")


def test_what_enters_adam_without_adam_is_said_with_the_rest() -> None:
    def direction(*given: Any) -> Direction:
        made = plain(*given)
        return made._replace(first=made.delta)

    register_estimator("mine", Estimator(direction, lambda work: 1, lambda work: 1, per="batch"))
    with pytest.raises(UserCodeError, match=r"direction of the estimator 'mine' says what enters Adam's moments, but"):
        srgdqn.train("CartPole", "dqn-sgd", **HOW, estimator="mine")


def test_in_a_sweep_it_costs_its_cells_alone() -> None:
    right: dict[str, Any] = dict(queries=lambda work: 1, evaluations=lambda work: 1, per="batch")
    register_estimator("mine", Estimator(direction=plain, **right))
    register_estimator("broken", Estimator(direction=lambda *given: (1, 2, 3), **right))
    options = {name: value for name, value in HOW.items() if name != "progress"}
    found = srgdqn.sweep("CartPole", "dqn-adam", {"estimator": ["mine", "broken", "storm"]}, **options)
    assert [cell.values["estimator"] for cell in found.cells] == ["mine", "storm"]
    assert [failure.values["estimator"] for failure in found.failed] == ["broken"]
    assert "gives a tuple" in found.failed[0].reason


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("mine", dict(per="bach"), "has a direction per 'bach'. Give per = 'pick'"),
        ("mine", dict(logged=(("loss", plain),)), "logs 'loss', which is a column of every run's curves already"),
        ("mine", dict(logged=(("a b", plain),)), "logs 'a b', which is no column's name"),
        ("mine", dict(logged=(("x", plain), ("x", plain))), "logs 'x' twice"),
        ("mine", dict(numbers=(("a", 1),)), "has .* among its numbers. Give Number"),
        ("", {}, "the name of an estimator is ''"),
        ("A b", {}, "the name of an estimator is 'A b'"),
    ],
)
def test_what_cannot_be_registered(name: str, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        register_estimator(name, Estimator(**{**dict(direction=plain, queries=plain, evaluations=plain), **wrong}))


def drawn_by(rule: Any) -> Drawn:
    from srgdqn.config import ReplaySettings

    srgdqn.register_sampling("mine", rule)
    words = jnp.arange(5, dtype=jnp.uint32)
    return draw_ages(ReplaySettings(sampling="mine"), Drawing(5, jnp.int32(8), words, jax.random.key(0)))


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (lambda drawing: drawing, "gives a Drawing"),
        (lambda drawing: Drawn(jnp.zeros(3, int)), r"gives ages of shape \(3,\)"),
        (lambda drawing: Drawn(jnp.zeros(5)), r"gives ages of shape \(5,\) and type float32"),
        (lambda drawing: Drawn(jnp.zeros(5, int), jnp.ones(1)), r"gives weights of shape \(1,\)"),
        (raises, "the rule 'mine' for sampling raised ValueError: no such size"),
    ],
)
def test_a_rule_for_drawing_that_gives_what_it_should_not(rule: Any, says: str) -> None:
    with pytest.raises(UserCodeError, match=says):
        drawn_by(rule)


def test_no_rule_draws_beyond_what_is_stored() -> None:
    drawn = drawn_by(lambda drawing: Drawn(jnp.asarray([-3, 0, 7, 8, 10**6])))
    assert np.asarray(drawn.ages).tolist() == [0, 0, 7, 7, 7]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            lambda q, frozen, online: q(frozen).max(),
            r"values of shape \(\). Return one for each of \(\d+,\) rows",
        ),
        (lambda q: q(None), r"the rule 'mine' for bootstrap raised TypeError"),
    ],
)
def test_a_rule_for_the_value_that_gives_what_it_should_not(rule: Any, says: str) -> None:
    srgdqn.register_bootstrap("mine", rule)
    with pytest.raises(UserCodeError, match=says):
        srgdqn.train("CartPole", "dqn-adam", **HOW, bootstrap="mine", target="hard")


def test_forms_are_compared_whole() -> None:
    require_form("this", {"a": jnp.ones((2, 3))}, {"a": jnp.zeros((2, 3))}, "that")
    require_form("this", jnp.ones(2, int), jnp.ones(2), "that")
    with pytest.raises(UserCodeError, match=r"this is \{'a': \*\}, but that is \{'b': \*\}"):
        require_form("this", {"a": 1.0}, {"b": 1.0}, "that")
    with pytest.raises(UserCodeError, match=r"type int32, where that has .* float32"):
        require_form("this", jnp.ones(2, int), jnp.ones(2), "that", types=True)


def test_numbers_are_still_there() -> None:
    """A guarded estimator is the same estimator."""
    register_estimator(
        "mine",
        Estimator(plain, lambda work: 3, lambda work: 3, per="batch", numbers=(Number("mine_a", 1.0, "Nothing."),)),
    )
    result = srgdqn.train("CartPole", "dqn-adam", **HOW, estimator="mine", mine_a=2.0)
    assert dict(result.configuration.estimator.own) == {"mine_a": 2.0}
    assert result.rounds["queries"][0] == 3 * result.rounds["outer_iterations"][0]
    adam = srgdqn.train("CartPole", "dqn-adam", **HOW, kernel="xla")
    np.testing.assert_allclose(result.curves["theta_norm"].drop_nulls(), adam.curves["theta_norm"].drop_nulls(), 1e-5)
