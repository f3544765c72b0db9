"""Standard deviations of the first layer's gradient: what they are taken over, and that they are what they say."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

import reference
from measured import watched
from srgdqn.interrupts import StopRequestedError
from srgdqn.learner.networks import make_network
from srgdqn.paper.claims.cases import Gathered, judged
from srgdqn.paper.confirmation import spreads_of
from srgdqn.paper.measurements import gradient_spread
from srgdqn.paper.measurements.gradient_spread import QUANTITIES, Plan, RunsPlan, measure_runs, redrawn, split_variance
from srgdqn.paper.measurements.recorded import RecordedRun, batch_at
from srgdqn.paper.studies import table_2
from srgdqn.runs.measurement import Measured
from tiny import HIDDEN, tiny
from translation import CLOSE, distance, flat, from_packed, from_transitions, options_of, to_packed, to_parameters

SIZES = (4, HIDDEN, 2)
WEIGHTS, FIRST_LAYER = 4 * HIDDEN, 4 * HIDDEN + HIDDEN
ROUNDS, CAPACITY, ROWS, INNER = 3, 40, 4, 4
BATCHES, PICKS = 3, 2
# The ends of the windows, and the blocks whose outer iterations are within them: learning starts at step 40.
WINDOWS = {48: [2], 96: [3, 4, 5], 190: [9, 10, 11]}
NAMES = {"srg": "srg-dqn-no-adam", "svrg": "svr-dqn-no-adam"}


# The split of a variance


@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    within=st.floats(0.1, 3),
    between=st.floats(0.0, 3),
    batches=st.integers(2, 6),
    picks=st.integers(2, 6),
)
def test_both_parts_of_the_variance_are_without_bias(
    seed: int, within: float, between: float, batches: int, picks: int
) -> None:
    """Normal draws around normal centres: each element is an experiment of its own, and their mean is near the truth.

    Of such draws the variances of both estimates are known.
    """
    size = 5_000
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, between, (batches, 1, size))
    got_within, got_between = split_variance(centres + rng.normal(0, within, (batches, picks, size)))
    variance = 2 * within**4 / (batches * (picks - 1))
    assert abs(got_within.mean() - within**2) < 5 * np.sqrt(variance / size)
    of_means = 2 * (between**2 + within**2 / picks) ** 2 / (batches - 1)
    assert abs(got_between.mean() - between**2) < 5 * np.sqrt((of_means + variance / picks**2) / size)


def test_a_split_by_hand() -> None:
    stack = np.array([[[1.0], [3.0]], [[4.0], [10.0]]])  # variances 2 and 18 around means 2 and 7, whose own is 12.5
    within, between = split_variance(stack)
    assert within.tolist() == [10.0]
    assert between.tolist() == [12.5 - 5.0]


# The tables


def plan(**options: Any) -> Plan:
    usual = dict(rounds=ROUNDS, inner_iterations=INNER, eta=0.01, alpha=0.01)
    configuration, _ = tiny(**{**usual, **options})
    return Plan(configuration, tuple(WINDOWS), window=48, batches=BATCHES, picks=PICKS)


@pytest.fixture(scope="module", params=[{}, dict(target="hard", target_period=3, loss="huber")], ids=str)
def measured(request: pytest.FixtureRequest, double: None) -> tuple[RecordedRun, dict[str, pl.DataFrame]]:
    return watched(gradient_spread, plan(**request.param))


def started(run: RecordedRun, o: reference.Options, number: int, position: int) -> reference.State:
    """What the outer iteration of a round at a probed block began with."""
    thetas, _, targets = run.probed
    start = reference.init(o, flat(thetas, axes=2)[number, position])
    return start if targets is None else start._replace(target=flat(targets, axes=2)[number, position])


@pytest.fixture(scope="module")
def vectors(measured: Any) -> dict[tuple[int, int, str], np.ndarray]:
    """By round, block and quantity: the first layers of Δ_M and g_M as the reference has them."""
    run, _ = measured
    o = options_of(run.configuration, SIZES)
    again = jax.jit(lambda rows, number, block: batch_at(run.configuration, run.network, rows, number, block, 2))
    found = {}
    for block in itertools.chain(*WINDOWS.values()):
        position = run.blocks.tolist().index(block)
        for number in range(ROUNDS):
            batch, picks = again(run.recording[number], np.uint32(number), jnp.int32(block))
            start = started(run, o, number, position)
            _, told = reference.outer_iteration(
                "srg-dqn", o, start, from_transitions(batch), np.asarray(picks).tolist()
            )
            found[number, block, "delta"] = told.delta[-1][:FIRST_LAYER]
            found[number, block, "gradient"] = told.raw[:FIRST_LAYER]
    return found


def labelled(table: pl.DataFrame, step: int, quantity: str) -> pl.DataFrame:
    return table.filter(pl.col("step") == step, pl.col("quantity") == quantity).sort("round")


def test_the_vector_at_a_step_is_that_of_the_outer_iteration_after_its_block(measured: Any, vectors: Any) -> None:
    _, tables = measured
    assert tables["vectors"].height == len(WINDOWS) * len(QUANTITIES) * ROUNDS
    for step, blocks in WINDOWS.items():
        for quantity in QUANTITIES:
            rows = labelled(tables["vectors"], step, quantity)
            assert rows["round"].to_list() == list(range(ROUNDS))
            for number, vector in enumerate(rows["vector"].to_list()):
                assert distance(vector, vectors[number, blocks[-1], quantity]) < CLOSE


def test_the_spread_within_a_window_is_over_its_outer_iterations(measured: Any, vectors: Any) -> None:
    _, tables = measured
    assert tables["windows"].height == len(WINDOWS) * len(QUANTITIES) * ROUNDS
    for step, blocks in WINDOWS.items():
        for quantity in QUANTITIES:
            rows = labelled(tables["windows"], step, quantity)
            for number in range(ROUNDS):
                stack = [vectors[number, block, quantity] for block in blocks]
                spreads = rows["spread"][number], rows["spread_with_biases"][number]
                if len(blocks) == 1:  # the first: a single outer iteration has no spread
                    assert np.isnan(spreads).all()
                else:
                    deviations = [np.sqrt(np.sum((c - np.mean(c)) ** 2) / (len(c) - 1)) for c in np.transpose(stack)]
                    assert spreads == pytest.approx((sum(deviations[:WEIGHTS]), sum(deviations)), rel=CLOSE)


# Several runs, of which nothing but first layers is needed


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("windows", [(48, 8_000), (8_000,)], ids=str)
def test_windows_that_no_round_came_to_have_no_rows_and_claim_c8_is_moot(
    windows: tuple[int, ...], measured: Any
) -> None:
    """Every round diverges at its first outer iteration, and training ends long before the last window."""
    asked = dataclasses.replace(plan(eta=1e30, steps=8_192), steps=windows)
    run, tables = watched(gradient_spread, asked)
    assert run.finite == []
    assert len(run.blocks) == 3 * (len(windows) - 1)
    assert tables["rounds"].rows(named=True) == [{"rounds": ROUNDS, "diverged": ROUNDS, "weights": WEIGHTS}]
    for name in ("vectors", "windows", "redraws"):
        assert tables[name].is_empty()
        assert tables[name].schema == measured[1][name].schema
    found = Measured(tables, {})
    other = Measured(measured[1], {})
    for srg, svr in ((found, found), (found, other), (other, found)):
        outcomes = {table_2.cell_name("corrected", "srg-dqn"): srg, table_2.cell_name("corrected", "svr-dqn"): svr}
        judgements = judged(Gathered(spreads=spreads_of(outcomes, "corrected")), "corrected", 10)
        assert [(each.name, each.verdict) for each in judgements] == [(f"C8{letter}", "moot") for letter in "abc"]
        assert all("more than a tenth of a run's rounds diverged" in each.contrasts[0].void for each in judgements)


def runs_plan(rewards_after: int = 100, **options: Any) -> RunsPlan:
    """Both algorithms, with the windows of `plan`."""
    both = {name: plan(algorithm=name, **options).configuration for name in ("svr-dqn", "srg-dqn")}
    return RunsPlan(both, tuple(WINDOWS), rewards_after, window=48)


def measured_runs(asked: RunsPlan) -> dict[str, pl.DataFrame]:
    return measure_runs(asked, lambda share: None, threading.Event())


def test_runs_have_the_vectors_and_spreads_of_each_ones_own_measurement(measured: Any) -> None:
    run, alone = measured
    settings_ = run.configuration.gradients
    target = dict(target=settings_.target, target_period=settings_.target_period, loss=settings_.loss)
    tables = measured_runs(runs_plan(**target))
    mine = {name: table.filter(algorithm="srg-dqn").drop("algorithm") for name, table in tables.items()}
    assert mine["vectors"].drop("vector").equals(alone["vectors"].drop("vector"))
    found, wanted = (np.array(each["vectors"]["vector"].to_list()) for each in (mine, alone))
    assert found.shape[1] == WEIGHTS
    assert mine["vectors"]["vector"].dtype == pl.Array(pl.Float32, WEIGHTS)
    np.testing.assert_array_equal(found, wanted[:, :WEIGHTS].astype(np.float32))
    assert mine["windows"].equals(alone["windows"].drop("spread_with_biases"), null_equal=True)
    assert mine["rounds"].equals(alone["rounds"])
    other = tables["windows"].filter(algorithm="svr-dqn", step=190)["spread"].to_numpy()
    assert not np.isclose(other, mine["windows"].filter(step=190)["spread"].to_numpy()).any()


def test_rewards_are_those_after_a_step(measured: Any) -> None:
    run, _ = measured
    settings_ = run.configuration.gradients
    target = dict(target=settings_.target, target_period=settings_.target_period, loss=settings_.loss)
    found = measured_runs(runs_plan(rewards_after=100, **target))["rewards"].filter(algorithm="srg-dqn")
    # The windows of the curves have 50 steps each, and every step is recorded with its reward.
    by_hand = [np.mean([each.r for each in from_packed(rows[100:200])]) for rows in run.recording[:, :200]]
    assert found["round"].to_list() == list(range(ROUNDS))
    assert found["reward"].to_list() == pytest.approx(by_hand)


def test_runs_of_rounds_that_diverge_are_counted_and_left_out() -> None:
    some = measured_runs(runs_plan(rounds=6, eta=0.5, seed=1))
    for (name,), counts in some["rounds"].group_by("algorithm"):
        left = 6 - counts["diverged"].item()
        for table in ("vectors", "windows", "rewards"):
            assert some[table].filter(algorithm=name)["round"].n_unique() == left
    assert 0 < some["rounds"]["diverged"].sum() < 12
    # Where all diverge, tables are empty and have their columns, also of windows that no round came to.
    for windows in (WINDOWS, (48, 20_000)):
        all_of_them = dataclasses.replace(runs_plan(rounds=6, eta=1e30, steps=20_000), steps=tuple(windows))
        none = measured_runs(all_of_them)
        assert none["rounds"]["diverged"].to_list() == [6, 6]
        for table in ("vectors", "windows", "rewards"):
            assert none[table].is_empty()
            assert none[table].schema == some[table].schema


@pytest.mark.parametrize("beyond", [0.0, 0.5])  # in the first run, and in the second
def test_runs_report_their_progress_and_stop_when_asked_to(beyond: float) -> None:
    shares: list[float] = []
    stop = threading.Event()

    def report(share: float) -> None:
        shares.append(share)
        if share > beyond:
            stop.set()
            time.sleep(0.5)  # the thread that training was asked for on looks now and then

    with pytest.raises(StopRequestedError):
        measure_runs(runs_plan(steps=20_000, eta=1e-4, alpha=1e-4), report, stop)
    assert shares == sorted(shares)
    assert beyond < shares[-1] < 1


def test_redraws_at_a_frozen_theta_follow_their_random_numbers(measured: Any) -> None:
    """D from the replay of that moment and picks from D, for both estimators the same."""
    run, tables = measured
    o = options_of(run.configuration, SIZES)
    assert tables["redraws"].height == len(WINDOWS) * len(NAMES) * len(QUANTITIES) * ROUNDS
    for step, blocks in WINDOWS.items():
        written = (blocks[-1] + 1) * 16
        position = run.blocks.tolist().index(blocks[-1])
        for number in range(ROUNDS):
            replay = from_packed(run.recording[number, max(0, written - CAPACITY) : written])
            start = started(run, o, number, position)
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), step), number)
            for estimator, name in NAMES.items():
                stacks = redrawn_by_hand(o, name, start, replay, key)
                for quantity, stack in stacks.items():
                    rows = labelled(tables["redraws"].filter(pl.col("estimator") == estimator), step, quantity)
                    row = rows.row(number, named=True)
                    every = stack.reshape(BATCHES * PICKS, FIRST_LAYER).std(0, ddof=1)
                    assert row["spread"] == pytest.approx(every[:WEIGHTS].sum(), rel=CLOSE)
                    assert row["spread_with_biases"] == pytest.approx(every.sum(), rel=CLOSE)
                    of_d = [np.var(stack[i, :, :WEIGHTS], axis=0, ddof=1).sum() for i in range(BATCHES)]
                    means = np.var(stack[:, :, :WEIGHTS].mean(1), axis=0, ddof=1).sum()
                    assert row["within"] == pytest.approx(np.mean(of_d), rel=CLOSE)
                    assert row["between"] == pytest.approx(means - np.mean(of_d) / PICKS, rel=1e-7)


def redrawn_by_hand(
    o: reference.Options, name: str, start: reference.State, replay: list[reference.Transition], key: Any
) -> dict[str, np.ndarray]:
    """Stacks with axes of Ds, picks and elements."""
    stacks = {quantity: np.zeros((BATCHES, PICKS, FIRST_LAYER)) for quantity in QUANTITIES}
    for d, batch_key in enumerate(jax.random.split(key, BATCHES)):
        slots_key, picks_key = jax.random.split(batch_key)
        batch = [replay[slot] for slot in np.asarray(jax.random.randint(slots_key, (ROWS,), 0, len(replay)))]
        picks = np.asarray(jax.random.randint(picks_key, (PICKS, INNER, 1), 0, ROWS))
        for p in range(PICKS):
            _, told = reference.outer_iteration(name, o, start, batch, picks[p].tolist())
            stacks["delta"][d, p] = told.delta[-1][:FIRST_LAYER]
            stacks["gradient"][d, p] = told.raw[:FIRST_LAYER]
    return stacks


@pytest.mark.usefixtures("double")
def test_rows_that_are_not_filled_are_never_drawn() -> None:
    configuration = plan().configuration
    network = make_network(configuration.network, 4, 2)
    theta, data, _ = reference.random_problem(0, SIZES, 7, 1)
    rows = np.full((CAPACITY, 11), np.nan)
    rows[:7] = to_packed(data)

    @jax.jit
    def draw(filled: Any, key: Any) -> Any:
        parameters = to_parameters(theta, SIZES)
        return redrawn(configuration, network, parameters, jnp.asarray(rows), filled, key, batches=20, picks=2)

    found = draw(7, jax.random.key(0))
    assert found.delta.shape == found.gradient.shape == (20, 2, FIRST_LAYER)
    assert np.isfinite(found.delta).all()
    assert np.isfinite(found.gradient).all()
    assert not np.isfinite(draw(CAPACITY, jax.random.key(0)).delta).all()
    # A single row leaves nothing to draw.
    alone = np.asarray(draw(1, jax.random.key(0)).delta)
    assert (alone == alone[0, 0]).all()
