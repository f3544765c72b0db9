"""All compiled rounds of a run, shared out among jobs that an executor runs."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from srgdqn.config import Configuration
from srgdqn.engines.executor import CallsInterruptedError, Executor
from srgdqn.engines.threads import Threads
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.tasks import Task
from srgdqn.training.batches import from_replay
from srgdqn.training.distribute import distribute
from srgdqn.training.job import Choice, Job, JobTrainer, ShareResult, every_block, train_job
from srgdqn.training.job_split import most_rounds, rounds_left, saved_shares, shared_out, shares_of
from srgdqn.training.lane import PLAIN, Instruments
from srgdqn.training.loop import configuration_digest, policy_arrays
from srgdqn.training.program import SEGMENT_BLOCKS
from srgdqn.training.reports import Listener, Progress, SharedProgress
from srgdqn.training.tables import Tables, merge_tables

__all__ = [
    "Choice",
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
    failures: dict[int, str] = {}  # noqa: RUF012  # by round on the host, what its environment did wrong
    best: dict[str, np.ndarray] = {}  # noqa: RUF012  # the best policies, like `policies`, where they are kept


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
    executor: Executor | None = None,
) -> Iterator[tuple[int, Trained]]:
    """Trains every round of configurations that differ in numbers alone, all of them as lanes of one program.

    Yields the place of each configuration, and what training it left, once its last round is done: the same as it
    gives alone, but for the timings, of which it has its share.

    `instruments` are a study's additions to the loop, `data` what its source of batches needs (arrays with an axis of
    rounds first), and `probe_at` chooses the blocks whose probed rows are returned. `manager` is where jobs are
    checkpointed, and resume from, whoever they trained with; its stamp covers the source and `data`, if there are any,
    and nothing may be recorded. The `executor` is by default one of threads; there are
    jobs for `workers` of its cores, by default for all.

    Ctrl-C ends the run after the present segments, as does setting `stop`; what was reached is yielded last, in order,
    marked as interrupted. A second Ctrl-C is not caught.
    """
    first = configurations[0]
    if any(other.shape() != first.shape() for other in configurations):
        raise ValueError("configurations that train side by side differ in numbers alone")
    if manager is not None and (instruments.probe is not None or instruments.blocks_kept is not None):
        raise ValueError("what a study records in the loop cannot be checkpointed")
    if first.training.direction_errors and instruments.source is not from_replay:
        raise ValueError("the errors of directions are measured on D from the replay")
    trainer = JobTrainer(tuple(configurations), task, user_network, segment_blocks, instruments, data, probe_at)
    programs, fresh = trainer.programs()
    executor = executor or Threads(workers)
    workers = workers or executor.cores
    rounds, digests = first.training.rounds, [configuration_digest(each) for each in configurations]
    saved = {} if manager is None else saved_shares(manager, digests, rounds)
    left = rounds_left(len(configurations), rounds, saved.values())
    new = shared_out(left, programs.together, workers, most_rounds(programs))
    jobs = [
        *(Job(shares, name) for name, shares in saved.items()),
        *(Job(shares_of(stretch, digests, rounds)) for stretch in new),
    ]
    if fresh:
        jobs[0] = jobs[0]._replace(compile_seconds=programs.compile_seconds)
    expected = Counter(share.place for job in jobs for share in job.asked_for)
    found: dict[int, list[ShareResult]] = {place: [] for place in range(len(configurations))}
    shared = SharedProgress(listener, [1] * len(jobs))
    outcomes = distribute(
        executor,
        trainer,
        jobs,
        [shared.of(index) for index in range(len(jobs))],
        names=[job.name for job in jobs],
        stopping=lambda: stop is not None and stop.is_set(),
        manager=manager,
    )
    ended, complete = set[int](), False
    try:
        with contextlib.suppress(CallsInterruptedError), contextlib.closing(outcomes):
            for index, results in outcomes:
                ended.add(index)
                for result in results:
                    found[result.place].append(result)
                for place in sorted({result.place for result in results}):
                    if len(found[place]) == expected[place] and all(result.whole for result in found[place]):
                        yield place, _merged(found.pop(place), expected[place], instruments)
            complete = not found
    finally:
        if manager is not None and not complete:  # something may be missing: jobs that have ended are needed to resume
            manager.release()
    if manager is not None and executor.shares_disk:
        # Stopped before they began: what they had reached is in their checkpoints.
        for index, job in enumerate(jobs):
            if index not in ended and job.saved_as is not None:
                for result in train_job(trainer, job, stopping=lambda: True, checkpoints=manager.job(job.name)):
                    found[result.place].append(result)
    for place, results in found.items():
        yield place, _merged(results, expected[place], instruments)


def merged(
    tables: list[Tables],
    policies: list[dict[str, np.ndarray]],
    best: list[dict[str, np.ndarray]],
    *,
    whole: bool,
) -> Trained:
    """What some rounds after the other left, together."""
    return Trained(merge_tables(tables), _stacked(policies), interrupted=not whole, best=_stacked(best))


def _stacked(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([each[name] for each in parts]) for name in (parts[0] if parts else ())}


def _merged(results: list[ShareResult], expected: int, instruments: Instruments) -> Trained:
    """What all the shares of one configuration left, of which so many were expected."""
    results = sorted(results, key=lambda result: result.first_round)
    whole = len(results) == expected and all(each.whole for each in results)
    left = zip(*((each.tables, each.policies, each.best) for each in results), strict=True)
    trained = merged(*(map(list, left) if results else ([], [], [])), whole=whole)
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
