"""Recorded training runs: every transition, and the parameters at chosen steps; gradients over recordings."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array, Float, Int

from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.interrupts import StopRequestedError
from srgdqn.learner.gradients import Transitions, make_batch, make_gradients, target_parameters
from srgdqn.learner.networks import Network, Parameters, make_network
from srgdqn.learner.outer_iteration import LearnerState, Trace, batch_rows, init_learner
from srgdqn.learner.replay import unpack
from srgdqn.paper.measurements.parts import Parts
from srgdqn.tasks import Task
from srgdqn.training import Trained, train_rounds
from srgdqn.training.batches import BatchContext, from_replay
from srgdqn.training.budget import total_blocks
from srgdqn.training.draws import draw_block
from srgdqn.training.interaction import action_count, observation_size
from srgdqn.training.jax_setup import hot_program_flags, is_double
from srgdqn.training.lane import Instruments, round_keys
from srgdqn.training.probes import FirstLayer, first_layer
from srgdqn.training.program import Once
from srgdqn.training.rounds import Choice

Report = Callable[[float], None]

ESTIMATORS = ("srg", "svrg")
"""Whose outer iterations are made again from the same θ_0, D and picks."""


class RecordedRun(NamedTuple):
    """A run, with all that reconstructs its replay and parameters at a recorded step."""

    configuration: Configuration
    task: Task
    network: Network
    trained: Trained
    recording: np.ndarray  # packed transitions: axes of rounds, steps and numbers
    blocks: np.ndarray  # whose outer iterations were probed
    probed: Any  # arrays with axes of rounds and of those blocks first

    @property
    def finite(self) -> list[int]:
        """The rounds that did not diverge: only of these is everything there."""
        return [
            int(number) for number in np.flatnonzero(np.ma.getmaskarray(self.trained.tables["rounds"]["diverged_at"]))
        ]

    def steps_of(self, block: int) -> int:
        """The transitions that were written when the outer iteration after a block was made."""
        return (block + 1) * self.configuration.training.learning_frequency

    def replay_at(self, number: int, block: int) -> np.ndarray:
        """The rows that were in the replay then."""
        written = self.steps_of(block)
        return self.recording[number, max(0, written - self.configuration.replay.replay_capacity) : written]


def theta_before(learner: LearnerState, trace: Trace) -> Parameters:
    """A probe: θ_0 of every outer iteration."""
    del trace
    return learner.parameters


def first_layers(learner: LearnerState, trace: Trace) -> tuple[Parameters, FirstLayer, Parameters | None]:
    """A probe: θ_0, the first layers of Δ_M and g_M, and the target network's parameters, if there is one."""
    return learner.parameters, first_layer(learner, trace), learner.target


def record(
    configuration: Configuration,
    report: Report,
    stop: threading.Event,
    *,
    probe: Callable[[LearnerState, Trace], Any] = theta_before,
    probe_at: Choice,
    task: Task | None = None,
) -> RecordedRun:
    """Trains on the calling thread, recording every transition and what the probe returns at the blocks chosen."""
    task = tasks.make(configuration.task) if task is None else task
    instruments = Instruments(probe=probe, blocks_kept=total_blocks(configuration.training))
    trained = train_rounds(
        configuration,
        task,
        listener=lambda progress: report(progress.share),
        workers=1,
        stop=stop,
        instruments=instruments,
        probe_at=probe_at,
    )
    if trained.interrupted:
        raise StopRequestedError
    assert trained.recording is not None
    assert trained.probed_blocks is not None
    sizes = observation_size(task.environment), action_count(task.environment)
    network = make_network(configuration.network, *sizes)
    return RecordedRun(configuration, task, network, trained, trained.recording, trained.probed_blocks, trained.probed)


def block_of(configuration: Configuration, step: int) -> int:
    """The block in which an environment step (counted from 1) is made."""
    return -(-step // configuration.training.learning_frequency) - 1


def at_steps(configuration: Configuration, steps: Sequence[int]) -> Choice:
    """Chooses the blocks in which these environment steps are made."""
    return lambda blocks: np.isin(blocks, [block_of(configuration, step) for step in steps])


def batch_at(
    configuration: Configuration,
    network: Network,
    recording: Float[Array, "steps width"],
    number: Int[Array, ""],
    block: Int[Array, ""],
    actions: int,
) -> tuple[Transitions, Int[Array, "M b"]]:
    """The very batch D and picks that the outer iteration after a block of a round was made on."""
    _, _, key, _ = round_keys(jnp.asarray(configuration.training.seed, jnp.uint32), number)
    draws = draw_block(configuration, key, block, actions=actions, rows=batch_rows(configuration))
    served = from_replay(BatchContext(configuration, network, None, recording, block, draws.batch(), None))
    return served.transitions, served.picks


def alike(configuration: Configuration, estimator: str) -> Configuration:
    """The configuration with another estimator and without the Adam process, which ends an outer iteration: the same
    for all algorithms that differ in these only.
    """
    return dataclasses.replace(
        configuration,
        algorithm="",
        estimator=dataclasses.replace(configuration.estimator, estimator=estimator),
        optimiser=dataclasses.replace(configuration.optimiser, adam_process=False),
    )


def learner_at(configuration: Configuration, theta: Parameters, target: Parameters | None) -> LearnerState:
    """A learner about to make an outer iteration from θ, beside a target network's parameters, if there is one."""
    state = init_learner(configuration, theta)
    return state if target is None else state._replace(target=target)


class Moment(NamedTuple):
    """An outer iteration of a recorded round."""

    number: int  # of the round
    block: int
    step: int
    theta: Parameters  # θ_0
    target: Parameters | None  # the target network's parameters, if there is one
    recording: np.ndarray  # of the round
    replay: np.ndarray  # the rows that were in it

    @property
    def learner(self) -> tuple[Parameters, Parameters | None]:
        """θ_0 and the target network's parameters."""
        return self.theta, self.target

    @property
    def batch_place(self) -> tuple[np.ndarray, np.uint32, Array]:
        """What `batch_at` finds its D and picks by."""
        return self.recording, np.uint32(self.number), jnp.int32(self.block)


@dataclass(frozen=True)
class Plan:
    """Whose run, and at which environment steps to look."""

    configuration: Configuration
    steps: tuple[int, ...]


def record_moments(
    plan: Plan, report: Report, stop: threading.Event, parts: Parts, *, training_share: float
) -> tuple[RecordedRun, Iterator[Moment]]:
    """The recorded run, and every moment that was planned of every round that did not diverge: each is a part, and
    those that are done are left out.

    Training takes that share of the time, roughly, and is done again when a measurement resumes; what is done with the
    moments takes the rest.
    """
    training, looking = from_share(report, training_share)
    # Table 2's probe, so that all have the same program.
    probe_at = at_steps(plan.configuration, plan.steps)
    run = record(plan.configuration, training, stop, probe=first_layers, probe_at=probe_at)
    return run, _moments(run, parts, looking, stop)


def _moments(run: RecordedRun, parts: Parts, report: Report, stop: threading.Event) -> Iterator[Moment]:
    places = [(number, position) for number in run.finite for position in range(len(run.blocks))]
    for number, position in parts.left(places, report, stop):
        block = int(run.blocks[position])
        thetas, _, targets = run.probed
        theta, target = jax.tree.map(lambda leaf, at=(number, position): leaf[at], (thetas, targets))
        replay = run.replay_at(number, block)
        yield Moment(number, block, run.steps_of(block), theta, target, run.recording[number], replay)


def from_share(report: Report, first: float) -> tuple[Report, Report]:
    """Reports of two stages of a measurement, the first of which takes this share of the time."""
    return lambda share: report(first * share), lambda share: report(first + (1 - first) * share)


def rounds_table(run: RecordedRun, **more: int) -> pl.DataFrame:
    """One row: how many rounds there were, and how many diverged."""
    rounds = run.configuration.training.rounds
    return pl.DataFrame([{"rounds": rounds, "diverged": rounds - len(run.finite), **more}])


def frozen_parameters(configuration: Configuration, theta: Parameters, target: Parameters | None) -> Parameters | None:
    """What y is computed with in an outer iteration from θ; None: with each gradient's own θ."""
    return target_parameters(configuration.gradients, theta, target)


_PIECE = 1_000  # rows whose activations are held at once, so that they stay in the processor's cache


def exact_gradient(
    configuration: Configuration,
    network: Network,
    theta: Parameters,
    rows: Float[Array, "count width"],
    frozen: Parameters | None = None,
) -> Parameters:
    """The mean gradient at θ over packed transitions, with y computed by `frozen` parameters, or else at the same θ."""
    settings = configuration.gradients
    source = make_gradients(settings, network)

    def total(piece: Float[Array, "rows width"]) -> Parameters:
        mean, _, _ = source.mean(theta, make_batch(settings, network, unpack(piece), frozen))
        return jax.tree.map(lambda leaf: leaf * piece.shape[0], mean)

    def add(sums: Parameters, piece: Float[Array, "rows width"]) -> tuple[Parameters, None]:
        return jax.tree.map(jnp.add, sums, total(piece)), None

    count = rows.shape[0]
    whole = count // _PIECE * _PIECE
    sums = jax.tree.map(jnp.zeros_like, theta)
    sums, _ = jax.lax.scan(add, sums, rows[:whole].reshape(-1, _PIECE, rows.shape[1]))
    if whole < count:
        sums, _ = add(sums, rows[whole:])
    return jax.tree.map(lambda leaf: leaf / count, sums)


_programs: Once[Any] = Once(64)


def call_compiled(key: Hashable, function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments). Functions given with equal keys must do the same; they share a program for each shape."""
    leaves, structure = jax.tree.flatten(arguments)
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    program, _ = _programs.get(
        (key, structure, shapes, is_double()), lambda: jax.jit(function).lower(*arguments).compile(hot_program_flags())
    )
    return program(*arguments)
