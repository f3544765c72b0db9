"""All rounds of a run: jobs of them on one Python thread per core, with the host in control between segments."""

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
from srgdqn.runs.checkpoint_manager import CheckpointManager, JobCheckpoints
from srgdqn.tasks import Task
from srgdqn.training.job import Choice, Job, ShareResult, every_block, train_job
from srgdqn.training.lane import PLAIN, Instruments
from srgdqn.training.loop import identity, policy_arrays
from srgdqn.training.machine import in_this_precision, usable_cores
from srgdqn.training.program import SEGMENT_BLOCKS, programs_for
from srgdqn.training.reports import Listener, Progress, SharedProgress
from srgdqn.training.schedule import most_rounds, rounds_left, saved_shares, shared_out, shares_of
from srgdqn.training.tables import Tables, merge_tables

__all__ = [
    "Choice",
    "Engine",
    "Jobs",
    "Listener",
    "Progress",
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


class Jobs(NamedTuple):
    """What an engine is to run: `srgdqn.training.job.train_job` for each job."""

    jobs: Sequence[Job]
    listeners: Sequence[Listener]  # of each job; may be called from any thread
    stopping: Callable[[], bool]
    manager: CheckpointManager | None
    workers: int
    compiled: list[tuple[str, int, float]]  # what compiling took, which the first job reports


Engine = Callable[[Jobs], Iterator[tuple[int, list[ShareResult]]]]
"""Runs jobs, and yields the place and the outcome of each as it comes. On a KeyboardInterrupt it lets those that are
running come to an end, and yields what they reached.
"""


def train_rounds(
    configuration: Configuration,
    task: Task,
    user_network: eqx.Module | NetworkFactory | None = None,
    **options: Any,
) -> Trained:
    """Trains every round of one configuration, with the options of `train_side_by_side`."""
    [(_, trained)] = train_side_by_side([configuration], task, user_network, **options)
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
    manager: CheckpointManager | None = None,
    engine: Engine | None = None,
) -> Iterator[tuple[int, Trained]]:
    """Trains every round of configurations that differ in numbers alone, all of them as lanes of one program.

    Yields the place of each configuration, and what training it left, once its last round is done: the same as it
    gives alone, but for the timings, of which it has its share.

    `instruments` are a study's additions to the loop, `data` what its source of batches needs (arrays with an axis of
    rounds first), and `probe_at` chooses the blocks whose probed rows are returned. `manager` is where jobs are
    checkpointed, and resume from, whoever they trained with; `engine` is where they run, if not on threads here.

    A KeyboardInterrupt in the calling thread ends the run after the present segments, as does setting `stop` from
    another; what was reached is yielded last, in order, marked as interrupted. A second KeyboardInterrupt is not
    caught.
    """
    first = configurations[0]
    if any(other.shape() != first.shape() for other in configurations):
        raise ValueError("configurations that train side by side differ in numbers alone")
    if manager is not None and instruments != PLAIN:
        raise ValueError("what a study adds to the loop cannot be checkpointed")
    programs, fresh = programs_for(first, task, user_network, instruments, data)
    workers = workers or usable_cores()
    rounds, identities = first.training.rounds, [identity(configuration) for configuration in configurations]
    saved = {} if manager is None else saved_shares(manager, identities, rounds)
    left = rounds_left(len(configurations), rounds, saved.values())
    new = shared_out(left, programs.together, workers, most_rounds(programs))
    settings = (task, user_network, segment_blocks, instruments, data, probe_at)
    jobs = [
        Job(
            shares,
            tuple(configurations[share.place] for share in shares if share.place is not None),
            *settings,
            saved_as,
        )
        for shares, saved_as in [
            *((shares, name) for name, shares in saved.items()),
            *((shares_of(stretch, identities, rounds), None) for stretch in new),
        ]
    ]
    expected = Counter(share.place for job in jobs for share in job.asked_for)
    found: dict[int, list[ShareResult]] = {place: [] for place in range(len(configurations))}
    shared = SharedProgress(listener, len(jobs))
    work = Jobs(
        jobs,
        [shared.of(index) for index in range(len(jobs))],
        lambda: stop is not None and stop.is_set(),
        manager,
        workers,
        [("compile", 0, programs.compile_seconds)] if fresh else [],
    )
    for _, results in (engine or in_threads)(work):
        places = [result.share.place for result in results if result.share.place is not None]
        for place, result in zip(places, results, strict=True):
            found[place].append(result)
        for place in sorted({*places}):
            if len(found[place]) == expected[place] and all(result.whole for result in found[place]):
                yield place, _merged(found.pop(place), expected[place], instruments)
    for place, results in found.items():
        yield place, _merged(results, expected[place], instruments)


def in_threads(work: Jobs) -> Iterator[tuple[int, list[ShareResult]]]:
    """Runs jobs on threads of this process."""
    ended = threading.Event()
    opened: list[JobCheckpoints] = []

    def stopping() -> bool:
        return ended.is_set() or work.stopping()

    def run(index: int) -> list[ShareResult]:
        job, manager = work.jobs[index], work.manager
        checkpoints = None if manager is None else manager.job(job.name)
        if checkpoints is not None:
            opened.append(checkpoints)
        return train_job(
            job,
            listener=work.listeners[index],
            stopping=stopping,
            checkpoints=checkpoints,
            timings=work.compiled if index == 0 else (),
        )

    count, yielded, whole = len(work.jobs), set[int](), False
    train = in_this_precision(run)
    try:
        with ThreadPoolExecutor(min(work.workers, count), thread_name_prefix="job") as pool:
            futures: dict[Any, int] = {}
            try:
                for index in range(count):
                    futures[pool.submit(train, index)] = index
                for each in as_completed(futures):
                    results = each.result()
                    yielded.add(futures[each])
                    yield futures[each], results
            except KeyboardInterrupt:
                pass
            finally:
                ended.set()
        whole = len(yielded) == count and not work.stopping()
    finally:
        if work.manager is not None and not whole:  # then jobs that have come to their end are not lost
            work.manager.flush()
            for checkpoints in opened:  # should a second interrupt have left threads behind
                checkpoints.close()
    for each, index in futures.items():
        if index not in yielded:
            yield index, each.result()


def _merged(results: list[ShareResult], expected: int, instruments: Instruments) -> Trained:
    """What all the shares of one configuration left, of which so many were expected."""
    results = sorted(results, key=lambda result: result.share.rounds.start)
    tables = merge_tables([each.tables for each in results])
    names = results[0].policies if results else ()
    policies = {name: np.concatenate([each.policies[name] for each in results]) for name in names}
    whole = len(results) == expected and all(each.whole for each in results)
    trained = Trained(tables, policies, interrupted=not whole)
    if results and instruments.probe is not None:
        blocks, probed = _joined([each.probed for each in results])
        trained = trained._replace(probed_blocks=blocks, probed=probed)
    if results and instruments.blocks_kept is not None:
        trained = trained._replace(recording=np.concatenate([each.ring for each in results]))
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
