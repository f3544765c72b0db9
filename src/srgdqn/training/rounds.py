"""All rounds of a run: chunks of them on one Python thread per core, with the host in control between segments."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from srgdqn.cores import usable_cores
from srgdqn.networks import NetworkFactory, Parameters
from srgdqn.normalisation import Normaliser
from srgdqn.settings import Configuration
from srgdqn.tasks import Task
from srgdqn.training.chunk import Segment, train_chunk
from srgdqn.training.clock import budget_of
from srgdqn.training.lane import LIVED, PLAIN, TERMINATED, TRUNCATED, BlockLog, Instruments, Lane
from srgdqn.training.parts import Part, PartResult, parts_of, share_of, taken
from srgdqn.training.precision import in_this_precision
from srgdqn.training.program import SEGMENT_BLOCKS, Numbers, Programs, lane_numbers, programs_for
from srgdqn.training.records import ChunkHistory, Tables, chunk_tables, endings_of, merge_tables
from srgdqn.training.reports import ChunkReports, Reports, no_reports
from srgdqn.trees import by_path


class Progress(NamedTuple):
    """What a listener hears after each segment."""

    share: float  # of the whole run's budget
    steps: int  # environment steps since the last report, over the rounds of the chunk
    reward: float  # their mean reward
    diverged: int  # rounds frozen so far
    ended: bool = False  # whether the chunk is done: what it has to report is forgotten after this
    reports: Reports = no_reports  # the same for all segments of a chunk; computes nothing before it is called


class Trained(NamedTuple):
    """What training leaves: columns for the tables, and each round's policy. The rest is there where it was asked for.

    Rows of a probe that a round has not, because it stopped before, are NaN.
    """

    tables: Tables
    policies: dict[str, np.ndarray]  # by path, with one row per round
    interrupted: bool
    probed_blocks: np.ndarray | None = None
    probed: Any = None  # arrays with axes of rounds and of those blocks first
    recording: np.ndarray | None = None  # every packed transition: axes of rounds, steps and numbers


Listener = Callable[[Progress], None]
Choice = Callable[[np.ndarray], np.ndarray]
"""From numbers of blocks to whether each one's probed row is kept."""


def train_rounds(
    configuration: Configuration,
    task: Task,
    user_network: eqx.Module | NetworkFactory | None = None,
    *,
    listener: Listener = lambda progress: None,
    segment_blocks: int = SEGMENT_BLOCKS,
    workers: int | None = None,
    stop: threading.Event | None = None,
    instruments: Instruments = PLAIN,
    data: Any = None,
    probe_at: Choice = lambda blocks: np.ones(len(blocks), bool),
) -> Trained:
    """Trains every round of the configuration.

    `instruments` are a study's additions to the loop, `data` what its source of batches needs (arrays with an axis of
    rounds first), and `probe_at` chooses the blocks whose probed rows are kept.

    A KeyboardInterrupt in the calling thread ends the run after the segments under way, as does setting `stop` from
    another; what was reached is returned, marked as interrupted. A second KeyboardInterrupt is not caught.
    """
    [(_, trained)] = train_side_by_side(
        [configuration],
        task,
        user_network,
        listener=listener,
        segment_blocks=segment_blocks,
        workers=workers,
        stop=stop,
        instruments=instruments,
        data=data,
        probe_at=probe_at,
    )
    return trained


def train_side_by_side(
    configurations: Sequence[Configuration],
    task: Task,
    user_network: eqx.Module | NetworkFactory | None = None,
    *,
    listener: Listener = lambda progress: None,
    segment_blocks: int = SEGMENT_BLOCKS,
    workers: int | None = None,
    stop: threading.Event | None = None,
    instruments: Instruments = PLAIN,
    data: Any = None,
    probe_at: Choice = lambda blocks: np.ones(len(blocks), bool),
) -> Iterator[tuple[int, Trained]]:
    """Trains every round of configurations that differ in numbers alone, all of them as lanes of one program.

    Yields the place of each configuration, and what training it left, once its last round is done: the same as
    `train_rounds` gives for it alone, but for the timings, of which it has its share. The rest is as there; those that
    an interrupt cuts short come last, in their order.
    """
    first = configurations[0]
    if any(other.shape() != first.shape() for other in configurations):
        raise ValueError("configurations that train side by side differ in numbers alone")
    programs, fresh = programs_for(first, task, user_network, instruments, data)
    workers = workers or usable_cores()
    seats, most = len(configurations) * first.training.rounds, _most_boards(programs) * programs.width
    chunks = [parts_of(chunk, first.training.rounds) for chunk in _chunks(seats, programs.together, workers, most)]
    compiled = [("compile", 0, programs.compile_seconds)] if fresh else []
    ended = threading.Event()
    reports = [ChunkReports(first, [number for part in chunk for number in part.rounds]) for chunk in chunks]
    shared = _SharedListener(listener, reports)

    def stopping() -> bool:
        return ended.is_set() or (stop is not None and stop.is_set())

    def run(index: int) -> list[PartResult]:
        if stopping():
            return []
        parts, timings = chunks[index], list(compiled) if index == 0 else []
        segments = train_chunk(
            first,
            programs,
            [number for part in parts for number in part.rounds],
            numbers=_numbers([(configurations[part.configuration], len(part.rounds)) for part in parts]),
            data=data,
            segment_blocks=segment_blocks,
        )
        results, lanes = _run_chunk(configurations, task, segments, index, parts, timings, stopping, shared, probe_at)
        if instruments.blocks_kept is None:
            return results
        return [result._replace(ring=np.array(lanes.ring[result.part.seats])) for result in results]

    expected = Counter(part.configuration for parts in chunks for part in parts)
    found: dict[int, dict[int, PartResult]] = {place: {} for place in expected}
    yielded = set()

    def merged(place: int) -> Trained:
        return _merged([found[place][index] for index in sorted(found[place])], expected[place], instruments)

    job = in_this_precision(run)
    with ThreadPoolExecutor(min(workers, len(chunks)), thread_name_prefix="chunk") as pool:
        jobs = {pool.submit(job, index): index for index in range(len(chunks))}
        try:
            for each in as_completed(jobs):
                for result in each.result():
                    found[result.part.configuration][jobs[each]] = result
                for place in sorted({result.part.configuration for result in each.result()}):
                    if len(found[place]) == expected[place]:
                        trained = merged(place)
                        yielded.add(place)
                        yield place, trained
        except KeyboardInterrupt:
            pass
        finally:
            ended.set()
    for each, index in jobs.items():
        for result in each.result():
            found[result.part.configuration][index] = result
    for place in expected:
        if place not in yielded:
            yield place, merged(place)


def _numbers(seated: Sequence[tuple[Configuration, int]]) -> Numbers:
    """The numbers of so many rounds of each configuration, one value per round."""
    each = [lane_numbers(configuration, rounds) for configuration, rounds in seated]
    return {name: np.concatenate([numbers[name] for numbers in each]) for name in each[0]}


# More boards to a chunk leave fewer lanes idle, but all its logs, and two copies of its rounds' states, are in memory.
_MOST_BOARDS, _MOST_BYTES = 4, 2**25


def _most_boards(programs: Programs) -> int:
    return max(1, min(_MOST_BOARDS, _MOST_BYTES // programs.board_bytes))


def _chunks(rounds: int, together: int, workers: int, most: int) -> list[range]:
    """Ranges of at most so many rounds, whole groups of those that run together, with a share for every worker."""
    groups = -(-rounds // together)
    size = together * max(1, min(most // together, -(-groups // workers)))
    every = range(rounds)
    return [every[start : start + size] for start in every[::size]]


def _run_chunk(
    configurations: Sequence[Configuration],
    task: Task,
    segments: Iterator[Segment],
    index: int,
    parts: Sequence[Part],
    timings: list[tuple[str, int, float]],
    stopping: Callable[[], bool],
    listener: _SharedListener,
    probe_at: Choice,
) -> tuple[list[PartResult], Lane]:
    configuration, rounds = configurations[parts[0].configuration], parts[-1].seats.stop
    logs: list[BlockLog] = []
    probed: list[tuple[np.ndarray, Any]] = []
    evaluations = []
    segment: Segment | None = None
    for segment in segments:
        steps = segment.blocks_done * configuration.training.learning_frequency
        blocks = np.arange(segment.blocks_done - segment.log.reward.shape[1], segment.blocks_done)
        chosen = probe_at(blocks)
        rows = jax.tree.map(lambda leaf, mask=chosen: leaf[:rounds, mask], segment.log.probed)
        probed.append((blocks[chosen], rows))
        logs.append(segment.log._replace(probed=None))
        timings.append(("train", steps, segment.train_seconds))
        if segment.evaluation is not None:
            evaluations.append((segment.blocks_done, segment.last, segment.evaluation))
            timings.append(("evaluate", steps, segment.evaluate_seconds))
        listener.hear(configuration, index, rounds, segment)
        if stopping():
            break
    assert segment is not None
    diverged_at = np.asarray(segment.lanes.diverged_at)
    history = ChunkHistory(_concatenated(logs, axis=1), evaluations, diverged_at, timings)
    results = []
    for part in parts:
        heard = share_of(history, part.seats, len(part.rounds) / rounds)
        tables = chunk_tables(configurations[part.configuration], endings_of(task), part.rounds, heard)
        mine = [(blocks, taken(rows, part.seats)) for blocks, rows in probed]
        results.append(PartResult(part, tables, _policies(segment.lanes, part.seats), segment.last, mine))
    return results, segment.lanes


def _merged(results: list[PartResult], expected: int, instruments: Instruments) -> Trained:
    """What all the parts of one configuration left, of which so many were expected."""
    tables = merge_tables([part.tables for part in results])
    names = results[0].policies if results else ()
    policies = {name: np.concatenate([part.policies[name] for part in results]) for name in names}
    whole = len(results) == expected and all(part.whole for part in results)
    trained = Trained(tables, policies, interrupted=not whole)
    if results and instruments.probe is not None:
        blocks, probed = _joined([part.probed for part in results])
        trained = trained._replace(probed_blocks=blocks, probed=probed)
    if results and instruments.blocks_kept is not None:
        trained = trained._replace(recording=np.concatenate([part.ring for part in results]))
    return trained


def _joined(chunks: list[list[tuple[np.ndarray, Any]]]) -> tuple[np.ndarray, Any]:
    """The probed rows of all chunks; one whose rounds have all stopped early has NaN where others have rows."""
    parts = [
        (np.concatenate([blocks for blocks, _ in chunk]), _concatenated([rows for _, rows in chunk], axis=1))
        for chunk in chunks
    ]
    longest = max((blocks for blocks, _ in parts), key=len)

    def padded(leaf: np.ndarray) -> np.ndarray:
        missing = len(longest) - leaf.shape[1]
        return np.pad(leaf, ((0, 0), (0, missing), *[(0, 0)] * (leaf.ndim - 2)), constant_values=np.nan)

    return longest, _concatenated([jax.tree.map(padded, rows) for _, rows in parts], axis=0)


def _concatenated(trees: list[Any], axis: int) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=axis), *trees)


def _policies(lanes: Lane, seats: slice) -> dict[str, np.ndarray]:
    """What the policies of some of a chunk's rounds are made of."""
    stored = policy_arrays(lanes.learner.parameters, lanes.normaliser)
    return {path: array[seats] for path, array in stored.items()}


def policy_arrays(parameters: Parameters, normaliser: Normaliser) -> dict[str, np.ndarray]:
    """A network's parameters, and the statistics its observations are normalised with, by path."""
    return by_path({"network": parameters, "normaliser": normaliser.observations})


class _SharedListener:
    """Lets chunks on several threads report to one listener, and knows how far they are together."""

    def __init__(self, listener: Listener, reports: list[ChunkReports]) -> None:
        self._listener, self._lock = listener, threading.Lock()
        self._reports = reports
        self._shares = np.zeros(len(reports))
        self._diverged = np.zeros(len(reports), int)
        self._episodes: dict[int, int] = {}

    def hear(self, configuration: Configuration, chunk: int, rounds: int, segment: Segment) -> None:
        lived = (segment.log.flags[:rounds] & LIVED).astype(bool)
        steps = int(lived.sum())
        with self._lock:
            self._shares[chunk] = 1.0 if segment.last else self._share(configuration, chunk, rounds, segment)
            reward = float(segment.log.reward[:rounds][lived].mean()) if steps else float("nan")
            self._diverged[chunk] = (np.asarray(segment.lanes.diverged_at)[:rounds] >= 0).sum()
            reports = self._reports[chunk]
            reports.keep(segment)
            share, diverged = float(self._shares.mean()), int(self._diverged.sum())
            self._listener(Progress(share, steps, reward, diverged, segment.last, reports.read))
            if segment.last:
                reports.forget()

    def _share(self, configuration: Configuration, chunk: int, rounds: int, segment: Segment) -> float:
        budget, block = budget_of(configuration.training), configuration.training.learning_frequency
        if budget.unit == "steps":
            return min(segment.blocks_done * block / budget.amount, 1.0)
        if budget.unit == "outer_iterations":
            made = segment.blocks_done - configuration.training.first_learning_block
            return float(np.clip(made / budget.amount, 0.0, 1.0))
        flags = segment.log.flags[:rounds]
        ended = ((flags & LIVED) > 0) & ((flags & (TERMINATED | TRUNCATED)) > 0)
        self._episodes[chunk] = self._episodes.get(chunk, 0) + int(ended.sum())
        return min(self._episodes[chunk] / (budget.amount * rounds), 1.0)
