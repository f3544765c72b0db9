"""The standard deviation of the first layer's gradient (the paper's Table 2 and claim C8), by three definitions.

Each is a sum over the vector's elements. The vector is the first layer's weights (and, beside it, weights and biases)
of Δ_M, or of the raw gradient g_M:

- across rounds, at the outer iteration after the block in which a step is made: needs the vectors themselves;
- within each window of steps, over its outer iterations: one value per round;
- at a frozen θ, over redraws of D and of the picks: one value per round, for both estimators at the same θ, and its
  variance split into what the picks add for a given D and what D itself does.

`measure` has all three of one recorded run. `measure_runs` has the first two of several runs, of which nothing but the
first layers is needed, so that the kernel can train them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array, Float, Int, PRNGKeyArray

from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.interrupts import StopRequestedError
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.outer_iteration import outer_iteration
from srgdqn.learner.replay import unpack
from srgdqn.paper.measurements.parts import Parts
from srgdqn.paper.measurements.recorded import (
    ESTIMATORS,
    RecordedRun,
    Report,
    alike,
    block_of,
    call_compiled,
    first_layers,
    from_share,
    learner_at,
    record,
    rounds_table,
)
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.training import Trained, train_rounds
from srgdqn.training.interaction import observation_size
from srgdqn.training.lane import Instruments
from srgdqn.training.probes import FirstLayer, first_layer
from srgdqn.training.rounds import Choice

QUANTITIES = ("delta", "gradient")
_TRAINING_SHARE = 0.5  # of the time, roughly


@dataclass(frozen=True)
class Plan:
    """Whose run, the ends of the windows to look at, and how often D and the picks are redrawn."""

    configuration: Configuration
    steps: tuple[int, ...]
    window: int = 1_000
    batches: int = 16
    picks: int = 8


def measure(
    plan: Plan, report: Report, stop: threading.Event, manager: CheckpointManager | None = None
) -> dict[str, pl.DataFrame]:
    """Vectors at each step, spreads within each window, and spreads over redraws, round by round. Each window is a
    part; training is done again when it resumes.
    """
    configuration = plan.configuration
    windows = _windows(configuration, plan.steps, plan.window)
    training, looking = from_share(report, _TRAINING_SHARE)
    run = record(configuration, training, stop, probe=first_layers, probe_at=_in_any(windows))
    weights = int(np.prod(run.probed[0].layers[0].weight.shape[2:]))
    parts = Parts(manager, _schemas(run.probed[1].delta.shape[-1]))
    # Where every round diverged, there may be windows that none has come to.
    looked_at = list(_inside(windows, run.blocks)) if run.finite else []
    for step, inside in parts.left(looked_at, looking, stop):
        for quantity in QUANTITIES:
            stack = getattr(run.probed[1], quantity)[run.finite][:, inside].astype(np.float64)
            parts.add(
                vectors=_labelled(step, quantity, run.finite, vector=stack[:, -1]),
                windows=_labelled(step, quantity, run.finite, **_spreads_made(stack, weights)),
            )
        parts.add(redraws=pl.concat(_redraws(run, plan, int(inside[-1]), step, weights)))
    return {**parts.tables(), "rounds": rounds_table(run, weights=weights)}


def _schemas(elements: int) -> dict[str, dict[str, Any]]:
    """The columns of the tables of vectors of so many elements."""
    labels = {"step": int, "quantity": str, "round": int}
    spreads = {**labels, "spread": float, "spread_with_biases": float}
    return {
        "vectors": {**labels, "vector": pl.Array(pl.Float64, elements)},
        "windows": spreads,
        "redraws": {**spreads, "within": float, "between": float, "estimator": str},
    }


@dataclass(frozen=True)
class RunsPlan:
    """Whose runs, by name, the ends of the windows to look at, and the step after which rewards are averaged."""

    configurations: Mapping[str, Configuration]
    steps: tuple[int, ...]
    rewards_after: int
    window: int = 1_000


def measure_runs(
    plan: RunsPlan, report: Report, stop: threading.Event, manager: CheckpointManager | None = None
) -> dict[str, pl.DataFrame]:
    """By run: the first layer's weights in single precision at each step, spreads within each window and the mean
    reward per action, of the rounds that did not diverge; and how many did. It is too short for checkpoints.
    """
    del manager
    tables: dict[str, list[pl.DataFrame]] = {"vectors": [], "windows": [], "rewards": [], "rounds": []}
    for count, (name, configuration) in enumerate(plan.configurations.items()):

        def share(done: float, before: int = count) -> None:
            report((before + done) / len(plan.configurations))

        for table, frame in _measured_run(plan, configuration, share, stop).items():
            tables[table].append(frame.select(pl.lit(name).alias("algorithm"), pl.all()))
    return {table: pl.concat(frames) for table, frames in tables.items()}


def _measured_run(
    plan: RunsPlan, configuration: Configuration, report: Report, stop: threading.Event
) -> dict[str, pl.DataFrame]:
    windows = _windows(configuration, plan.steps, plan.window)
    task = tasks.make(configuration.task)
    trained = train_rounds(
        configuration,
        task,
        listener=lambda progress: report(progress.share),
        workers=1,
        stop=stop,
        instruments=Instruments(probe=first_layer),
        probe_at=_in_any(windows),
    )
    if trained.interrupted:
        raise StopRequestedError
    assert trained.probed_blocks is not None
    finite = np.flatnonzero(np.ma.getmaskarray(trained.tables["rounds"]["diverged_at"])).tolist()
    weights = observation_size(task.environment) * configuration.network.hidden[0]
    vectors, within_windows = [], []
    for step, inside in _inside(windows, trained.probed_blocks):
        for quantity in QUANTITIES:
            stack = getattr(trained.probed, quantity)[finite][:, inside, :weights]
            # No round may have come so far: then there are no blocks, and no rounds.
            last = stack[:, -1:].reshape(len(finite), weights).astype(np.float32)
            vectors.append(_labelled(step, quantity, finite, vector=last))
            spread = _spreads_made(stack.astype(np.float64), weights)["spread"]
            within_windows.append(_labelled(step, quantity, finite, spread=spread))
    rounds = configuration.training.rounds
    return {
        "vectors": pl.concat(vectors),
        "windows": pl.concat(within_windows),
        "rewards": _rewards(trained, finite, plan.rewards_after),
        "rounds": pl.DataFrame([{"rounds": rounds, "diverged": rounds - len(finite), "weights": weights}]),
    }


def _rewards(trained: Trained, finite: list[int], after: int) -> pl.DataFrame:
    """Each round's mean reward per action after a step: the mean over windows, which are equally long."""
    curves = pl.DataFrame({name: np.asarray(trained.tables["curves"][name]) for name in ("round", "step", "reward")})
    late = curves.filter(pl.col("step") > after, pl.col("round").is_in(finite))
    return late.group_by("round").agg(pl.col("reward").mean()).sort("round")


def _windows(configuration: Configuration, steps: tuple[int, ...], window: int) -> dict[int, range]:
    """By its last step, the blocks of each window."""
    return {
        step: range(block_of(configuration, step - window) + 1, block_of(configuration, step) + 1) for step in steps
    }


def _in_any(windows: Mapping[int, range]) -> Choice:
    wanted = [block for window in windows.values() for block in window]
    return lambda blocks: np.isin(blocks, wanted)


def _inside(windows: Mapping[int, range], blocks: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """By step, where the blocks of its window are among those that were probed."""
    for step, window in windows.items():
        yield step, np.flatnonzero(np.isin(blocks, window))


def redrawn(
    configuration: Configuration,
    network: Network,
    theta: Parameters,
    replay: Float[Array, "capacity width"],
    filled: Int[Array, ""] | int,
    key: PRNGKeyArray,
    *,
    batches: int,
    picks: int,
    target: Parameters | None = None,
) -> FirstLayer:
    """The first layers after outer iterations from θ on `batches` fresh Ds, each with `picks` fresh sequences of picks.

    Ds are drawn from the first `filled` rows of the replay. The axes of the result are batches, picks and elements.
    """
    inner, rows = configuration.estimator, configuration.replay.batch_size
    state = learner_at(configuration, theta, target)

    def one(batch_key: PRNGKeyArray) -> FirstLayer:
        slots_key, picks_key = jax.random.split(batch_key)
        drawn = unpack(replay[jax.random.randint(slots_key, (rows,), 0, filled)])
        shape = (picks, inner.inner_iterations, inner.inner_batch)

        def with_picks(chosen: Array) -> FirstLayer:
            _, trace = outer_iteration(configuration, network, state, drawn, chosen, keep_last=True)
            return first_layer(state, trace)

        return jax.vmap(with_picks)(jax.random.randint(picks_key, shape, 0, rows))

    return jax.vmap(one)(jax.random.split(key, batches))


def split_variance(stack: Float[np.ndarray, "batches picks size"]) -> tuple[np.ndarray, np.ndarray]:
    """Per element, the variance within a D (over picks) and between Ds, each without bias (one-way analysis)."""
    within = stack.var(1, ddof=1).mean(0)
    between = stack.mean(1).var(0, ddof=1) - within / stack.shape[1]
    return within, between


def _redraws(run: RecordedRun, plan: Plan, position: int, step: int, weights: int) -> list[pl.DataFrame]:
    """For each estimator: the spreads at the frozen θ of every round, and the variance's two parts."""
    numbers = np.array(run.finite, int)
    thetas, targets = jax.tree.map(lambda leaf: leaf[numbers, position], (run.probed[0], run.probed[2]))
    block, capacity = int(run.blocks[position]), plan.configuration.replay.replay_capacity
    filled = min(run.steps_of(block), capacity)
    padded = np.zeros((len(numbers), capacity, run.recording.shape[-1]), run.recording.dtype)
    for row, number in enumerate(run.finite):
        padded[row, :filled] = run.replay_at(number, block)
    root = jax.random.fold_in(jax.random.key(plan.configuration.training.seed), step)
    keys = jax.vmap(lambda number: jax.random.fold_in(root, number))(jnp.asarray(numbers))
    frames = []
    for estimator in ESTIMATORS:
        other = alike(plan.configuration, estimator)
        found = _redraw_all(other, run.network, plan, (thetas, targets), padded, keys, jnp.int32(filled))
        for quantity in QUANTITIES:
            stacks = np.asarray(getattr(found, quantity), np.float64)
            flat = stacks.reshape(len(stacks), plan.batches * plan.picks, stacks.shape[-1])
            parts = [split_variance(stack[..., :weights]) for stack in stacks]
            frames.append(
                _labelled(
                    step,
                    quantity,
                    run.finite,
                    **_spreads(flat, weights),
                    within=np.array([within.sum() for within, _ in parts], float),
                    between=np.array([between.sum() for _, between in parts], float),
                ).with_columns(pl.lit(estimator).alias("estimator"))
            )
    return frames


def _redraw_all(
    configuration: Configuration, network: Network, plan: Plan, learners: Any, replays: Any, keys: Any, filled: Any
) -> FirstLayer:
    """A round after the other, so that memory stays small; one program for all steps."""

    def every(learners: Any, replays: Any, keys: Any, filled: Any) -> FirstLayer:
        def one(given: Any) -> FirstLayer:
            (theta, target), replay, key = given
            how: dict[str, Any] = {"batches": plan.batches, "picks": plan.picks, "target": target}
            return redrawn(configuration, network, theta, replay, filled, key, **how)

        return jax.lax.map(one, (learners, replays, keys))

    key = (__name__, configuration, plan.batches, plan.picks)
    return call_compiled(key, every, learners, replays, keys, filled)


def _spreads_made(stack: np.ndarray, weights: int) -> dict[str, np.ndarray]:
    """The spreads over the outer iterations that were made: before learning starts there is nothing to spread."""
    return _spreads(stack[:, np.isfinite(stack).all((0, 2))], weights)


def _spreads(stack: np.ndarray, weights: int) -> dict[str, np.ndarray]:
    """For each round of a stack (rounds, repetitions, elements): the sum of the elements' standard deviations."""
    if stack.shape[1] < 2:
        nothing = np.full(len(stack), np.nan)
        return {"spread": nothing, "spread_with_biases": nothing}
    deviations = stack.std(1, ddof=1)
    return {"spread": deviations[:, :weights].sum(1), "spread_with_biases": deviations.sum(1)}


def _labelled(step: int, quantity: str, rounds: list[int], **columns: Any) -> pl.DataFrame:
    labels = [pl.lit(step, pl.Int64).alias("step"), pl.lit(quantity).alias("quantity")]
    return pl.DataFrame({"round": np.array(rounds, int), **columns}).select(*labels, pl.all())
