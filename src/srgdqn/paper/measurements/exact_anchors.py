"""SVR-DQN with exact anchors (the paper's Figure 1): the same batches and picks, with g̃ over all recorded transitions.

Three arms, round by round:

- `ordinary` is SVR-DQN without the Adam process, and all its transitions are recorded.
- `exact` is made on the batches and picks of `ordinary`, with the gradient over all that was recorded (the future
  included) as its anchor. It acts as well, but learns nothing from what it does.
- `oracle` acts and learns for itself, with the same oracle's anchor.

All are evaluated by the same greedy roll-outs, on the reward that they learn from: mean reward per action is the
total reward over the total length of episodes from the same starts.

Over a long run the anchor is the gradient on a sample of the recording, drawn once per round; how far it is from that
on all of it is measured at a few steps of `ordinary`. Beside it stand the random policy and the untrained agent, judged
by the same roll-outs.
"""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import polars as pl
from jaxtyping import Array

from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.interrupts import StopRequestedError
from srgdqn.learner.networks import Parameters
from srgdqn.learner.outer_iteration import LearnerState, Trace
from srgdqn.paper.measurements.recorded import (
    RecordedRun,
    Report,
    at_steps,
    call_compiled,
    exact_gradient,
    frozen_parameters,
    record,
    theta_before,
)
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.tasks import Task
from srgdqn.training import Trained, train_rounds
from srgdqn.training.batches import BatchContext, OuterBatch, from_replay
from srgdqn.training.evaluation import evaluation_keys, play
from srgdqn.training.interaction import action_count
from srgdqn.training.lane import Instruments

ARMS = ("ordinary", "exact", "oracle")
_SHARES = (0.05, 0.25, 0.5, 0.75, 1.0)  # of the budget, after which a sampled anchor is compared
_RANDOM_STREAM = 0x4A9D  # keeps the random policy's actions apart from other random numbers
_EVALUATION_STEPS = 1_000  # after which an episode of the roll-outs is cut


@dataclass(frozen=True)
class Plan:
    """What to run: SVR-DQN without the Adam process, its rounds, budget and evaluations."""

    configuration: Configuration


@dataclass(frozen=True)
class SampledPlan(Plan):
    """The first two arms over a long run: anchors are computed on so many rows of the recording."""

    rows: int = 8_192


class Data(NamedTuple):
    """What the second and third arm are given of a round of the first."""

    recording: Any  # its packed transitions
    sample: Any  # those that anchors are computed on; None: the recording


def from_recording(context: BatchContext) -> OuterBatch:
    """The recorded round's own batch and picks, with the exact anchor at the present θ."""
    recorded = from_replay(context._replace(ring=context.data.recording))
    return recorded._replace(anchor=_exact(context))


def with_oracle(context: BatchContext) -> OuterBatch:
    """The lane's own batch and picks, with the exact anchor of the recorded run at the present θ."""
    return from_replay(context)._replace(anchor=_exact(context))


def _exact(context: BatchContext) -> Parameters:
    assert context.learner is not None
    theta, target = context.learner.parameters, context.learner.target
    frozen = frozen_parameters(context.configuration, theta, target)
    recording, sample = context.data
    rows = recording if sample is None else sample
    return exact_gradient(context.configuration, context.network, theta, rows, frozen)


def measure(
    plan: Plan, report: Report, stop: threading.Event, manager: CheckpointManager | None = None
) -> dict[str, pl.DataFrame]:
    """The evaluations of the arms, which of their rounds diverged and when, and the error of a sampled anchor.

    The arms with exact anchors are checkpointed; the recorded one is trained again when it resumes.
    """
    configuration = plan.configuration
    task = evaluated_as_trained(tasks.make(configuration.task))
    rows = plan.rows if isinstance(plan, SampledPlan) else None
    steps = () if rows is None else _look_at(configuration)
    # The anchors take nearly all the time: the recorded run counts for little of it.
    ordinary = record(
        configuration,
        lambda share: report(0.04 * share),
        stop,
        probe=theta_before if rows is None else _theta_and_target,
        probe_at=at_steps(configuration, steps),
        task=task,
    )
    data = Data(ordinary.recording, None if rows is None else sampled(ordinary.recording, rows))
    arms, others = {"ordinary": ordinary.trained}, ARMS[1:] if rows is None else ("exact",)
    each = 0.96 / len(others)
    for position, name in enumerate(others):
        checkpoints = None if manager is None else manager.below(name)
        arms[name] = train_rounds(
            configuration,
            task,
            listener=lambda progress, begun=position * each: report(0.04 + begun + each * progress.share),
            workers=1,
            stop=stop,
            instruments=Instruments(source={"exact": from_recording, "oracle": with_oracle}[name]),
            data=data,  # of which each lane is given its own round's
            manager=checkpoints,
        )
        if arms[name].interrupted:
            raise StopRequestedError
        if checkpoints is not None:
            checkpoints.flush()
    tables = {
        "evaluations": pl.concat([_evaluations(name, arm) for name, arm in arms.items()]),
        "rounds": pl.concat([_rounds(name, arm, arms["ordinary"]) for name, arm in arms.items()]),
    }
    if data.sample is None:
        return tables
    return {
        **tables,
        "diverged": pl.concat([_diverged_at(name, arm) for name, arm in arms.items()]),
        "anchors": _anchor_errors(ordinary, data.sample),
        **_yardsticks(configuration, task, stop),
    }


def measure_yardsticks(
    plan: Plan, report: Report, stop: threading.Event, manager: CheckpointManager | None = None
) -> dict[str, pl.DataFrame]:
    """What does not learn, evaluated as the arms are."""
    del report, manager  # it takes a second
    configuration = plan.configuration
    return _yardsticks(configuration, evaluated_as_trained(tasks.make(configuration.task)), stop)


def _yardsticks(configuration: Configuration, task: Task, stop: threading.Event) -> dict[str, pl.DataFrame]:
    return {"yardsticks": pl.concat([_random_policy(configuration, task), _untrained(configuration, task, stop)])}


def sampled(recording: np.ndarray, rows: int) -> np.ndarray:
    """So many rows of every round's recording, drawn with replacement: the same of every round."""
    picks = np.random.default_rng(0).integers(0, recording.shape[1], rows)
    return recording[:, picks]


def _theta_and_target(learner: LearnerState, trace: Trace) -> tuple[Parameters, Parameters | None]:
    """A probe: θ_0 of every outer iteration, and the target network's parameters, if there is one."""
    del trace
    return learner.parameters, learner.target


def _random_policy(configuration: Configuration, task: Task) -> pl.DataFrame:
    """The reward per action of the random policy in every round: the starts of all evaluations, its own actions."""
    seed, actions = configuration.training.seed, action_count(task.environment)
    keys = evaluation_keys(seed, configuration.training.evaluation_episodes)

    def rewards(key: Array) -> Array:
        def policy(count: Array, observations: Array) -> Array:
            drawn = jax.random.fold_in(key, count)
            return jax.random.randint(drawn, (len(observations),), 0, actions, jnp.int32)

        played = play(task, policy, keys)
        return played.total_reward.sum() / played.length.sum()

    root = jax.random.fold_in(jax.random.key(seed), _RANDOM_STREAM)
    found = jax.jit(lambda each: jax.lax.map(rewards, each))(jax.random.split(root, configuration.training.rounds))
    return _yardstick("random", np.asarray(found))


def _untrained(configuration: Configuration, task: Task, stop: threading.Event) -> pl.DataFrame:
    """The reward per action of the initial network's greedy policy in every round: evaluations are all the same."""
    interval = configuration.training.evaluation_interval
    still = configuration.with_options({"eta": 0.0, "alpha": 0.0, "steps": interval})
    trained = train_rounds(still, task, workers=1, stop=stop)
    if trained.interrupted:
        raise StopRequestedError
    return _yardstick("untrained", _evaluations("untrained", trained).sort("round")["reward"].to_numpy())


def _yardstick(name: str, rewards: np.ndarray) -> pl.DataFrame:
    columns = {"arm": [name] * len(rewards), "round": np.arange(len(rewards)), "reward": rewards.astype(np.float64)}
    return pl.DataFrame(columns)


def _look_at(configuration: Configuration) -> tuple[int, ...]:
    """The steps at which a sampled anchor is compared with the whole one."""
    steps = configuration.training.steps
    assert steps is not None
    return tuple(int(steps * share) for share in _SHARES)


def _anchor_errors(run: RecordedRun, sample: np.ndarray) -> pl.DataFrame:
    """By round and step: ‖anchor on the sample − anchor on all rows‖ / ‖anchor on all rows‖."""
    configuration, network = run.configuration, run.network

    def error(theta: Parameters, target: Parameters | None, recording: Array, rows: Array) -> Array:
        frozen = frozen_parameters(configuration, theta, target)
        whole, part = (exact_gradient(configuration, network, theta, each, frozen) for each in (recording, rows))
        return optax.tree.norm(optax.tree.sub(part, whole)) / optax.tree.norm(whole)

    found = []
    for number in run.finite:
        for position, block in enumerate(run.blocks):
            theta, target = jax.tree.map(lambda leaf, at=(number, position): leaf[at], run.probed)
            key = (__name__, "error", configuration)
            value = call_compiled(key, error, theta, target, run.recording[number], sample[number])
            found.append({"round": number, "step": run.steps_of(int(block)), "error": float(value)})
    return pl.DataFrame(found, schema={"round": int, "step": int, "error": float})


def evaluated_as_trained(task: Task) -> Task:
    """The task, evaluated on the reward that is learned from, and long enough for a poor policy to show."""
    return dataclasses.replace(task, raw=task.environment, evaluation_limit=_EVALUATION_STEPS)


def _evaluations(arm: str, trained: Trained) -> pl.DataFrame:
    columns = trained.tables["evaluations"]
    rows = pl.DataFrame({name: np.asarray(columns[name]) for name in ("round", "step", "return", "length", "success")})
    evaluated = rows.group_by("round", "step").agg(
        reward=pl.col("return").sum() / pl.col("length").sum(),
        length=pl.col("length").mean(),
        success=pl.col("success").cast(pl.Float64).mean(),
    )
    return evaluated.select(pl.lit(arm).alias("arm"), pl.all()).sort("round", "step")


def _rounds(arm: str, trained: Trained, recorded: Trained) -> pl.DataFrame:
    """A round of which there is no whole recording cannot be replayed: it counts as diverged in every arm."""
    own, first = (each.tables["rounds"]["diverged_at"] for each in (trained, recorded))
    return pl.DataFrame(
        {
            "arm": [arm] * len(own),
            "round": np.asarray(trained.tables["rounds"]["round"]),
            "diverged": ~(np.ma.getmaskarray(own) & np.ma.getmaskarray(first)),
        }
    )


def _diverged_at(arm: str, trained: Trained) -> pl.DataFrame:
    """The step at which each round diverged that did."""
    at = np.ma.masked_array(trained.tables["rounds"]["diverged_at"])
    numbers = np.flatnonzero(~np.ma.getmaskarray(at))
    steps = np.asarray(at)[numbers].astype(int)
    return pl.DataFrame(
        {"arm": [arm] * len(numbers), "round": numbers, "step": steps}, schema_overrides={"arm": pl.String}
    )
