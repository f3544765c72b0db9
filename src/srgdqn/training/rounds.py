"""All rounds of a run: strands of them on one Python thread per core, with the host in control between segments."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from srgdqn.config import Configuration
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.checkpoint_manager import Keeping, Strand
from srgdqn.tasks import Task
from srgdqn.training.cores import usable_cores
from srgdqn.training.job import (
    Choice,
    Job,
    every_block,
    identity,
    policy_arrays,
    train_strand,
)
from srgdqn.training.lane import PLAIN, Instruments
from srgdqn.training.layout import Chunk, chunks_of, most_boards, saved_chunks, seats_left
from srgdqn.training.parts import PartResult, parts_of
from srgdqn.training.precision import in_this_precision
from srgdqn.training.program import SEGMENT_BLOCKS, programs_for
from srgdqn.training.reports import Listener, Progress, SharedProgress
from srgdqn.training.tables import Tables, merge_tables

__all__ = [
    "Choice",
    "Engine",
    "Listener",
    "Progress",
    "Strands",
    "Trained",
    "policy_arrays",
    "train_rounds",
    "train_side_by_side",
]


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


class Strands(NamedTuple):
    """What an engine is to run: `srgdqn.training.job.train_strand` for each job."""

    jobs: Sequence[Job]
    listeners: Sequence[Listener]  # of each job; may be called from any thread
    stopping: Callable[[], bool]
    keeping: Keeping | None
    workers: int
    compiled: list[tuple[str, int, float]]  # what compiling took, which the first job reports


Engine = Callable[[Strands], Iterator[tuple[int, list[PartResult]]]]
"""Runs strands, and yields the place and the outcome of each as it comes. On a KeyboardInterrupt it lets those under
way come to an end, and yields what they reached.
"""


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
    probe_at: Choice = every_block,
    keeping: Keeping | None = None,
    engine: Engine | None = None,
) -> Trained:
    """Trains every round of the configuration.

    `instruments` are a study's additions to the loop, `data` what its source of batches needs (arrays with an axis of
    rounds first), and `probe_at` chooses the blocks whose probed rows are kept. `keeping` is where strands of rounds
    are kept, and go on from, and `engine` where they run, if not on threads of this process.

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
        keeping=keeping,
        engine=engine,
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
    probe_at: Choice = every_block,
    keeping: Keeping | None = None,
    engine: Engine | None = None,
) -> Iterator[tuple[int, Trained]]:
    """Trains every round of configurations that differ in numbers alone, all of them as lanes of one program.

    Yields the place of each configuration, and what training it left, once its last round is done: the same as
    `train_rounds` gives for it alone, but for the timings, of which it has its share. The rest is as there; those that
    an interrupt cuts short come last, in their order.

    Strands that are kept of rounds of these configurations go on from there, whoever they were kept with.
    """
    first = configurations[0]
    if any(other.shape() != first.shape() for other in configurations):
        raise ValueError("configurations that train side by side differ in numbers alone")
    if keeping is not None and instruments != PLAIN:
        raise ValueError("what a study adds to the loop is not kept")
    programs, fresh = programs_for(first, task, user_network, instruments, data)
    workers = workers or usable_cores()
    rounds, who = first.training.rounds, [identity(configuration) for configuration in configurations]
    chunks = [] if keeping is None else saved_chunks(keeping, who, rounds)
    left = seats_left(len(configurations) * rounds, rounds, chunks)
    new = chunks_of(left, programs.together, workers, most_boards(programs) * programs.width)
    for parts in (parts_of(chunk, rounds) for chunk in new):
        seats = [(who[part.configuration], part.rounds.start, part.rounds.stop) for part in parts]
        chunks.append(Chunk(seats, parts))
    settings = (task, user_network, segment_blocks, instruments, data, probe_at)
    jobs = [
        Job(seats, tuple(parts), tuple(configurations[part.configuration] for part in parts), *settings, kept_as)
        for seats, parts, kept_as in chunks
    ]
    expected = Counter(part.configuration for job in jobs for part in job.parts)
    found: dict[int, list[PartResult]] = {place: [] for place in range(len(configurations))}
    shared = SharedProgress(listener, len(jobs))
    strands = Strands(
        jobs,
        [shared.of(index) for index in range(len(jobs))],
        lambda: stop is not None and stop.is_set(),
        keeping,
        workers,
        [("compile", 0, programs.compile_seconds)] if fresh else [],
    )
    for _, results in (engine or in_threads)(strands):
        for result in results:
            found[result.part.configuration].append(result)
        for place in sorted({result.part.configuration for result in results}):
            if len(found[place]) == expected[place] and all(result.whole for result in found[place]):
                yield place, _merged(found.pop(place), expected[place], instruments)
    for place, results in found.items():
        yield place, _merged(results, expected[place], instruments)


def in_threads(strands: Strands) -> Iterator[tuple[int, list[PartResult]]]:
    """Runs strands on threads of this process."""
    ended = threading.Event()
    kept: list[Strand] = []

    def stopping() -> bool:
        return ended.is_set() or strands.stopping()

    def run(index: int) -> list[PartResult]:
        job, keeping = strands.jobs[index], strands.keeping
        strand = None if keeping is None else keeping.strand(job.name)
        if strand is not None:
            kept.append(strand)
        return train_strand(
            job,
            listener=strands.listeners[index],
            stopping=stopping,
            strand=strand,
            timings=strands.compiled if index == 0 else (),
        )

    count, told, whole = len(strands.jobs), set[int](), False
    work = in_this_precision(run)
    try:
        with ThreadPoolExecutor(min(strands.workers, count), thread_name_prefix="chunk") as pool:
            jobs: dict[Any, int] = {}
            try:
                for index in range(count):
                    jobs[pool.submit(work, index)] = index
                for each in as_completed(jobs):
                    results = each.result()
                    told.add(jobs[each])
                    yield jobs[each], results
            except KeyboardInterrupt:
                pass
            finally:
                ended.set()
        whole = len(told) == count and not strands.stopping()
    finally:
        if strands.keeping is not None and not whole:  # then strands that have come to their end are not lost
            strands.keeping.flush()
            for strand in kept:  # should a second interrupt have left threads behind
                strand.close()
    for each, index in jobs.items():
        if index not in told:
            yield index, each.result()


def _merged(results: list[PartResult], expected: int, instruments: Instruments) -> Trained:
    """What all the parts of one configuration left, of which so many were expected."""
    results = sorted(results, key=lambda result: result.part.rounds.start)
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
