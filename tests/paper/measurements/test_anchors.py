"""The tables of anchors: the right moments of the right rounds, each as the reference has it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import reference
from measured import watched
from srgdqn.config.configure import configure
from srgdqn.paper.measurements import anchors
from srgdqn.paper.measurements.anchors import Plan, fresh_transitions
from srgdqn.paper.measurements.recorded import RecordedRun, alike, batch_at
from srgdqn.paper.measurements.smoothness import local_smoothness
from tiny import BLOCK, HIDDEN, tiny
from translation import CLOSE, distance, flat, from_packed, from_transitions, mean_gradient, options_of, to_transitions

pytestmark = pytest.mark.usefixtures("double")

SIZES = (4, HIDDEN, 2)
ROUNDS, INNER, CAPACITY = 2, 8, 40
STEPS = {48: 2, 190: 11}  # and the numbers of their blocks
NAMES = {"srg": "srg-dqn-no-adam", "svrg": "svr-dqn-no-adam"}


def plan(**options: Any) -> Plan:
    usual = dict(rounds=ROUNDS, inner_iterations=INNER, reward_scale=0.5, eta=0.01, alpha=0.01)
    return Plan(tiny(**{**usual, **options})[0], tuple(STEPS))


@pytest.fixture(scope="module")
def measured(double: None) -> tuple[RecordedRun, dict[str, pl.DataFrame]]:
    return watched(anchors, plan())


@pytest.fixture(
    scope="module",
    params=[
        None,
        # Whose run it is does not matter.
        dict(inner_batch=2, coefficient=0.5, mask_terminal=False, anchor_step=False, algorithm="sgd-inner-adam"),
        dict(target="hard", target_period=4, loss="huber", huber_delta=0.3),
        dict(target="outer"),
    ],
    ids=str,
)
def varied(request: pytest.FixtureRequest, measured: Any) -> tuple[RecordedRun, dict[str, pl.DataFrame]]:
    return measured if request.param is None else watched(anchors, plan(**request.param))


def probed(run: RecordedRun, number: int, position: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[number, position], run.probed[0])


def frozen_at(run: RecordedRun, number: int, position: int) -> np.ndarray | None:
    """The parameters that y is computed with; None: each gradient's own."""
    thetas, _, targets = run.probed
    behind = {"outer": thetas, "hard": targets}.get(run.configuration.gradients.target)
    return None if behind is None else flat(jax.tree.map(lambda leaf: leaf[number, position], behind))


def moments(run: RecordedRun) -> list[tuple[dict[str, int], int, np.ndarray, list[reference.Transition], Any]]:
    """Where and when, the block, θ_0, D and the picks."""
    again = jax.jit(lambda rows, number, block: batch_at(run.configuration, run.network, rows, number, block, 2))
    found = []
    for number in range(ROUNDS):
        for position, block in enumerate(STEPS.values()):
            batch, picks = again(run.recording[number], np.uint32(number), jnp.int32(block))
            place = {"round": number, "step": (block + 1) * BLOCK}  # the steps made when the outer iteration is
            theta = flat(probed(run, number, position))
            found.append((place, block, theta, from_transitions(batch), np.asarray(picks).tolist()))
    return found


def test_distances_of_every_round_step_estimator_and_inner_iteration(varied: Any) -> None:
    run, tables = varied
    o = options_of(run.configuration, SIZES)
    expected = []
    for place, block, theta, batch, picks in moments(run):
        everything = from_packed(run.recording[place["round"]])
        frozen = frozen_at(run, place["round"], list(STEPS.values()).index(block))
        start = reference.init(o, theta)._replace(target=frozen)
        for estimator, name in NAMES.items():
            _, told = reference.outer_iteration(name, o, start, batch, picks)
            exact = [mean_gradient(o, theta_m, everything, frozen) for theta_m in told.theta]
            for m in range(1, INNER + 1):
                owner = m - 1 if estimator == "srg" else 0
                vectors = dict(
                    own=told.delta[owner] - exact[owner],
                    present=told.delta[owner] - exact[m],
                    estimate=told.delta[m] - exact[m],
                    floor=mean_gradient(o, told.theta[m], batch, frozen) - exact[m],
                    own_norm=exact[owner],
                    norm=exact[m],
                )
                lengths = {column: float(np.linalg.norm(vector)) for column, vector in vectors.items()}
                expected.append({**place, "estimator": estimator, "m": m, **lengths})
    compare(tables["distances"], expected)


def test_the_target_networks_parameters_are_those_of_the_moment(varied: Any) -> None:
    run, _ = varied
    if run.configuration.gradients.target != "hard":
        assert run.probed[2] is None
        return
    first, last = (frozen_at(run, 0, position) for position in range(2))
    assert distance(first, flat(probed(run, 0, 0))) == 0  # before the first iteration
    assert distance(last, flat(probed(run, 0, 1))) > CLOSE
    assert distance(last, first) > CLOSE


def test_the_anatomy_of_every_round_and_step(varied: Any) -> None:
    run, tables = varied
    o, acting = options_of(run.configuration, SIZES), run.configuration.acting
    fresh_program = jax.jit(
        lambda theta, exploration, key: fresh_transitions(
            run.task, run.network, theta, exploration, key, steps=CAPACITY, reward_scale=0.5
        )
    )
    expected = []
    for place, block, theta, batch, _ in moments(run):
        number, written = place["round"], place["step"]
        spent = written / 208  # the steps of 13 blocks
        exploration = acting.epsilon_start + spent * (acting.epsilon_end - acting.epsilon_start)
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), number), block)
        now = probed(run, number, list(STEPS.values()).index(block))
        fresh = [fresh_program(now, exploration, each) for each in jax.random.split(key)]
        rows = run.recording[number]
        frozen = frozen_at(run, number, list(STEPS.values()).index(block))
        parts = (rows[max(0, written - CAPACITY) : written], rows, *fresh)
        replay, everything, one, other = (mean_gradient(o, theta, from_packed(part), frozen) for part in parts)
        anchor = mean_gradient(o, theta, batch, frozen)
        expected.append(
            {
                **place,
                "sampling": sum((anchor - replay) ** 2),
                "unseen": sum((replay - everything) ** 2),
                "drift": float((replay - one) @ (replay - other) - (one - other) @ (one - other) / 2),
                "total": sum((anchor - everything) ** 2),
            }
        )
    compare(tables["anatomy"], expected)


def test_whether_the_step_size_satisfies_theorem_1_at_every_round_and_step(measured: Any) -> None:
    """The bound from the Hessians at θ, which have tests of their own."""
    run, tables = measured
    expected = []
    for place, block, _, batch, _ in moments(run):
        now = probed(run, place["round"], list(STEPS.values()).index(block))
        constants = local_smoothness(run.configuration, run.network, now, to_transitions(batch))
        bound = 2 / (np.sqrt(np.mean(np.square(constants))) * (np.sqrt(4 * INNER + 1) + 1))
        expected.append({"step": place["step"], "bound": bound, "eta": 0.01, "satisfied": bool(bound >= 0.01)})
    compare(tables["bounds"], expected)


def compare(table: pl.DataFrame, expected: list[dict[str, Any]]) -> None:
    assert table.columns == list(expected[0])
    for got, wanted in zip(table.iter_rows(named=True), expected, strict=True):
        labels = [name for name, value in wanted.items() if not isinstance(value, float)]
        assert [got.pop(name) for name in labels] == [wanted.pop(name) for name in labels]
        assert got == pytest.approx(wanted, rel=CLOSE)


def test_alike_changes_the_estimator_and_the_adam_process_alone() -> None:
    before = configure("MountainCar", "srg-dqn", gamma=0.7, eta=0.02)
    after = alike(before, "svrg")
    changed = {name for name, value in after.options().items() if value != before.options()[name]}
    assert changed == {"estimator", "adam_process"}
    assert (after.estimator.estimator, after.optimiser.adam_process) == ("svrg", False)
