"""Tables against counting step by step, for logs that no training made."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from srgdqn.config import Configuration
from srgdqn.runs.tables import SCHEMAS, frame
from srgdqn.tasks import Task
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.lane import STEPPED, TERMINATED, TRUNCATED, BlockLog
from srgdqn.training.recorder import Recorder
from srgdqn.training.tables import Tables, endings_of, merge_tables
from tiny import tiny

# N + 2bM, and what is really evaluated: one gradient at θ_0 and a pair at each of θ_1 … θ_M.
QUERIES, EVALUATIONS = 4 + 2 * 2, 4 + 5

LANES, ROUNDS, JUDGED = 3, 2, 2  # the third lane is spare

DIAGNOSTICS = ("loss", "max_q", "delta_norm", "theta_norm")


class History(NamedTuple):
    """Everything that is heard from a chunk, with the lane axis first."""

    log: BlockLog
    evaluations: list[tuple[int, bool, Evaluation]]  # (blocks done, whether it is the last, results)
    diverged_at: np.ndarray
    timings: list[tuple[str, int, float]]  # (phase, steps, seconds)


class Case(NamedTuple):
    configuration: Configuration
    task: Task
    history: History
    lived: list[int]  # blocks


@st.composite
def cases(draw: st.DrawFn) -> Case:
    unit = draw(st.sampled_from(["steps", "outer_iterations", "episodes"]))
    block = draw(st.integers(1, 7))
    starts = draw(st.integers(1, 20))
    first = -(-starts // block) * block
    amount = draw(st.integers(first, first + 40) if unit == "steps" else st.integers(1, 12))
    limited = draw(st.booleans())
    configuration, task = tiny(
        **{unit: amount},
        learning_frequency=block,
        learning_starts=starts,
        time_limit=100 if limited else None,
        window=draw(st.integers(1, 30)),
        evaluation_episodes=JUDGED,
    )
    success = draw(st.sampled_from(["termination", "truncation", "none"]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    # How long each lane lives: until its budget is spent, unless it diverges or the run is stopped.
    if unit == "steps":
        full = [-(-amount // block)] * ROUNDS
    elif unit == "outer_iterations":
        full = [first // block - 1 + amount] * ROUNDS
    else:
        full = [60] * ROUNDS
    ends = random.random((LANES, max(full), block)) < draw(st.sampled_from([0.05, 0.5]))
    if unit == "episodes":
        for lane in range(ROUNDS):
            ends[lane, -1] = True  # not all budgets are spent, but all lanes have some episode
            so_far = ends[lane].sum(1).cumsum()
            full[lane] = int(np.argmax(so_far >= amount)) + 1 if so_far[-1] >= amount else 60
    diverged = np.full(LANES, -1)
    lived = list(full)
    if draw(st.booleans()):
        lived[0] = draw(st.integers(1, full[0]))
        if lived[0] < full[0]:
            diverged[0] = lived[0] * block
    stopped = draw(st.booleans())
    total = draw(st.integers(1, max(lived))) if stopped else max(lived)
    lived = [min(blocks, total) for blocks in lived]
    diverged = np.where(diverged > total * block, -1, diverged)

    terminated = ends & (random.random(ends.shape) < 0.6)
    flags = TERMINATED * terminated + TRUNCATED * (ends & ~terminated)
    for lane in range(LANES):
        flags[lane, : lived[lane] if lane < ROUNDS else 0] += STEPPED
    log = BlockLog(
        random.normal(size=(LANES, total, block)).astype(np.float32),
        flags[:, :total].astype(np.uint8),
        *(random.normal(size=(LANES, total)).astype(np.float32) for _ in DIAGNOSTICS),
    )
    times = sorted(draw(st.sets(st.integers(1, total), max_size=4)) | (set() if stopped else {total}))
    evaluations = [
        (
            time,
            not stopped and time == total,
            Evaluation(
                random.normal(size=(LANES, JUDGED)).astype(np.float32),
                random.integers(1, 500, (LANES, JUDGED)).astype(np.int32),
                random.random((LANES, JUDGED)) < 0.5,
            ),
        )
        for time in times
    ]
    history = History(log, evaluations, diverged, [("compile", 0, 2.5), ("train", total * block, 0.5)])
    return Case(configuration, dataclasses.replace(task, success=success), history, lived)


def tables_of(case: Case, numbers: list[int]) -> Tables:
    history, configuration = case.history, case.configuration
    recorder = Recorder(configuration, endings_of(case.task), len(numbers))
    recorder.record(history.log)
    for blocks, last, results in history.evaluations:
        recorder.record_evaluation(blocks, results, last=last)
    for timing in history.timings:
        recorder.record_time(*timing)
    return recorder.tables(slice(0, len(numbers)), numbers, configuration, history.diverged_at)


class Told(NamedTuple):
    """One round, told step by step."""

    rewards: list[float]
    episodes: list[tuple[int, bool]]  # (last step, whether terminated)
    iterations: list[tuple[int, list[float]]]  # (step, diagnostics)


def tell(case: Case, lane: int) -> Told:
    settings = case.configuration.training
    log, block = case.history.log, settings.learning_frequency
    told = Told([], [], [])
    for index in range(case.lived[lane]):
        for offset in range(block):
            if settings.steps is not None and len(told.rewards) == settings.steps:
                break
            if settings.episodes is not None and len(told.episodes) == settings.episodes:
                break
            told.rewards.append(float(log.reward[lane, index, offset]))
            flag = int(log.flags[lane, index, offset])
            if flag & (TERMINATED | TRUNCATED):
                told.episodes.append((len(told.rewards), bool(flag & TERMINATED)))
        end = (index + 1) * block
        if end >= settings.learning_starts and (settings.steps is None or end <= settings.steps):
            diagnostics = [float(getattr(log, name)[lane, index]) for name in DIAGNOSTICS]
            told.iterations.append((min(end, len(told.rewards)), diagnostics))
    return told


def expected_curves(case: Case, number: int, told: Told) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    window, steps = case.configuration.training.window, len(told.rewards)
    start = 0
    while start < steps:
        end = min(start + window, steps)
        made = sum(step <= end for step, _ in told.iterations)
        within = [diagnostics for step, diagnostics in told.iterations if start < step <= end]
        means = [sum(column) / len(within) for column in zip(*within, strict=True)] if within else [None] * 4
        rows.append(
            {
                "round": number,
                "step": end,
                "reward": sum(told.rewards[start:end]) / (end - start),
                "reward_cumulative": sum(told.rewards[:end]) / end,
                "episodes": sum(step <= end for step, _ in told.episodes),
                **dict(zip(DIAGNOSTICS, means, strict=True)),
                "queries": made * QUERIES,
                "gradient_evaluations": made * EVALUATIONS,
            }
        )
        start = end
    return rows


def succeeded(case: Case, terminated: bool) -> bool | None:
    return {"termination": terminated, "truncation": not terminated, "none": None}[case.task.success]


def expected_episodes(case: Case, number: int, told: Told) -> list[dict[str, Any]]:
    rows, start = [], 0
    for index, (end, terminated) in enumerate(told.episodes):
        cut = "censored" if case.task.time_limit is None else "truncated"
        rows.append(
            {
                "round": number,
                "episode": index,
                "step": end,
                "return": sum(told.rewards[start:end]),
                "length": end - start,
                "ending": "terminated" if terminated else cut,
                "success": succeeded(case, terminated),
            }
        )
        start = end
    return rows


def expected_evaluations(case: Case, number: int, lane: int, told: Told) -> list[dict[str, Any]]:
    """A round is judged whenever it lived up to an evaluation, and at the end of the run if it had stopped before."""
    block, rows = case.configuration.training.learning_frequency, []
    judged_at: list[int] = []
    for time, last, results in case.history.evaluations:
        alive = case.lived[lane] >= time
        step = min(time * block, len(told.rewards))
        if (not alive and not last) or step in judged_at:
            continue
        judged_at.append(step)
        for episode in range(JUDGED):
            rows.append(
                {
                    "round": number,
                    "step": step,
                    "episode": episode,
                    "return": float(results.total_reward[lane, episode]),
                    "length": int(results.length[lane, episode]),
                    "success": succeeded(case, bool(results.terminated[lane, episode])),
                }
            )
    return rows


def expected_round(case: Case, number: int, lane: int, told: Told) -> dict[str, Any]:
    settings = case.configuration.training
    made, steps, ended = len(told.iterations), len(told.rewards), len(told.episodes)
    diverged = int(case.history.diverged_at[lane])
    spent = [(settings.steps, steps), (settings.outer_iterations, made), (settings.episodes, ended)]
    return {
        "round": number,
        "steps": steps,
        "episodes": ended,
        "outer_iterations": made,
        "queries": made * QUERIES,
        "gradient_evaluations": made * EVALUATIONS,
        "censored": sum(not terminated for _, terminated in told.episodes) if case.task.time_limit is None else 0,
        "diverged_at": diverged if diverged >= 0 else None,
        "completed": diverged < 0 and all(budget is None or done == budget for budget, done in spent),
    }


def rows_of(name: str, columns: dict[str, Any]) -> list[dict[str, Any]]:
    return frame(name, columns or dict.fromkeys(SCHEMAS[name], ())).to_dicts()


def assert_rows(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        assert list(row) == list(wanted)
        for name, value in wanted.items():
            if isinstance(value, float):
                np.testing.assert_allclose(row[name], value, rtol=1e-9, atol=1e-9, err_msg=name)
            else:
                assert row[name] == value, (name, row, wanted)


@settings(max_examples=150)
@given(cases())
def test_every_table_against_a_story_told_step_by_step(case: Case) -> None:
    numbers = [7, 8]
    told = [tell(case, lane) for lane in range(ROUNDS)]
    tables = tables_of(case, numbers)
    pairs = list(zip(numbers, told, strict=True))
    assert_rows(rows_of("curves", tables["curves"]), [r for n, t in pairs for r in expected_curves(case, n, t)])
    assert_rows(rows_of("episodes", tables["episodes"]), [r for n, t in pairs for r in expected_episodes(case, n, t)])
    judged = [r for lane, (n, t) in enumerate(pairs) for r in expected_evaluations(case, n, lane, t)]
    assert_rows(rows_of("evaluations", tables["evaluations"]), judged)
    assert_rows(
        rows_of("rounds", tables["rounds"]), [expected_round(case, n, lane, t) for lane, (n, t) in enumerate(pairs)]
    )
    assert rows_of("timings", tables["timings"]) == [
        {"first_round": 7, "rounds": 2, "phase": phase, "step": step, "seconds": seconds}
        for phase, step, seconds in case.history.timings
    ]


@settings(max_examples=20)
@given(cases(), cases())
def test_chunks_follow_each_other(one: Case, other: Case) -> None:
    parts = [tables_of(case, [10 * index, 10 * index + 1]) for index, case in enumerate((one, other))]
    merged = merge_tables(parts)
    for name in SCHEMAS:
        assert_rows(rows_of(name, merged[name]), [row for part in parts for row in rows_of(name, part[name])])


def test_no_chunks_have_no_tables() -> None:
    assert merge_tables([]) == {}
