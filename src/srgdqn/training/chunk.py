"""Some rounds side by side: a generator of segments that knows nothing about logging.

Rounds sit on *boards*, each with as many lanes as the compiled program has. A round that has stopped, because it is
done or has diverged, would keep its lane busy for nothing, so whenever those still active fit on fewer boards they are
moved together; where a round sits does not change its bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srgdqn.config import Configuration
from srgdqn.training.clock import limits_of, total_blocks
from srgdqn.training.evaluation import Evaluation, evaluation_keys
from srgdqn.training.lane import BlockLog, Lane
from srgdqn.training.lane_packing import Board, Boards
from srgdqn.training.program import SEGMENT_BLOCKS, Numbers, Programs, lane_numbers


class Segment(NamedTuple):
    """What a segment of a chunk gave, with an axis of rounds first (which spare lanes may follow)."""

    blocks_done: int  # since the start
    log: BlockLog
    lanes: Lane
    evaluation: Evaluation | None  # greedy, after the segment, where one was due
    train_seconds: float
    evaluate_seconds: float
    last: bool
    on_host: Callable[[], Lane]  # a copy of every round's state, with keys as their data


class Resumed(NamedTuple):
    """Where a chunk goes on."""

    blocks_done: int
    lanes: Lane  # of every round, as `Segment.on_host` gave it


def train_chunk(
    configuration: Configuration,
    programs: Programs,
    rounds: Sequence[int],
    *,
    numbers: Numbers | None = None,
    data: Any = None,
    segment_blocks: int = SEGMENT_BLOCKS,
    resumed: Resumed | None = None,
) -> Iterator[Segment]:
    """Runs `rounds` until their budget is spent or none is active, a segment at a time; from the beginning, or from
    where they were `resumed`.

    `numbers` has one value per element of `rounds`, where not all have the configuration's own; `data` holds arrays
    with an axis of all rounds first. Spare lanes run masked. The caller may stop iterating at any time. A segment's
    `lanes` are valid until the next segment is asked for.
    """
    settings = configuration.training
    limits = limits_of(settings, configuration.task.time_limit)
    keys = evaluation_keys(settings.seed, settings.evaluation_episodes)
    seed = jnp.asarray(settings.seed, jnp.uint32)
    boards = Boards(
        programs.width,
        rounds,
        lane_numbers(configuration, len(rounds)) if numbers is None else numbers,
        lambda which, used: programs.init(seed, jnp.asarray(which), jnp.asarray(used)),
        data,
        None if resumed is None else resumed.lanes,
    )
    done, last_block = 0 if resumed is None else resumed.blocks_done, total_blocks(settings)
    while True:
        stop = next_stop(configuration, done, last_block, min(segment_blocks, SEGMENT_BLOCKS))
        start = time.perf_counter()
        first, blocks = np.asarray(done, np.int32), np.asarray(stop - done, np.int32)

        def run(board: Board, first: Any = first, blocks: Any = blocks, count: int = stop - done) -> tuple[Lane, Any]:
            lanes, log = programs.segment(board.lanes, board.numbers, first, blocks, limits, board.data)
            return lanes, jax.tree.map(lambda leaf: np.asarray(leaf)[:, :count], log)

        log = boards.advance(run)
        trained = time.perf_counter()
        done = stop
        last = done == last_block or not boards.any_active
        evaluation = None
        if last or evaluation_due(configuration, done):
            # A round that has stopped is judged once, at the end of all.
            evaluation = boards.judge(
                lambda lanes: jax.tree.map(np.asarray, programs.evaluate(lanes, keys)), everyone=last
            )
        evaluated = time.perf_counter() - trained
        yield Segment(done, log, boards.lanes, evaluation, trained - start, evaluated, last, boards.on_host)
        if last:
            return
        boards.move_together()


def _evaluation_blocks(configuration: Configuration, count: int) -> int:
    """The blocks after which the evaluation number `count` is due: the first not before count × interval steps."""
    interval = configuration.training.evaluation_interval
    assert interval is not None
    return -(-count * interval // configuration.training.learning_frequency)


def evaluation_due(configuration: Configuration, done: int) -> bool:
    """Whether a greedy evaluation is due after so many blocks."""
    interval = configuration.training.evaluation_interval
    if interval is None:
        return False
    count = done * configuration.training.learning_frequency // interval
    return count > 0 and _evaluation_blocks(configuration, count) == done


def next_stop(configuration: Configuration, done: int, last_block: int | None, most: int) -> int:
    """Where the next segment ends: never beyond an evaluation or the budget, so that neither depends on segments."""
    stops = [done + most]
    if last_block is not None:
        stops.append(last_block)
    interval = configuration.training.evaluation_interval
    if interval is not None:
        count = done * configuration.training.learning_frequency // interval + 1
        stops.append(_evaluation_blocks(configuration, count))
    return min(stop for stop in stops if stop > done)
