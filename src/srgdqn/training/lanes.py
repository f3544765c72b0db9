"""Rounds as lanes of compiled calls.

A chunk is the lanes of one call, as many as the program has. A round that has stopped, because it is done or has
diverged, would keep its lane busy for nothing, so whenever those still active fit into fewer chunks they are moved
together; which lane a round sits in does not change its bits.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srgdqn.config import Configuration
from srgdqn.engines.executor import never
from srgdqn.learner.n_step import gather
from srgdqn.learner.outer_iteration import evaluated_parameters, evaluates_others
from srgdqn.runs.snapshots import Rows, Saveable, Stream, Tensors, by_path, filled
from srgdqn.training.best_policies import BestPolicies
from srgdqn.training.budget import budget_of, limits_of, total_blocks
from srgdqn.training.direction_errors import NOT_MEASURED, DirectionErrors, measure
from srgdqn.training.evaluation import Evaluation, evaluation_keys, fresh_keys
from srgdqn.training.lane import BlockLog, Lane
from srgdqn.training.loop import Halt, Owners, configuration_digest, policy_arrays
from srgdqn.training.program import SEGMENT_BLOCKS, Programs, lane_numbers


class Chunk(NamedTuple):
    """The lanes of one call of the program."""

    places: np.ndarray  # of each lane's round among all; lanes beyond these are spare
    lanes: Lane
    numbers: dict[str, np.ndarray]  # one value per lane
    data: Any  # what each lane is given of the run's data


class LaneRounds:
    """Rounds of one shape of configuration, in as many chunks as they fill. `begin` or `resume` comes first."""

    environments = None  # a lane has one

    def __init__(
        self,
        configuration: Configuration,
        programs: Programs,
        rounds: Sequence[int],
        *,
        numbers: Mapping[str, np.ndarray] | None = None,
        data: Any = None,
        owners: Owners | None = None,
    ) -> None:
        """`numbers` has one value per round, where not all have the configuration's own; `data` holds arrays with an
        axis of all rounds first, of which each lane is given its round's.
        """
        self.configuration, self._programs, self._data = configuration, programs, data
        self._rounds, self._width = np.asarray(rounds, np.uint32), programs.width
        self._numbers = lane_numbers(configuration, len(rounds)) if numbers is None else numbers
        settings = configuration.training
        self._limits = limits_of(settings, configuration.task.time_limit)
        self._last_block = total_blocks(settings)
        self._keys = evaluation_keys(settings.seed, settings.evaluation_episodes)
        self.owners = [(configuration_digest(configuration), 0, len(rounds))] if owners is None else owners
        self.best = BestPolicies(len(rounds), self.policies) if settings.keep_best else None
        self.blocks = 0
        self._chunks: list[Chunk] = []
        self._everyone: Lane | None = None  # every round's state on the host, where there are several chunks
        self._log: BlockLog | None = None
        self._ring: np.ndarray | None = None  # that is being restored,
        self._span = (0, 0)  # and the transitions that it was given

    def begin(self) -> None:
        """Makes every round's state before its first step."""
        seed = jnp.asarray(self.configuration.training.seed, jnp.uint32)
        for places in self._shared_out(np.arange(len(self._rounds))):
            used = np.arange(self._width) < len(places)
            lanes = self._programs.init(seed, jnp.asarray(self._rounds_of(places)), jnp.asarray(used))
            self._chunks.append(self._chunk(places, lanes))
        if len(self._chunks) > 1:
            copies = [jax.tree.map(lambda leaf, c=c: leaf[: len(c.places)], _on_host(c.lanes)) for c in self._chunks]
            self._everyone = jax.tree.map(lambda *leaves: np.concatenate(leaves), *copies)

    def resume(self, blocks: int, lanes: Lane) -> None:
        """Goes on from every round's state, as `on_host` gave it, after so many blocks."""
        single = len(self._rounds) <= self._width
        self.blocks, self._everyone = blocks, lanes
        places = np.arange(len(self._rounds)) if single else np.flatnonzero(lanes.active)
        self._chunks = [self._chunk(each, self._taken(each)) for each in self._shared_out(places)]
        if single:  # which never move, and need not be copied
            self._everyone = None

    @property
    def lanes(self) -> Lane:
        """Every round's state (with keys as their data, where there are several chunks). Spare lanes may follow."""
        return self._chunks[0].lanes if self._everyone is None else self._everyone

    def on_host(self) -> Lane:
        """A copy of every round's state that stays as it is, with keys as their data."""
        if self._everyone is not None:
            return jax.tree.map(np.copy, self._everyone)
        return jax.tree.map(lambda leaf: np.array(leaf[: len(self._rounds)]), _on_host(self._chunks[0].lanes))

    @property
    def active(self) -> bool:
        """Whether there is anything left to do."""
        within = self._last_block is None or self.blocks < self._last_block
        return within and any(np.asarray(chunk.lanes.active).any() for chunk in self._chunks)

    @property
    def divergence(self) -> np.ndarray:
        """The environment steps at which each round diverged; -1 for those that did not."""
        return np.array(self.lanes.diverged_at)[: len(self._rounds)]

    @property
    def log(self) -> BlockLog:
        """What the blocks of the last `advance` left behind."""
        assert self._log is not None
        return self._log

    def advance(self, stop: int, halt: Halt = never) -> None:
        """Runs blocks of every chunk. In the log, rounds that are in none have neither stepped nor learned."""
        if halt():
            return
        self._move_together()
        count = min(stop - self.blocks, SEGMENT_BLOCKS)
        first, blocks = (np.asarray(number, np.int32) for number in (self.blocks, count))
        logs = []
        for index, chunk in enumerate(self._chunks):
            given: Any = (chunk.numbers, first, blocks, self._limits, chunk.data)
            lanes, log = self._programs.segment(chunk.lanes, *given)
            self._chunks[index] = chunk._replace(lanes=lanes)
            logs.append(jax.tree.map(lambda leaf: np.asarray(leaf)[:, :count], log))
        if self._everyone is not None:
            for chunk in self._chunks:
                jax.tree.map(lambda rows, new, c=chunk: _put(rows, c, new), self._everyone, _on_host(chunk.lanes))
        self._log = logs[0] if self._everyone is None else jax.tree.map(self._rows, *logs)
        self.blocks += count

    def evaluate(self, *, everyone: bool) -> Evaluation:
        """Greedy episodes of every round, or of those in chunks only: the others have nothing in theirs."""
        if self._everyone is None:
            return self._play(self._chunks[0].lanes)
        if not everyone:
            return jax.tree.map(self._rows, *(self._play(chunk.lanes) for chunk in self._chunks))
        places = np.arange(len(self._rounds))
        played = [self._play(self._taken(each)) for each in self._shared_out(places)]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(places)], *played)

    def _play(self, lanes: Lane) -> Evaluation:
        return jax.tree.map(np.asarray, self._programs.evaluate(lanes, self._keys))

    def direction_errors(self, *, everyone: bool) -> DirectionErrors:
        """Of every round that has begun to learn, or of those that have stepped in the last block; of rounds that have
        diverged none.
        """
        settings, budget = self.configuration.training, budget_of(self.configuration.training)
        lanes = _on_host(self._chunks[0].lanes) if self._everyone is None else self._everyone
        blocks = np.full(len(self._rounds), self.blocks)
        if budget.unit == "episodes":  # only then may one stop before another
            made = lanes.learner.iterations[: len(blocks)]
            blocks = np.minimum(blocks, settings.first_learning_block + made // settings.gradient_steps)
        measured = []
        for place, done in enumerate(blocks.tolist()):
            lane: Lane = jax.tree.map(lambda leaf, p=place: leaf[p], lanes)
            begun = lane.learner.iterations > 0 and lane.diverged_at < 0
            if not begun or not (everyone or done == self.blocks):
                measured.append(NOT_MEASURED)
                continue
            spent = {
                "steps": done * settings.learning_frequency,
                "outer_iterations": lane.learner.iterations,
                "episodes": lane.episodes,
            }[budget.unit]
            measured.append(
                measure(
                    self._programs.directions,
                    lane.key,
                    done - 1,
                    {name: values[place] for name, values in self._numbers.items()},
                    lane.learner,
                    lane.normaliser,
                    functools.partial(
                        gather,
                        lane.ring,
                        written=done * settings.learning_frequency,
                        n=self.configuration.replay.n_step,
                    ),
                    float(spent) / budget.amount,
                )
            )
        return DirectionErrors(*(np.array(column) for column in zip(*measured, strict=True)))

    def policies(self) -> Tensors:
        """What the greedy policies are made of, by path."""
        parameters = evaluated_parameters(self.configuration, self.lanes.learner, rounds=True)
        arrays = policy_arrays(parameters, self.lanes.normaliser)
        return {path: array[: len(self._rounds)] for path, array in arrays.items()}

    def acting_policies(self) -> Tensors | None:
        """The same of the parameters that act, where others are evaluated in their place."""
        if not evaluates_others(self.configuration):
            return None
        arrays = policy_arrays(self.lanes.learner.parameters, self.lanes.normaliser)
        return {path: array[: len(self._rounds)] for path, array in arrays.items()}

    def play_afresh(self, policies: Tensors) -> Evaluation:
        """Greedy episodes of every round with such policies, from fresh starts."""
        settings, form = self.configuration.training, self._programs.form
        keys, count = fresh_keys(settings.seed, settings.evaluation_episodes), len(self._rounds)
        like = {"network": form.learner.parameters, "normaliser": form.normaliser.observations}
        unread = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), form.normaliser)
        played = []
        for places in self._shared_out(np.arange(count)):
            taken = filled(like, {path: array[self._padded(places)] for path, array in policies.items()})
            normaliser = unread._replace(observations=taken["normaliser"])
            parts = [self._programs.play(taken["network"], normaliser, each) for each in keys]
            played.append(jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *played)

    def states(self, *, last: bool) -> dict[str, Saveable]:
        """What a checkpoint holds of them."""
        del last
        return {"state": self} if self.best is None else {"state": self, "best": self.best}

    def state(self) -> tuple[Tensors, dict[str, Stream]]:
        """The lanes, and their replays by the numbers of the transitions; without these after the last block."""
        tensors = by_path(self.on_host())
        ring = tensors.pop("ring")
        tensors["blocks"] = np.array(self.blocks, np.int64)
        slots, written = ring.shape[1], self._steps

        def transitions(start: int, stop: int) -> Rows:
            return {"transition": ring[:, np.arange(start, stop) % slots].swapaxes(0, 1)}

        replay = {"replay": Stream(max(0, written - slots), written, transitions, "replay")}
        return tensors, replay if self.active else {}

    def take(self, name: str, first: int, rows: Rows) -> None:
        """Takes in transitions."""
        form, written = self._form.ring, rows["transition"]
        if name != "replay" or written.shape[1:] != form.shape[::2] or written.dtype != form.dtype:
            raise ValueError(f"its {name} is {written.dtype} of shape {written.shape[1:]}")
        if self._ring is None:
            self._ring, self._span = np.zeros(form.shape, form.dtype), (first, first)
        self._ring[:, np.arange(first, first + len(written)) % form.shape[1]] = written.swapaxes(0, 1)
        self._span = (self._span[0], first + len(written))

    def restore(self, tensors: Tensors) -> None:
        """Takes in the lanes, once their replays are there."""
        form = self._form
        blocks = filled({"blocks": np.zeros((), np.int64)}, tensors)["blocks"]
        lanes = jax.tree.map(np.array, filled(form._replace(ring=None), tensors))
        ring = np.zeros(form.ring.shape, form.ring.dtype) if self._ring is None else self._ring
        self.resume(int(blocks), lanes._replace(ring=ring))
        written = self._steps if self.active else 0
        if self._span != (max(0, written - ring.shape[1]), written):
            raise ValueError("its replay is of another time")
        self._ring = None

    @property
    def _steps(self) -> int:
        return self.blocks * self.configuration.training.learning_frequency

    @property
    def _form(self) -> Any:
        """The shapes and types of every round's state on the host."""

        def of_rounds(like: Any) -> jax.ShapeDtypeStruct:
            like = jax.eval_shape(jax.random.key_data, like) if _is_key(like) else like
            return jax.ShapeDtypeStruct((len(self._rounds), *like.shape[1:]), like.dtype)

        return jax.tree.map(of_rounds, self._programs.form)

    def _move_together(self) -> None:
        """Gives up chunks, where the rounds still active fit into fewer."""
        active = np.concatenate([c.places[np.asarray(c.lanes.active)[: len(c.places)]] for c in self._chunks])
        if len(active) <= self._width * (len(self._chunks) - 1):
            self._chunks = [self._chunk(places, self._taken(places)) for places in self._shared_out(active)]

    def _shared_out(self, places: np.ndarray) -> list[np.ndarray]:
        return [places[start : start + self._width] for start in range(0, len(places), self._width)]

    def _chunk(self, places: np.ndarray, lanes: Lane) -> Chunk:
        rounds, padded = self._rounds_of(places), self._padded(places)
        return Chunk(
            places,
            lanes,
            {name: values[padded] for name, values in self._numbers.items()},
            jax.tree.map(lambda leaf: jnp.asarray(leaf[rounds]), self._data),
        )

    def _padded(self, places: np.ndarray) -> np.ndarray:
        """A place for every lane; spare ones share the first."""
        return np.append(places, np.repeat(places[:1], self._width - len(places)))

    def _rounds_of(self, places: np.ndarray) -> np.ndarray:
        """The round of every lane; spare ones are given round 0."""
        return np.append(self._rounds[places], np.zeros(self._width - len(places), np.uint32))

    def _taken(self, places: np.ndarray) -> Lane:
        """Lanes with the states of these rounds. Spare ones have that of the first, and are not active."""
        padded = self._padded(places)
        lanes: Lane = jax.tree.map(
            lambda leaf, like: _on_device(leaf[padded], like), self._everyone, self._programs.form
        )
        return lanes._replace(active=lanes.active & (jnp.arange(self._width) < len(places)))

    def _rows(self, *logs: np.ndarray) -> np.ndarray:
        absent = np.nan if np.issubdtype(logs[0].dtype, np.floating) else 0
        rows = np.full((len(self._rounds), *logs[0].shape[1:]), absent, logs[0].dtype)
        for chunk, log in zip(self._chunks, logs, strict=True):
            _put(rows, chunk, log)
        return rows


def _put(rows: np.ndarray, chunk: Chunk, new: np.ndarray) -> None:
    rows[chunk.places] = new[: len(chunk.places)]


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _on_host(lanes: Lane) -> Lane:
    return jax.tree.map(lambda leaf: np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf), lanes)


def _on_device(leaf: np.ndarray, like: Any) -> Any:
    array = jnp.asarray(leaf)
    return jax.random.wrap_key_data(array, impl="threefry2x32") if _is_key(like) else array
