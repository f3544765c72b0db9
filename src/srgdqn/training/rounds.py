"""All rounds of a run: chunks of lanes on one Python thread per core, with the host in control between segments."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from srgdqn.cores import usable_cores
from srgdqn.networks import NetworkFactory
from srgdqn.settings import Configuration
from srgdqn.tasks import Task
from srgdqn.training.chunk import Segment, train_chunk
from srgdqn.training.clock import budget_of
from srgdqn.training.lane import LIVED, TERMINATED, TRUNCATED, BlockLog, Lane
from srgdqn.training.precision import in_this_precision
from srgdqn.training.program import SEGMENT_BLOCKS, Programs, programs_for
from srgdqn.training.records import ChunkHistory, Tables, chunk_tables, merge_tables


class Progress(NamedTuple):
    """What a listener hears after each segment."""

    share: float  # of the whole run's budget
    steps: int  # environment steps since the last report, over the rounds of the chunk
    reward: float  # their mean reward
    diverged: int  # rounds frozen so far


class Trained(NamedTuple):
    """What training leaves: columns for the tables, and each round's policy."""

    tables: Tables
    policies: dict[str, np.ndarray]  # by path, with one row per round
    interrupted: bool


Listener = Callable[[Progress], None]


def train_rounds(
    configuration: Configuration,
    task: Task,
    user_network: eqx.Module | NetworkFactory | None = None,
    *,
    listener: Listener = lambda progress: None,
    segment_blocks: int = SEGMENT_BLOCKS,
    workers: int | None = None,
    stop: threading.Event | None = None,
) -> Trained:
    """Trains every round of the configuration.

    A KeyboardInterrupt in the calling thread ends the run after the segments under way, as does setting `stop` from
    another; what was reached is returned, marked as interrupted. A second KeyboardInterrupt is not caught.
    """
    programs, fresh = programs_for(configuration, task, user_network)
    settings = configuration.training
    every = range(settings.rounds)
    chunks = [every[start : start + settings.lanes] for start in every[:: settings.lanes]]
    compiled = [("compile", 0, programs.compile_seconds)] if fresh else []
    ended = threading.Event()
    shared = _SharedListener(listener, len(chunks))

    def stopping() -> bool:
        return ended.is_set() or (stop is not None and stop.is_set())

    def run(index: int) -> _ChunkResult | None:
        if stopping():
            return None
        timings = list(compiled) if index == 0 else []
        return _run_chunk(
            configuration, task, programs, index, chunks[index], timings, stopping, shared, segment_blocks
        )

    job = in_this_precision(run)
    workers = workers or min(usable_cores(), len(chunks))
    with ThreadPoolExecutor(workers, thread_name_prefix="chunk") as pool:
        jobs = [pool.submit(job, index) for index in range(len(chunks))]
        try:
            wait(jobs, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            pass
        finally:
            ended.set()
        results = [part for part in (each.result() for each in jobs) if part is not None]
    tables = merge_tables([part.tables for part in results])
    names = results[0].policies if results else ()
    policies = {name: np.concatenate([part.policies[name] for part in results]) for name in names}
    whole = len(results) == len(chunks) and all(part.whole for part in results)
    return Trained(tables, policies, interrupted=not whole)


class _ChunkResult(NamedTuple):
    tables: Tables
    policies: dict[str, np.ndarray]
    whole: bool  # not cut short


def _run_chunk(
    configuration: Configuration,
    task: Task,
    programs: Programs,
    index: int,
    rounds: range,
    timings: list[tuple[str, int, float]],
    stopping: Callable[[], bool],
    listener: _SharedListener,
    segment_blocks: int,
) -> _ChunkResult:
    logs: list[BlockLog] = []
    evaluations = []
    segment: Segment | None = None
    for segment in train_chunk(configuration, programs, rounds, segment_blocks=segment_blocks):
        steps = segment.blocks_done * configuration.training.learning_frequency
        logs.append(segment.log)
        timings.append(("train", steps, segment.train_seconds))
        if segment.evaluation is not None:
            evaluations.append((segment.blocks_done, segment.last, segment.evaluation))
            timings.append(("evaluate", steps, segment.evaluate_seconds))
        listener.hear(configuration, index, len(rounds), segment)
        if stopping():
            break
    assert segment is not None
    log = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *logs)
    history = ChunkHistory(log, evaluations, np.asarray(segment.lanes.diverged_at), timings)
    tables = chunk_tables(configuration, task, index, rounds, history)
    return _ChunkResult(tables, _policies(segment.lanes, len(rounds)), segment.last)


def _policies(lanes: Lane, count: int) -> dict[str, np.ndarray]:
    """The parameters of every round's network, and the statistics its observations are normalised with, by path."""
    tree = {"network": lanes.learner.parameters, "normaliser": lanes.normaliser.observations}
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf)[:count]
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


class _SharedListener:
    """Lets chunks on several threads report to one listener, and knows how far they are together."""

    def __init__(self, listener: Listener, chunks: int) -> None:
        self._listener, self._lock = listener, threading.Lock()
        self._shares = np.zeros(chunks)
        self._diverged = np.zeros(chunks, int)
        self._episodes: dict[int, int] = {}

    def hear(self, configuration: Configuration, chunk: int, rounds: int, segment: Segment) -> None:
        lived = (segment.log.flags[:rounds] & LIVED).astype(bool)
        steps = int(lived.sum())
        with self._lock:
            self._shares[chunk] = 1.0 if segment.last else self._share(configuration, chunk, rounds, segment)
            reward = float(segment.log.reward[:rounds][lived].mean()) if steps else float("nan")
            self._diverged[chunk] = (np.asarray(segment.lanes.diverged_at)[:rounds] >= 0).sum()
            self._listener(Progress(float(self._shares.mean()), steps, reward, int(self._diverged.sum())))

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
