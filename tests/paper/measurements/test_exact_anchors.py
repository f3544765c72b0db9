"""The three arms of Figure 1, each followed by the reference, with the anchors that are claimed for it."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import reference
from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.learner.networks import make_network
from srgdqn.paper.measurements import exact_anchors
from srgdqn.paper.measurements.exact_anchors import (
    ARMS,
    Plan,
    SampledPlan,
    evaluated_as_trained,
    measure,
    sampled,
)
from srgdqn.paper.measurements.recorded import batch_at, record, theta_before
from srgdqn.training import Trained, train_rounds
from srgdqn.training.budget import total_blocks
from srgdqn.training.evaluation import evaluation_keys
from srgdqn.training.lane import Instruments
from tiny import HIDDEN, q_values, tiny
from translation import CLOSE, distance, flat, from_packed, from_transitions, mean_gradient, options_of

pytestmark = pytest.mark.usefixtures("double")

NAME = "svr-dqn-no-adam"
SIZES = (4, HIDDEN, 2)
ROUNDS, BLOCKS, FIRST = 6, 8, 2  # two chunks; learning starts at step 40, in the third block


def plan(**options: Any) -> Plan:
    usual = dict(rounds=ROUNDS, steps=128, inner_iterations=4, eta=0.02, evaluation_interval=32, reward_scale=0.5)
    return Plan(tiny(NAME, **{**usual, **options})[0])


class Measured(NamedTuple):
    """What is measured, and the arms with θ_0 of every outer iteration, and all that each lived through."""

    plan: Plan
    tables: dict[str, pl.DataFrame]
    arms: dict[str, Trained]

    def thetas(self, arm: str) -> np.ndarray:
        return flat(self.arms[arm].probed, axes=2)


def watched(plan: Plan) -> Measured:
    seen: list[Trained] = []

    def train(configuration: Configuration, *given: Any, instruments: Instruments, **others: Any) -> Trained:
        more = instruments._replace(probe=theta_before, blocks_kept=total_blocks(configuration.training))
        seen.append(train_rounds(configuration, *given, instruments=more, **others))
        return seen[-1]

    def keep(*given: Any, **others: Any) -> Any:
        run = record(*given, **{**others, "probe_at": lambda blocks: blocks >= 0})
        seen.append(run.trained)
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_anchors, "train_rounds", train)
        patch.setattr(exact_anchors, "record", keep)
        tables = measure(plan, lambda share: None, threading.Event())
    return Measured(plan, tables, dict(zip(ARMS, seen, strict=True)))


@pytest.fixture(scope="module")
def measured(double: None) -> Measured:
    return watched(plan())


@pytest.fixture(scope="module")
def diverging(double: None) -> Measured:
    return watched(plan(eta=0.5, seed=1))


# What each arm learns from


@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_learns_from_its_batches_with_its_anchor(measured: Measured, arm: str) -> None:
    """`ordinary` and `exact` on what `ordinary` lived, `oracle` on its own; the last two with anchors over all rows."""
    configuration = measured.plan.configuration
    o, network = options_of(configuration, SIZES), make_network(configuration.network, 4, 2)
    again = jax.jit(lambda rows, number, block: batch_at(configuration, network, rows, number, block, 2))
    lived = measured.arms["oracle" if arm == "oracle" else "ordinary"].recording
    recorded = measured.arms["ordinary"].recording
    assert lived is not None
    assert recorded is not None
    thetas = measured.thetas(arm)
    for number in range(ROUNDS):
        everything = from_packed(recorded[number])
        assert len(everything) == 128
        for block in range(FIRST, BLOCKS - 1):
            theta = thetas[number, block]
            batch, picks = again(lived[number], np.uint32(number), jnp.int32(block))
            anchor = None if arm == "ordinary" else mean_gradient(o, theta, everything)
            state, _ = reference.outer_iteration(
                NAME, o, reference.init(o, theta), from_transitions(batch), np.asarray(picks).tolist(), anchor
            )
            assert distance(thetas[number, block + 1], state.theta) < CLOSE


# How they are evaluated


def shaped_reward(position: float, angle: float) -> float:
    """The readings' row 18, first option."""
    limit = np.deg2rad(12)
    return (2.4 - abs(position)) / 2.4 - 0.8 + (limit - abs(angle)) / limit - 0.5


def played(policies: Any, number: int, start: np.ndarray, limit: int) -> tuple[float, int]:
    """Total reward and length of a greedy episode in Gymnasium's own environment."""
    environment: Any = gymnasium.make("CartPole-v1").unwrapped
    environment.reset()
    environment.state = state = start
    total, terminated, length = 0.0, False, 0
    while not terminated and length < limit:
        environment.step(int(np.argmax(q_values(policies, number, state))))
        state = np.array(environment.state, np.float64)  # what it returns is in single precision
        terminated = abs(state[0]) > 2.4 or abs(state[2]) > np.deg2rad(12)
        total, length = total + shaped_reward(state[0], state[2]), length + 1
    return total, length


@pytest.mark.parametrize("arm", ARMS)
def test_arms_are_evaluated_by_reward_per_action_from_the_same_starts(measured: Measured, arm: str) -> None:
    environment = tasks.make(measured.plan.configuration.task).environment
    keys = evaluation_keys(0, 3).start
    starts = [np.asarray(environment.initial(key)) for key in keys]
    rows = measured.tables["evaluations"].filter(pl.col("arm") == arm, pl.col("step") == 128)
    assert rows["round"].to_list() == list(range(ROUNDS))
    for number in range(ROUNDS):
        episodes = [played(measured.arms[arm].policies, number, start, 1_000) for start in starts]
        rewards, lengths = zip(*episodes, strict=True)
        row = rows.row(number, named=True)
        assert row["length"] == pytest.approx(np.mean(lengths))
        assert row["reward"] == pytest.approx(sum(rewards) / sum(lengths), rel=1e-6)


def test_a_task_is_evaluated_on_the_reward_it_is_trained_on() -> None:
    _, task = tiny(time_limit=None)
    judged = evaluated_as_trained(task)
    assert judged.raw is task.environment
    assert judged.raw is not task.raw
    assert judged.evaluation_limit == 1_000
    assert judged.time_limit is None
    assert dataclasses.replace(judged, raw=task.raw, evaluation_limit=task.evaluation_limit) == task


# Rounds that diverge


def test_a_round_without_a_whole_recording_counts_as_diverged_in_every_arm(diverging: Measured) -> None:
    own = {arm: ~np.ma.getmaskarray(diverging.arms[arm].tables["rounds"]["diverged_at"]) for arm in ARMS}
    told = {
        arm: np.array(diverging.tables["rounds"].filter(pl.col("arm") == arm).sort("round")["diverged"].to_list())
        for arm in ARMS
    }
    assert 0 < own["ordinary"].sum() < ROUNDS
    for arm in ARMS:
        assert (told[arm] == (own[arm] | own["ordinary"])).all()


# Over long runs: anchors on a sample of the recording


ROWS = 40


def sampled_plan(**options: Any) -> SampledPlan:
    return SampledPlan(plan(**options).configuration, ROWS)


@pytest.fixture(scope="module", params=["current", "hard"])
def long(request: pytest.FixtureRequest, double: None) -> Measured:
    """With and without a target network, which is replaced every second outer iteration."""
    seen: list[Trained] = []

    def keep(*given: Any, **others: Any) -> Any:
        run = record(*given, **{**others, "probe_at": lambda blocks: blocks >= 0})
        seen.append(run.trained)
        return run

    def train(configuration: Configuration, *given: Any, **others: Any) -> Trained:
        if "instruments" in others:
            more = exact_anchors._theta_and_target
            others["instruments"] = others["instruments"]._replace(probe=more)
        seen.append(train_rounds(configuration, *given, **others))
        return seen[-1]

    asked = sampled_plan(target=request.param, target_period=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_anchors, "train_rounds", train)
        patch.setattr(exact_anchors, "record", keep)
        tables = measure(asked, lambda share: None, threading.Event())
    return Measured(asked, tables, dict(zip(("ordinary", "exact", "untrained"), seen, strict=True)))


def test_a_sampled_anchor_is_the_gradient_on_the_sample(long: Measured) -> None:
    configuration = long.plan.configuration
    o, network = options_of(configuration, SIZES), make_network(configuration.network, 4, 2)
    recorded = long.arms["ordinary"].recording
    assert recorded is not None
    sample = sampled(recorded, ROWS)
    assert sample.shape == (ROUNDS, ROWS, recorded.shape[2])
    again = jax.jit(lambda rows, number, block: batch_at(configuration, network, rows, number, block, 2))
    thetas, targets = long.arms["exact"].probed
    flat_thetas = flat(thetas, axes=2)
    for number in range(ROUNDS):
        rows = from_packed(sample[number])
        for block in range(FIRST, BLOCKS - 1):
            theta = flat_thetas[number, block]
            state = reference.init(o, theta)
            frozen = None
            if targets is not None:
                frozen = flat(targets, axes=2)[number, block]
                state = state._replace(target=frozen)
            batch, picks = again(recorded[number], np.uint32(number), jnp.int32(block))
            anchor = mean_gradient(o, theta, rows, frozen)
            after, _ = reference.outer_iteration(
                NAME, o, state, from_transitions(batch), np.asarray(picks).tolist(), anchor
            )
            assert distance(flat_thetas[number, block + 1], after.theta) < CLOSE


def test_the_error_of_a_sampled_anchor_is_measured_at_the_run_s_own_parameters(long: Measured) -> None:
    o = options_of(long.plan.configuration, SIZES)
    recorded = long.arms["ordinary"].recording
    assert recorded is not None
    sample = sampled(recorded, ROWS)
    thetas, targets = long.arms["ordinary"].probed
    table = long.tables["anchors"].filter(pl.col("step") > 16 * FIRST)  # from when learning starts
    assert table["round"].unique().to_list() == list(range(ROUNDS))
    for number, step, error in table.rows():
        at = number, step // 16 - 1
        theta = flat(thetas, axes=2)[at]
        frozen = None if targets is None else flat(targets, axes=2)[at]
        whole, part = (mean_gradient(o, theta, from_packed(rows[number]), frozen) for rows in (recorded, sample))
        assert error == pytest.approx(np.linalg.norm(part - whole) / np.linalg.norm(whole), rel=CLOSE)
    assert table["error"].min() > 0.01  # a sample of 40 is far from exact


def test_yardsticks_are_judged_by_the_same_roll_outs(long: Measured) -> None:
    """The untrained agent is the initial network; the random policy's episodes are short, and differ by round."""
    table = long.tables["yardsticks"]
    environment = tasks.make(long.plan.configuration.task).environment
    starts = [np.asarray(environment.initial(key)) for key in evaluation_keys(0, 3).start]
    layers = long.arms["ordinary"].probed[0].layers
    initial = {
        f"network.layers.{place}.{name}": np.asarray(getattr(layer, name))[:, FIRST]  # of the first outer iteration
        for place, layer in enumerate(layers)
        for name in ("weight", "bias")
    }
    for number in range(ROUNDS):
        episodes = [played(initial, number, start, 1_000) for start in starts]
        rewards, lengths = map(sum, zip(*episodes, strict=True))
        row = table.filter(pl.col("arm") == "untrained", pl.col("round") == number)
        assert row["reward"].item() == pytest.approx(rewards / lengths, rel=1e-9)
    random = table.filter(pl.col("arm") == "random")["reward"].to_numpy()
    assert len(random) == len(set(random.tolist())) == ROUNDS


def test_steps_of_divergence_are_told_arm_by_arm(double: None) -> None:
    tables = measure(sampled_plan(eta=0.5, seed=1), lambda share: None, threading.Event())
    lost = tables["rounds"].filter("diverged").group_by("arm").len()
    assert lost.height > 0
    for arm, number, step in tables["diverged"].rows():
        assert tables["rounds"].filter(pl.col("arm") == arm, pl.col("round") == number)["diverged"].item()
        assert 0 < step <= 128
