"""Estimators in whole runs: numbers of their own, what they log, what they have evaluated, and several outer iterations
after each block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import family
import reference
import srgdqn
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.estimators import ESTIMATORS, Direction, Estimator, Number, Query, register_estimator
from srgdqn.learner.networks import make_network
from srgdqn.runs.configurations import dumps, loads, options_from_toml
from srgdqn.training.draws import draw_block
from srgdqn.training.lane import round_keys
from srgdqn.training.program import programs_for
from tiny import BLOCK, TINY, lane_segments, tiny
from translation import distance, flat, from_packed, options_of

HOW: dict[str, Any] = {**TINY, "progress": False, "rounds": 2}
HOST = {name: value for name, value in HOW.items() if name not in ("lanes", "time_limit")} | {"time_limit": 12}


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(ESTIMATORS)
    yield
    ESTIMATORS.clear()
    ESTIMATORS.update(before)


def mean_of(theta: Any) -> Any:
    """The mean over all parameters: a linear function, so that it can be followed by itself."""
    leaves = [leaf.ravel() for leaf in jax.tree.leaves(theta)]
    return jnp.concatenate(leaves).mean()


def averaged(inner: Estimator) -> Estimator:
    """Another estimator, whose parameters are averaged exponentially for evaluations."""

    def init(theta: Any, work: Any) -> Any:
        assert inner.init is not None
        return inner.init(theta, work), theta, jnp.asarray(0.1)

    def direction(state: Any, theta: Any, previous: Any, query: Query) -> Direction:
        made = inner.direction(state[0], theta, previous, query)
        return made._replace(state=(made.state, state[1], query.numbers["share"]))

    def finish(state: Any, theta: Any) -> Any:
        of_inner, average, share = state
        return of_inner, jax.tree.map(lambda old, new: old + share * (new - old), average, theta), share

    return inner._replace(
        init=init,
        direction=direction,
        finish=finish,
        numbers=(*inner.numbers, Number("share", 0.25, "Weight of the newest parameters in the average.", 0, 1)),
        logged=(
            ("theta_mean", lambda memory, theta: mean_of(theta)),
            ("average_mean", lambda memory, theta: mean_of(memory[1])),
        ),
        evaluated=lambda memory, theta: memory[1],
    )


# Numbers of its own


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (dict(estimator="storm", a=2), r"a is 2(\.0)?, but must be from 0 to 1 \(Weight of the new gradient"),
        (dict(estimator="storm", a=float("nan")), r"a is nan"),
        (dict(estimator="storm", a="much"), r"a is 'much'"),
        (dict(estimator="page", anchor_batches=2.5), r"anchor_batches is 2\.5, but must be a whole number"),
        (dict(estimator="page", anchor_batches=0), r"anchor_batches is 0(\.0)?, but must be a whole number from 1"),
        (dict(estimator="mars", weight=-1), r"weight is -1(\.0)?, but must be 0 or more"),
        (dict(estimator="srg", a=0.1), r"a is a number of the estimator .*'storm'.*, but estimator = 'srg'\. Give"),
        (dict(estimator="storm", refresh=0.1), r"refresh is a number of the estimator .*, but estimator = 'storm'"),
        (dict(estimator="page", refesh=0.1), r"unknown option 'refesh'\. Did you mean 'refresh'\?"),
        (
            dict(estimator="window_svrg"),
            r"renews its anchor where a hard target network is copied, but target = 'current'",
        ),
    ],
)
def test_what_is_wrong_with_a_number_is_said(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        srgdqn.train("CartPole", "svr-dqn", **HOW, **options)


def test_numbers_are_options_that_are_recorded() -> None:
    configuration = configure("CartPole", "dqn-storm", a=0.3, steps=2_000)
    assert configuration.options()["a"] == 0.3
    assert configuration.options()["reset"] == 1
    assert loads(dumps(configuration)) == configuration
    file = options_from_toml('algorithm = "dqn-storm"\n[estimator]\na = 0.25\nreset = 0\n')
    assert configure("CartPole", file.algorithm or "", **file.options).options()["a"] == 0.25
    # Another estimator has other numbers, and none of the first's.
    other = configuration.with_options(dict(estimator="mars"))
    assert dict(other.estimator.own).keys() == {"weight", "longest"}
    assert dict(configuration.with_options(dict(estimator="srg")).estimator.own) == {}


def test_numbers_enter_the_program_as_arguments_and_sizes_compile_anew(compilations: list[str]) -> None:
    def trained(**numbers: float) -> tuple[list[np.ndarray], int]:
        before = len(compilations)
        result = srgdqn.train("CartPole", "dqn-adam", **HOW, estimator="page", **numbers)
        return list(result.run.parameters.values()), len(compilations) - before

    first, _ = trained(refresh=0.5, anchor_batches=2)
    other, compiled = trained(refresh=0.25, anchor_batches=2)
    assert compiled == 0
    assert any((a != b).any() for a, b in zip(first, other, strict=True))
    larger, compiled = trained(refresh=0.5, anchor_batches=3)
    assert compiled > 0
    assert any((a != b).any() for a, b in zip(first, larger, strict=True))


def test_what_begins_a_memory_knows_every_size_and_only_those(compilations: list[str]) -> None:
    """Of an array's values as well as of its form, also where a program for its beginning is there already."""
    numbers = Number("height", 3, "Something's size.", 1, 9, size=True), Number("share", 0.5, "A share.", 0, 1)

    def init(theta: Any, work: Any) -> Any:
        # Nothing is noted here: what a function refers to is part of its identity, and compiles anew once it changes.
        assert (set(work.numbers), work.window) == ({"height"}, None)
        return jnp.asarray([work.batch_size, work.inner_batch, work.slots, work.numbers["height"]], jnp.float32)

    logged = tuple((f"size_{i}", lambda memory, theta, i=i: memory[i]) for i in range(4))
    mine = ESTIMATORS["sgd"]._replace(init=init, numbers=numbers, logged=logged)
    register_estimator("mine", mine)
    for sizes in (dict(batch_size=4, height=3), dict(batch_size=5, height=3), dict(batch_size=5, height=4)):
        result = srgdqn.train("CartPole", "sgd-inner", **{**HOW, **sizes}, estimator="mine")
        row = result.curves.drop_nans().row(0, named=True)
        assert [row[f"size_{i}"] for i in range(4)] == [sizes["batch_size"], 1, 48, sizes["height"]]


# What is logged and evaluated


@pytest.mark.parametrize("task", ["CartPole", "CartPole-v1"])
def test_averaged_parameters_are_logged_evaluated_and_saved(task: str) -> None:
    """The average as its file has it: followed by hand in one linear function of all parameters."""
    register_estimator("averaged", averaged(ESTIMATORS["storm"]))
    how = HOW if task == "CartPole" else HOST
    usual = {**how, "steps": 320, "window": BLOCK, "alpha": 0.05, "kernel": "xla"}
    result = srgdqn.train(task, "dqn-storm", **usual, estimator="averaged", share=0.25)
    plain = srgdqn.train(task, "dqn-storm", **usual)
    at_once = srgdqn.train(task, "dqn-storm", **usual, estimator="averaged", share=1.0)
    never = srgdqn.train(task, "dqn-storm", **usual, estimator="averaged", share=0.0)

    def means(of: srgdqn.Result) -> np.ndarray:
        arrays = [np.asarray(array, float).reshape(2, -1) for array in of.run.parameters.values()]
        return np.concatenate(arrays, axis=1).mean(axis=1)

    curves = result.curves.filter(result.curves["loss"].is_not_nan() & result.curves["loss"].is_not_null())
    for number in (0, 1):
        own = curves.filter(curves["round"] == number).sort("step")
        assert len(own) == 18  # the windows of 16 steps from 48 on
        average = means(never)[number]  # θ at the start
        for theta, found in own.select("theta_mean", "average_mean").iter_rows():
            average += 0.25 * (theta - average)
            assert found == pytest.approx(average, abs=1e-6)
        assert means(result)[number] == pytest.approx(average, abs=1e-6)
        assert abs(means(plain)[number] - average) > 1e-4
    # What acts and learns is not averaged.
    columns = ["reward", "loss", "theta_norm"]
    for other in (result, at_once, never):
        assert other.curves.select(columns).equals(plain.curves.select(columns), null_equal=True)
    for name, array in plain.run.parameters.items():
        np.testing.assert_allclose(at_once.run.parameters[name], array, rtol=1e-6)
    assert at_once.evaluations.equals(plain.evaluations)
    # The policies that are handed out are those that were evaluated.
    observations = np.random.default_rng(0).normal(size=(64, 4))
    for number in (0, 1):
        np.testing.assert_array_equal(at_once.policy(number)(observations), plain.policy(number)(observations))
    assert any((result.policy(n)(observations) != plain.policy(n)(observations)).any() for n in (0, 1))


# Several outer iterations after each block


@pytest.mark.parametrize("name", ["dqn-storm", "srg-adam-steps"])
def test_gradient_steps_are_outer_iterations_on_batches_of_their_own(name: str) -> None:
    """All that was learned, by hand: from the transitions that a round left behind, and the words that it drew."""
    updates, blocks = 3, 6
    # The ring is as long as the round.
    options = dict(gradient_steps=updates, steps=blocks * BLOCK, replay_capacity=blocks * BLOCK, activation="tanh")
    with jax.enable_x64(True):
        configuration, task = tiny(name, **options, alpha=0.02, kernel="xla")
        programs, _ = programs_for(configuration, task)
        [segment] = lane_segments(configuration, programs, [0])
        rows, learned = from_packed(segment.lanes.ring[0]), jax.tree.map(lambda leaf: leaf[0], segment.lanes.learner)
        network_key, _, key, _ = round_keys(jnp.uint32(0), jnp.uint32(0))
        theta = flat(make_network(configuration.network, 4, 2).init(network_key))

        @jax.jit
        def words(index: jax.Array) -> tuple[jax.Array, jax.Array]:
            batches = draw_block(configuration, key, index, actions=2, rows=4).batches
            return batches.batch, batches.picks

        drawn = [jax.tree.map(np.asarray, words(jnp.asarray(block))) for block in range(blocks)]

    o = options_of(configuration, (4, configuration.network.hidden[0], 2))
    storm = family.Round("storm", o, theta, dict(configuration.estimator.own), adam_steps=True)
    state = reference.init(o, theta)
    for block in range(2, blocks):  # the first two end before learning starts
        written = (block + 1) * BLOCK
        for update in range(updates):
            data = [rows[written - 1 - int(word) % written] for word in drawn[block][0][update]]
            picks = (drawn[block][1][update] % len(data)).tolist()
            if name == "dqn-storm":
                storm.outer_iteration(family.Given(data))
            else:
                state, _ = reference.outer_iteration(name, o, state, data, picks)
    expected = storm.thetas[-1] if name == "dqn-storm" else state.theta
    assert int(learned.iterations) == (blocks - 2) * updates
    assert distance(flat(learned.parameters), expected) < 1e-6 < distance(theta, expected)


SHARE = 1.0


def test_what_is_evaluated_follows_what_its_function_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell of a notebook that is run again changes what a function of the estimator reads."""

    def shrunk(memory: Any, theta: Any) -> Any:
        return jax.tree.map(lambda leaf: SHARE * leaf, theta)

    register_estimator("shrunk", ESTIMATORS["storm"]._replace(evaluated=shrunk))
    norms = []
    for share in (1.0, 0.5):
        monkeypatch.setitem(globals(), "SHARE", share)
        result = srgdqn.train("CartPole", "dqn-storm", **HOW, estimator="shrunk", kernel="xla")
        norms.append(sum(float((np.asarray(array, float) ** 2).sum()) for array in result.run.parameters.values()))
    assert norms[1] == pytest.approx(norms[0] / 4, rel=1e-5)


def test_an_estimator_per_batch_needs_no_inner_iterations() -> None:
    usual = srgdqn.train("CartPole", "dqn-storm", **HOW, kernel="xla")
    no_inner = {**HOW, "inner_iterations": 0}
    without = srgdqn.train("CartPole", "dqn-storm", **no_inner, kernel="xla")
    assert without.curves.equals(usual.curves)
