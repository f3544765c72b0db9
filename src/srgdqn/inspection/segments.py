"""Segments of a round rerun, each from a checkpoint of the run, where equal bits are not expected.
Where conditions are unchanged after all, any other bit is a difference.

Rounds are chaotic: a difference in the last bit grows until two trajectories have nothing in common. So ends of runs
say nothing, and segments are compared, each from a checkpoint to the next. How much of an error rounding explains is
measured in the same segment: copies of the round begin with a state of which every number is another one in its last
bit, and the distance at which they typically end, times a factor, is the bound.

An error beyond it may still be rounding's: where two actions were as good as each other, the other one may have been
taken, which leads to other transitions. The checkpoints at both ends of a segment hold the transitions that the run
made in it; then its learning is repeated on those, so that nothing but rounding is left to differ.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array

from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.inspection.differences import distance, parameter_differences
from srgdqn.inspection.rerun import rerun
from srgdqn.inspection.saved_run import RoundCheckpoint, SavedRun, checkpoints_of
from srgdqn.learner.normalisation import Normaliser, observe
from srgdqn.learner.outer_iteration import LearnerState, batch_rows
from srgdqn.learner.replay import unpack
from srgdqn.training.batches import BatchContext, from_replay
from srgdqn.training.budget import Limits, limits_of
from srgdqn.training.draws import BatchDraws, draw_block
from srgdqn.training.lane import learn_on
from srgdqn.training.loop import policy_arrays
from srgdqn.training.program import lane_numbers

FACTOR = 100.0
"""Programs of another kind round in every operation of every iteration, the copies were changed but once."""
COPIES = {True: 15, False: 2}
"""How many, of compiled rounds (where they are all but free) and of rounds on the host."""
LEAST_BOUND = 1e-5

Finding = Literal["agrees", "differs", "undecided"]


@dataclass(frozen=True)
class SegmentCheck:
    """A rerun segment."""

    number: int
    from_step: int
    until_step: int
    moved: float
    """How far the parameters went in it: the norm of the difference."""
    error: float
    """How far the recomputed ones ended from the stored ones."""
    largest_error: float
    """Of a single number."""
    largest_relative_error: float
    """Likewise, relative to the stored number's size, of numbers that are not tiny among their array's."""
    rounding: float
    """How far copies typically ended that began with other last bits: the median."""
    forced: bool
    """Whether it was relearned on the transitions that the run made, as those made here were others."""
    parted_at: int | None
    """The environment step by which episodes ended otherwise here than in the run; None if all ended alike."""
    same_bits: bool
    """Whether every recomputed number is the stored one to the bit."""
    exact: bool
    """Whether conditions are as when the run was made, so that every bit is to be the same."""

    @property
    def identical(self) -> bool:
        """Whether the parameters at its end are the same to the bit."""
        return self.same_bits and not self.forced

    @property
    def share(self) -> float:
        """The error relative to the distance moved."""
        return _ratio(self.error, self.moved)

    @property
    def bound(self) -> float:
        """What rounding may explain of that."""
        return max(LEAST_BOUND, FACTOR * _ratio(self.rounding, self.moved))

    @property
    def finding(self) -> Finding:
        """Whether it agrees: to the bit where that is to be expected. Elsewhere, where rounding explains any error, or
        may have led to other transitions and those of the run are not at hand, nothing is decided.
        """
        if self.exact:
            return "agrees" if self.same_bits else "differs"
        if self.error == 0.0:
            return "agrees"
        if not (np.isfinite(self.share) and self.bound < 1.0):
            return "undecided"
        if self.share <= self.bound:
            return "agrees"
        return "differs" if self.forced else "undecided"

    @property
    def words(self) -> str:
        """What was found, in a sentence."""
        if self.identical:
            return "the same to the bit"
        on_its_own = " on the transitions that the run made" if self.forced else ""
        said = f"the error{on_its_own} is {self.share:.2g} of the distance moved"
        if self.exact:
            return f"{said}, where conditions are as when the run was made and every bit is to be the same"
        if self.finding != "undecided":
            return f"{said}, {'within' if self.finding == 'agrees' else 'BEYOND'} the bound of {self.bound:.2g}"
        if self.bound >= 1.0:
            return f"{said}; a change of the last bit grows so large here that nothing follows from that"
        return f"{said}, beyond the bound of {self.bound:.2g}, but other actions may have been taken here"


def check_segments(saved: SavedRun, number: int, *, exact: bool) -> Iterator[SegmentCheck]:
    """Every segment of a round: from its beginning to its first checkpoint, from each to the next, and from the last to
    its end, whose parameters the run has. Where a checkpoint is damaged, segments go from the one before to the next.

    `exact`: whether conditions are as when the run was made.
    """
    steps = saved.row_of(number)["steps"]
    end = -(-steps // saved.block)
    checkpoints = [each for each in checkpoints_of(saved, number) if not each.at_the_end and each.blocks < end]
    starts: list[RoundCheckpoint] = []
    for upcoming in [*checkpoints, None]:
        blocks = end if upcoming is None else upcoming.blocks
        stored = saved.result.parameters_of(number) if upcoming is None else upcoming.policy()
        until = min(blocks * saved.block, steps)
        with rerun(saved, number, *starts) as round_:
            first, begin = round_.steps, round_.policies()[0]
            round_.add_copies(COPIES[saved.compiled], _nudge(np.random.default_rng(0)))
            round_.advance(blocks)
            policies, parted = round_.policies(), parted_at(saved, number, first, until, round_.ends)
        check = _checked((number, first, until), begin, stored, policies, forced=False, parted=parted, exact=exact)
        starts = [each for each in starts if each.blocks * saved.block <= first]  # those after it are damaged
        if check.finding == "undecided" and starts and upcoming is not None:
            forced = relearned(saved, starts[-1], upcoming, COPIES[True], _nudge(np.random.default_rng(0)))
            if forced is not None:
                span, begin = (number, first, until), starts[-1].policy()
                check = _checked(span, begin, stored, forced, forced=True, parted=parted, exact=exact)
        yield check
        if upcoming is not None:
            starts.append(upcoming)


Policy = dict[str, np.ndarray]
Change = Callable[[np.ndarray], np.ndarray]


def _checked(
    span: tuple[int, int, int],
    begin: Policy,
    stored: Policy,
    policies: list[Policy],
    *,
    forced: bool,
    parted: int | None,
    exact: bool,
) -> SegmentCheck:
    own, *copies = policies
    apart = {path: np.abs(own[path].astype(float) - array) for path, array in stored.items() if array.size}
    return SegmentCheck(
        *span,
        moved=_distance(stored, begin),
        error=_distance(own, stored),
        largest_error=max((float(each.max()) for each in apart.values()), default=0.0),
        largest_relative_error=max((_relative(each, stored[path]) for path, each in apart.items()), default=0.0),
        rounding=float(np.median([_distance(copy, own) for copy in copies])),
        forced=forced,
        parted_at=parted,
        same_bits=not parameter_differences(stored, own)[0],
        exact=exact,
    )


def _nudge(generator: np.random.Generator) -> Change:
    """From numbers to the next ones above or below, at random. Whole numbers, such as actions, stay what they are."""

    def nudge(numbers: np.ndarray) -> np.ndarray:
        if not np.issubdtype(numbers.dtype, np.floating):
            return numbers
        towards = np.where(generator.random(numbers.shape) < 0.5, -np.inf, np.inf).astype(numbers.dtype)
        return np.where(numbers == np.round(numbers), numbers, np.nextafter(numbers, towards))

    return nudge


def _distance(one: Policy, other: Policy) -> float:
    return distance(*zip(*((one[path], other[path]) for path in one if path in other), strict=True))


def _relative(apart: np.ndarray, stored: np.ndarray) -> float:
    sizes = np.abs(stored.astype(float))
    floor = 1e-3 * float(sizes.max()) or 1.0
    return float((apart / np.maximum(sizes, floor)).max())


def parted_at(saved: SavedRun, number: int, first: int, until: int, ends: list[int]) -> int | None:
    """The first step at which the ends of episodes differ; None if they do not."""
    mine = saved.result.episodes.filter((pl.col("round") == number) & pl.col("step").is_between(first + 1, until))
    found = [end for end in ends if end <= until]
    pairs = itertools.zip_longest(mine["step"].to_list(), found, fillvalue=math.inf)
    return next((int(min(pair)) for pair in pairs if pair[0] != pair[1]), None)


def _ratio(part: float, whole: float) -> float:
    if whole == 0.0:
        return 0.0 if part == 0.0 else float("inf")
    return part / whole


class _Learning(NamedTuple):
    learner: LearnerState
    normaliser: Normaliser


def relearned(
    saved: SavedRun, start: RoundCheckpoint, end: RoundCheckpoint, copies: int, change: Change
) -> list[Policy] | None:
    """Repeats the learning of a segment of a compiled round on the transitions that the run itself made.

    The policies at its end, the round's own and those of copies with `change` applied to them; None where the
    checkpoints do not hold the transitions, or where learning depends on anything else.
    """
    settings, limits = saved.configuration, _limits(saved)
    by_episodes = bool(limits.counts_episodes) and settings.optimiser.schedule != "constant"
    # Normalised rewards depend on where episodes ended, and priorities lie in a ring of another length.
    alone = not settings.normalisation.normalise_rewards and settings.replay.sampling != "prioritised"
    if not saved.compiled or by_episodes or not alone:
        return None
    try:
        before, after = start.lane(saved), end.lane(saved)
    except InputError:  # the end's replay is damaged, which is warned about when the next segment begins
        return None
    slots, first = before.ring.shape[1], start.blocks * saved.block
    if end.blocks * saved.block - first > slots or after.diverged_at[0] >= 0:
        return None
    # Twice as long a ring has room for all that was there at the beginning and all that was made since.
    numbers = np.arange(first - slots, first + slots)
    numbers = numbers[np.argsort(numbers % (2 * slots))]  # of the transition in each slot; below 0 there is none
    old, new = (np.asarray(lane.ring[0])[numbers % slots] for lane in (before, after))
    made = np.where((numbers < first)[:, None], old, new)
    state = _Learning(*(jax.tree.map(lambda leaf: leaf[0], part) for part in (before.learner, before.normaliser)))
    others = [jax.tree.map(lambda leaf: change(np.asarray(leaf)), state) for _ in range(copies)]
    learners = jax.tree.map(lambda *leaves: np.stack(leaves), state, *others)
    seen = np.stack([made, *(change(made) for _ in range(copies))])
    given = {name: values[0] for name, values in lane_numbers(settings, 1).items()}
    blocks = np.int32(start.blocks), np.int32(end.blocks)
    ended = _relearning(saved)(learners, seen, before.key[0], *blocks, given, limits)
    stored = policy_arrays(ended.learner.parameters, ended.normaliser)
    return [{path: array[copy] for path, array in stored.items()} for copy in range(1 + copies)]


def _limits(saved: SavedRun) -> Limits:
    return limits_of(saved.configuration.training, saved.configuration.task.time_limit)


@functools.lru_cache(maxsize=4)
def _relearning(saved: SavedRun) -> Any:
    """The program that learns from block `first` to block `last` of a run, compiled once for all its segments."""
    network, shape, block = saved.q_network(), saved.configuration.shape(), saved.block

    def learned(
        state: _Learning, made: Array, key: Any, first: Array, last: Array, numbers: dict[str, Array], limits: Limits
    ) -> _Learning:
        configuration: Configuration = shape.with_numbers(numbers)
        key = jax.random.wrap_key_data(key, impl="threefry2x32")

        def block_of_learning(index: Array, state: _Learning) -> _Learning:
            new = unpack(jax.lax.dynamic_slice_in_dim(made, index * block % made.shape[0], block))
            normaliser = observe(
                state.normaliser, new.observation, new.reward, new.terminated > 0, configuration.gradients.gamma
            )
            draws = draw_block(configuration, key, index, actions=saved.action_count, rows=batch_rows(configuration))

            def update(learner: LearnerState, batch: BatchDraws) -> tuple[LearnerState, None]:
                served = from_replay(BatchContext(configuration, network, learner, made, index, batch, None))
                spent = limits.spent(
                    steps=(index + 1) * block,
                    outer_iterations=learner.iterations,
                    episodes=jnp.zeros((), jnp.int32),
                )
                return learn_on(configuration, network, learner, normaliser, served, spent / limits.amount)[0], None

            learner, _ = jax.lax.scan(update, state.learner, draws.batches)
            due = (index >= limits.first_learning) & (index < limits.last_block)
            learned = jax.tree.map(lambda new, old: jnp.where(due, new, old), learner, state.learner)
            return _Learning(learned, normaliser)

        return jax.lax.fori_loop(first, last, block_of_learning, state)

    return jax.jit(jax.vmap(learned, (0, 0, None, None, None, None, None)))
