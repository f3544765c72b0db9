"""Rounds for the fused kernel, put together by hand: nothing is compiled by XLA, and no state is beyond reach."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.learner.estimators.storm import Memory
from srgdqn.learner.networks import make_network
from srgdqn.learner.networks.mlp import MLP, Layer
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.optimiser import AdamState
from srgdqn.learner.outer_iteration import LearnerState, batch_rows
from srgdqn.training.budget import Limits, limits_of
from srgdqn.training.interaction import Situation, action_count, observation_size
from srgdqn.training.kernel_program import NativeProgram
from srgdqn.training.lane import BlockLog, Instruments, Lane, Probe, Program

STARTS = {
    "MountainCar": [-0.5, 0.0],
    "Pendulum": [0.5, 0.1],
    "CartPole": [0.01, 0.0, 0.02, 0.0],
    "Acrobot": [0.1, -0.1, 0.0, 0.0],
}


class Native(NamedTuple):
    """A configuration, and the kernel's program for it."""

    configuration: Configuration
    program: Program
    kernel: NativeProgram

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths from the observation to the Q-values."""
        environment = self.program.task.environment
        return observation_size(environment), *self.configuration.network.hidden, action_count(environment)

    @property
    def rows(self) -> int:
        """Transitions in D."""
        return batch_rows(self.configuration)

    def limits(self, **other: Any) -> Limits:
        """The budget's, on the host, but for those given."""
        limits = limits_of(self.configuration.training, self.configuration.task.time_limit)
        return jax.tree.map(np.asarray, limits)._replace(**{name: np.asarray(value) for name, value in other.items()})

    def segment(
        self, lanes: Lane, first: int, blocks: int, numbers: Mapping[str, Any] | None = None, **other: Any
    ) -> tuple[Lane, BlockLog]:
        """Runs blocks of copies of the lanes, with the configuration's numbers, but for those given."""
        given = {**self.configuration.numbers(), **(numbers or {})}
        count = len(lanes.active)
        each: dict[str, Any] = {name: np.broadcast_to(np.float32(value), count).copy() for name, value in given.items()}
        return self.kernel.segment(copied(lanes), each, first, blocks, self.limits(**other), None)  # type: ignore[arg-type]


def native(task: str, algorithm: str = "srg-dqn", *, probe: Probe | None = None, **options: Any) -> Native:
    configuration = configure(task, algorithm, **options)
    made = tasks.make(configuration.task)
    sizes = observation_size(made.environment), action_count(made.environment)
    program = Program(
        configuration.shape(), made, make_network(configuration.network, *sizes), Instruments(probe=probe)
    )
    return Native(configuration, program, NativeProgram(program))


def random_parameters(rng: np.random.Generator, sizes: tuple[int, ...], lanes: int, scale: float = 1.0) -> MLP:
    """Weights that neither swell nor shrink what passes through them, and biases of the same kind."""
    layers = [
        Layer(
            rng.normal(0, scale / np.sqrt(inputs), (lanes, inputs, outputs)).astype(np.float32),
            rng.normal(0, scale / 2, (lanes, outputs)).astype(np.float32),
        )
        for inputs, outputs in itertools.pairwise(sizes)
    ]
    return MLP(tuple(layers), "relu")  # type: ignore[arg-type]


def random_lanes(native: Native, rng: np.random.Generator, lanes: int, index: int = 0) -> Lane:
    """Rounds before block `index`, in progress: with random parameters, moments and memories.

    What no batch after that block may contain is NaN.
    """
    configuration, sizes = native.configuration, native.sizes
    size, block, slots = sizes[0], native.program.block, native.program.slots
    parameters = random_parameters(rng, sizes, lanes)
    first = random_parameters(rng, sizes, lanes, 0.3)
    second = jax.tree.map(lambda leaf: rng.uniform(0.01, 1, leaf.shape).astype(np.float32), parameters)
    memory = None
    if configuration.estimator.estimator == "storm":
        memory = Memory(random_parameters(rng, sizes, lanes), random_parameters(rng, sizes, lanes))
    has_target = configuration.gradients.target in ("hard", "polyak")
    learner = LearnerState(
        parameters,
        AdamState(first, second, rng.integers(1, 50, lanes, dtype=np.int32)),  # type: ignore[arg-type]
        random_parameters(rng, sizes, lanes) if has_target else None,
        memory,
        rng.integers(0, 50, lanes, dtype=np.int32),  # type: ignore[arg-type]
    )
    ring = rng.normal(0, 1, (lanes, slots, 2 * size + 3)).astype(np.float32)
    ring[..., -3] = rng.integers(sizes[-1], size=(lanes, slots))
    ring[..., -1] = rng.random((lanes, slots)) < 0.3
    written = (index + 1) * block
    ring[:, sorted(set(range(slots)) - set(live_slots(native, written)))] = np.nan
    state = np.tile(np.float32(STARTS[configuration.task.task]), (lanes, 1))
    return Lane(
        key=jax.random.wrap_key_data(rng.integers(0, 2**32, (lanes, 2), dtype=np.uint32), impl="threefry2x32"),
        situation=Situation(state, observed(configuration, state), np.zeros(lanes, np.int32)),  # type: ignore[arg-type]
        ring=ring,  # type: ignore[arg-type]
        learner=learner,
        normaliser=Normaliser(None, None, None),
        episodes=np.zeros(lanes, np.int32),  # type: ignore[arg-type]
        active=np.ones(lanes, bool),  # type: ignore[arg-type]
        diverged_at=np.full(lanes, -1, np.int32),  # type: ignore[arg-type]
    )


def live_slots(native: Native, written: int) -> list[int]:
    """The slots of the transitions that may be drawn, the newest first."""
    count = min(written, native.configuration.replay.replay_capacity)
    return [(written - 1 - age) % native.program.slots for age in range(count)]


def observed(configuration: Configuration, state: np.ndarray) -> np.ndarray:
    links = {"Pendulum": 1, "Acrobot": 2}.get(configuration.task.task, 0)
    columns = [turned(state[:, link]) for link in range(links) for turned in (np.cos, np.sin)]
    return np.column_stack([*columns, state[:, links:]])


def copied(lanes: Lane) -> Lane:
    return jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, lanes)


def words_of(lanes: Lane) -> np.ndarray:
    """The keys as pairs of words."""
    return np.asarray(jax.random.key_data(lanes.key))


def chosen(tree: Any, places: Any) -> Any:
    """The lanes at these places, of anything that has an axis of lanes first."""
    return jax.tree.map(lambda leaf: leaf[np.asarray(places)], tree)
