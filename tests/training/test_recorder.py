"""Recording in pages: however the log is cut and wherever recording is interrupted, against sums made step by step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from host_environments import SMALL
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.config.presets import host_preset
from srgdqn.errors import InputError
from srgdqn.runs.tables import SCHEMAS, frame
from srgdqn.training import recorder as recording
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.lane import STEPPED, TERMINATED, TRUNCATED, BlockLog
from srgdqn.training.recorder import Recorder
from srgdqn.training.tables import Endings, Tables, merge_tables
from tiny import reproducible

DIAGNOSTICS = ("loss", "max_q", "delta_norm", "theta_norm")
ROUNDS, LANES, BLOCKS, PLAYED = 3, 4, 40, 2  # the last lane is spare
NUMBERS = range(5, 5 + ROUNDS)

# N + 2bM, and what is really evaluated: one gradient at θ_0 and a pair at each of θ_1 … θ_M.
QUERIES = SMALL["batch_size"] + 2 * SMALL["inner_iterations"]
GRADIENTS = SMALL["batch_size"] + 2 * SMALL["inner_iterations"] + 1


class Case(NamedTuple):
    configuration: Configuration
    endings: Endings
    log: BlockLog
    environments: np.ndarray | None
    diverged_at: np.ndarray
    evaluations: list[tuple[int, bool, Evaluation]]  # blocks done, whether it is the last, results
    lived: list[int]  # blocks of each round


@st.composite
def cases(draw: st.DrawFn) -> Case:
    block = draw(st.sampled_from([1, 2, 8]))
    environments = draw(st.sampled_from([1, 2])) if block > 1 else 1
    starts = draw(st.integers(4, 30))
    unit = draw(st.sampled_from(["steps", "outer_iterations", "episodes"]))
    amount = draw(st.integers(-(-starts // block) * block, BLOCKS * block) if unit == "steps" else st.integers(1, 15))
    options = {**SMALL, "learning_frequency": block, "learning_starts": starts, unit: amount}
    options |= {"window": draw(st.integers(1, 3 * BLOCKS)), "environments": environments, "evaluation_episodes": PLAYED}
    configuration = configure("Some-v0", defaults=host_preset("Some-v0"), **options)
    endings = Endings(
        draw(st.sampled_from(["truncated", "censored"])), draw(st.sampled_from(["termination", "truncation", "none"]))
    )
    settings = configuration.training

    # How long each round goes on: until its budget is spent, unless it diverges or the run is stopped.
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ended = random.random((LANES, BLOCKS, block)) < draw(st.sampled_from([0.01, 0.1, 0.5]))
    most = {"steps": -(-amount // block), "outer_iterations": settings.first_learning_block + amount}.get(unit, BLOCKS)
    lived = [min(BLOCKS, most)] * ROUNDS
    if unit == "episodes":
        for lane in range(ROUNDS):
            so_far = ended[lane].sum(1).cumsum()
            lived[lane] = int(np.argmax(so_far >= amount)) + 1 if so_far[-1] >= amount else BLOCKS
    stopped = draw(st.booleans())
    total = draw(st.integers(1, max(lived))) if stopped else max(lived)
    lived = [min(blocks, total) for blocks in lived]
    diverged = np.full(LANES, -1)
    diagnostics = random.normal(size=(4, LANES, BLOCKS)).astype(np.float32)
    if draw(st.booleans()):
        lived[1] = draw(st.integers(1, lived[1]))
        diverged[1] = lived[1] * block
        diagnostics[2:, 1, lived[1] - 1] = np.nan
    total = total if stopped else max(lived)
    terminated = random.random(ended.shape) < 0.5
    flags = TERMINATED * (ended & terminated) + TRUNCATED * (ended & ~terminated)
    flags += STEPPED * (np.arange(BLOCKS)[:, None] < np.array([*lived, 0])[:, None, None])
    reward = random.normal(size=ended.shape).astype(np.float32)
    log = BlockLog(*(part[:, :total] for part in (reward, flags.astype(np.uint8), *diagnostics)))
    where = None if environments == 1 else random.integers(environments, size=(LANES, total, block))
    times = sorted(draw(st.sets(st.integers(1, total), max_size=3)) | (set() if stopped else {total}))
    played = [
        (
            time,
            not stopped and time == total,
            Evaluation(
                random.normal(size=(LANES, PLAYED)).astype(np.float32),
                random.integers(1, 500, (LANES, PLAYED)).astype(np.int32),
                random.random((LANES, PLAYED)) < 0.5,
            ),
        )
        for time in times
    ]
    return Case(configuration, endings, log, where, diverged, played, lived)


def pieces(case: Case, cuts: list[int]) -> Iterator[tuple[BlockLog, np.ndarray | None]]:
    edges = sorted({0, case.log.flags.shape[1], *(cut for cut in cuts if cut < case.log.flags.shape[1])})
    for start, stop in itertools.pairwise(edges):
        part = BlockLog(*(part[:, start:stop] for part in case.log[:6]))
        yield part, None if case.environments is None else case.environments[:, start:stop]


def tables(recorder: Recorder, case: Case, lanes: slice = slice(0, ROUNDS)) -> Tables:
    return recorder.tables(lanes, NUMBERS[lanes], case.configuration, case.diverged_at)


def recorder_of(case: Case, page: int = 2**15) -> Recorder:
    """A new one, with pages of so many steps."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recording, "PAGE_STEPS", page)
        return Recorder(case.configuration, case.endings, ROUNDS)


def begun(case: Case, page: int = 2**15) -> Recorder:
    """A new one that knows the evaluations, which may be recorded before the steps."""
    recorder = recorder_of(case, page)
    for blocks, last, results in case.evaluations:
        recorder.record_evaluation(blocks, results, last=last)
    recorder.record_time("train", 8, 0.5)
    return recorder


def gone_on(case: Case, page: int, recorder: Recorder) -> Recorder:
    """Another one, which knows what a checkpoint keeps: copies of arrays, and of rows in two portions."""
    arrays, rows = recorder.state()
    other = recorder_of(case, page)
    for name, each in rows.items():
        middle = each.stop // 2
        for first, stop in ((0, middle), (middle, each.stop)):
            other.take(name, first, {column: values.copy() for column, values in each.read(first, stop).items()})
    other.restore({name: array.copy() for name, array in arrays.items()})
    return other


def recorded_at_once(case: Case, page: int = 2**15) -> Tables:
    recorder = begun(case, page)
    recorder.record(case.log, case.environments)
    return tables(recorder, case)


CUTS = st.lists(st.integers(1, BLOCKS), max_size=6)


@pytest.mark.parametrize("page", [1, 16, 50])
@given(case=cases(), cuts=CUTS)
def test_segments_and_interruptions_change_no_bit(page: int, case: Case, cuts: list[int]) -> None:
    recorder = begun(case, page)
    for log, where in pieces(case, cuts):
        recorder.record(log, where)
        tables(recorder, case)  # asking changes nothing
        recorder = gone_on(case, page, recorder)
    assert recorder.blocks == case.log.flags.shape[1]
    assert reproducible(tables(recorder, case)) == reproducible(recorded_at_once(case, page))


@pytest.mark.parametrize("page", [1, 16, 50, 2**15])
@given(case=cases(), cuts=CUTS, resumed=st.integers(0, 6), asked=st.lists(st.booleans(), min_size=9, max_size=9))
def test_news_add_up_to_the_tables(page: int, case: Case, cuts: list[int], resumed: int, asked: list[bool]) -> None:
    """However often they are asked for; from where recording was resumed on, if it was."""
    recorder, heard, known = recorder_of(case, page), [], [0] * ROUNDS
    times = {blocks: (results, last) for blocks, last, results in case.evaluations}
    for place, (log, where) in enumerate(pieces(case, [*cuts, *times])):
        recorder.record(log, where)
        if recorder.blocks in times:
            results, last = times[recorder.blocks]
            recorder.record_evaluation(recorder.blocks, results, last=last)
        if place == resumed:
            recorder = gone_on(case, page, recorder)
            heard, known = [], [each.step for each in recorder.news()]
        elif asked[place]:
            heard.append(recorder.news())
    heard.append(recorder.news())
    found = tables(recorder, case)
    for lane in range(ROUNDS):
        news = [each[lane] for each in heard]
        mine = {n: {c: v[found[n]["round"] == 5 + lane] for c, v in found[n].items()} for n in ("rounds", "episodes")}
        assert sum(each.steps for each in news) == mine["rounds"]["steps"][0] - known[lane]
        counts = (news[-1].step, news[-1].episodes, news[-1].outer_iterations)
        assert counts == tuple(mine["rounds"][name][0] for name in ("steps", "episodes", "outer_iterations"))
        later = mine["episodes"]["step"] > known[lane]
        for name, column in (("returns", "return"), ("lengths", "length")):
            told_ = np.concatenate([getattr(each, name) for each in news])
            assert told_.tolist() == mine["episodes"][column][later].tolist()
        reward = case.log.reward[lane].ravel()[known[lane] : news[-1].step].astype(np.float64)
        told_sum = sum(each.reward * each.steps for each in news if each.steps)
        assert told_sum == pytest.approx(reward.sum(), abs=1e-9)
    if not any(known):
        made = [(5 + lane, each) for lane in range(ROUNDS) for news in heard for each in news[lane].evaluations]
        rows = [(number, each.step, value) for number, each in made for value in each.returns]
        assert rows == [(row["round"], row["step"], row["return"]) for row in rows_of(found, "evaluations")]


@given(case=cases())
def test_the_sums_of_a_page_are_numpys_own(case: Case) -> None:
    """Windows and episodes within one page are sums of adjacent steps by `np.add.reduceat` over the whole round."""
    found = recorded_at_once(case)
    for lane in range(ROUNDS):
        mine = found["curves"]["round"] == 5 + lane
        edges = found["curves"]["step"][mine]
        rewards = case.log.reward[lane].ravel()[: edges[-1]].astype(np.float64)
        starts = np.append(0, edges[:-1])
        totals = np.add.reduceat(rewards, starts)
        assert np.array_equal(found["curves"]["reward"][mine], totals / (edges - starts))
        assert np.array_equal(found["curves"]["reward_cumulative"][mine], np.cumsum(totals) / edges)
        if case.environments is None and (found["episodes"]["round"] == 5 + lane).any():
            ends = found["episodes"]["step"][found["episodes"]["round"] == 5 + lane]
            returns = np.add.reduceat(rewards[: ends[-1]], np.append(0, ends[:-1]))
            assert np.array_equal(found["episodes"]["return"][found["episodes"]["round"] == 5 + lane], returns)


@given(case=cases(), first=st.integers(0, ROUNDS - 1))
def test_some_of_the_rounds_have_their_own_tables(case: Case, first: int) -> None:
    recorder = begun(case)
    recorder.record(case.log, case.environments)
    whole = tables(recorder, case)
    for lanes in (slice(0, first), slice(first, ROUNDS)):
        if lanes.stop > lanes.start:
            part = tables(recorder, case, lanes)
            for name in ("curves", "episodes", "evaluations", "rounds"):
                wanted = [row for row in rows_of(whole, name) if row["round"] in NUMBERS[lanes]]
                assert rows_of(part, name) == wanted


# A round told step by step, and the rows that its tables must have


class Told(NamedTuple):
    rewards: list[float]
    episodes: list[tuple[int, float, int, bool]]  # last step, return, length, whether terminated
    iterations: list[tuple[int, list[float]]]  # step, diagnostics


def tell(case: Case, lane: int) -> Told:
    settings, log = case.configuration.training, case.log
    told, open_rewards = Told([], [], []), dict[int, list[float]]()
    for index in range(case.lived[lane]):
        for offset in range(settings.learning_frequency):
            if len(told.rewards) == settings.steps or len(told.episodes) == settings.episodes:
                break
            reward, flag = float(log.reward[lane, index, offset]), int(log.flags[lane, index, offset])
            where = 0 if case.environments is None else int(case.environments[lane, index, offset])
            told.rewards.append(reward)
            open_rewards.setdefault(where, []).append(reward)
            if flag & (TERMINATED | TRUNCATED):
                rewards = open_rewards.pop(where)
                told.episodes.append((len(told.rewards), math.fsum(rewards), len(rewards), bool(flag & TERMINATED)))
        end = (index + 1) * settings.learning_frequency
        if end >= settings.learning_starts and (settings.steps is None or end <= settings.steps):
            diagnostics = [float(getattr(log, name)[lane, index]) for name in DIAGNOSTICS]
            told.iterations.append((min(end, len(told.rewards)), diagnostics))
    return told


def expected_curves(case: Case, told: Told) -> Iterator[dict[str, Any]]:
    window, steps = case.configuration.training.window, len(told.rewards)
    for start in range(0, steps, window):
        end = min(start + window, steps)
        made = sum(step <= end for step, _ in told.iterations)
        within = [diagnostics for step, diagnostics in told.iterations if start < step <= end]
        finite = [[v for v in column if math.isfinite(v)] for column in zip(*within, strict=True)] or [[]] * 4
        yield {
            "step": end,
            "reward": math.fsum(told.rewards[start:end]) / (end - start),
            "reward_cumulative": math.fsum(told.rewards[:end]) / end,
            "episodes": sum(step <= end for step, *_ in told.episodes),
            **{n: math.fsum(c) / len(c) if c else None for n, c in zip(DIAGNOSTICS, finite, strict=True)},
            "queries": made * QUERIES,
            "gradient_evaluations": made * GRADIENTS,
        }


def succeeded(case: Case, terminated: bool) -> bool | None:
    return {"termination": terminated, "truncation": not terminated, "none": None}[case.endings.success]


def expected_episodes(case: Case, told: Told) -> Iterator[dict[str, Any]]:
    for index, (step, total, length, terminated) in enumerate(told.episodes):
        yield {
            "episode": index,
            "step": step,
            "return": total,
            "length": length,
            "ending": "terminated" if terminated else case.endings.cut,
            "success": succeeded(case, terminated),
        }


def expected_evaluations(case: Case, lane: int, told: Told) -> Iterator[dict[str, Any]]:
    """A round is evaluated whenever it went on up to then, and at the end of the run if it had stopped before."""
    known: set[int] = set()
    for time, last, results in case.evaluations:
        step = min(time * case.configuration.training.learning_frequency, len(told.rewards))
        if (case.lived[lane] < time and not last) or step in known:
            continue
        known.add(step)
        for episode in range(PLAYED):
            yield {
                "step": step,
                "episode": episode,
                "return": float(results.total_reward[lane, episode]),
                "length": int(results.length[lane, episode]),
                "success": succeeded(case, bool(results.terminated[lane, episode])),
            }


def expected_round(case: Case, lane: int, told: Told) -> dict[str, Any]:
    settings, diverged = case.configuration.training, int(case.diverged_at[lane])
    made, steps, ended = len(told.iterations), len(told.rewards), len(told.episodes)
    spent = [(settings.steps, steps), (settings.outer_iterations, made), (settings.episodes, ended)]
    return {
        "steps": steps,
        "episodes": ended,
        "outer_iterations": made,
        "queries": made * QUERIES,
        "gradient_evaluations": made * GRADIENTS,
        "censored": sum(not each[-1] for each in told.episodes) if case.endings.cut == "censored" else 0,
        "diverged_at": min(diverged, steps) if diverged >= 0 else None,
        "completed": diverged < 0 and all(budget is None or done == budget for budget, done in spent),
    }


def rows_of(found: Tables, name: str) -> list[dict[str, Any]]:
    return frame(name, found[name] or dict.fromkeys(SCHEMAS[name], ())).to_dicts()


@pytest.mark.parametrize("page", [8, 40, 2**15])
@settings(max_examples=50)
@given(case=cases())
def test_every_table_against_a_round_told_step_by_step(page: int, case: Case) -> None:
    found = recorded_at_once(case, page)
    expected: dict[str, list[dict[str, Any]]] = {"curves": [], "episodes": [], "evaluations": [], "rounds": []}
    for lane, number in enumerate(NUMBERS):
        told = tell(case, lane)
        rows = {
            "curves": expected_curves(case, told),
            "episodes": expected_episodes(case, told),
            "evaluations": expected_evaluations(case, lane, told),
            "rounds": [expected_round(case, lane, told)],
        }
        for name, of_round in rows.items():
            expected[name] += [{"round": number, **row} for row in of_round]
    for name, wanted in expected.items():
        given_rows = rows_of(found, name)
        assert len(given_rows) == len(wanted)
        for row, other in zip(given_rows, wanted, strict=True):
            assert list(row) == list(other)
            for column, value in other.items():
                # Also absolutely, as sums of both signs may come to nearly nothing.
                near = pytest.approx(value, rel=1e-12, abs=1e-12) if isinstance(value, float) else value
                assert row[column] == near, (name, column, row)
    timing = {"first_round": 5, "rounds": ROUNDS, "phase": "train", "step": 8, "seconds": 0.5}
    assert rows_of(found, "timings") == [timing]


@settings(max_examples=10)
@given(cases(), cases())
def test_tables_of_chunks_follow_each_other(one: Case, other: Case) -> None:
    parts = [recorded_at_once(case) for case in (one, other)]
    for columns in parts[1].values():
        for name in {"round", "first_round"} & columns.keys():
            columns[name] = columns[name] + ROUNDS
    merged = merge_tables(parts)
    assert merged.keys() == parts[0].keys()
    for name in merged:
        assert rows_of(merged, name) == [row for part in parts for row in rows_of(part, name)]
    assert merge_tables([]) == {}


ENDINGS = Endings("censored", "termination")


def test_what_is_of_another_chunk_is_refused() -> None:
    configuration = configure("Some-v0", defaults=host_preset("Some-v0"), **SMALL, steps=80)
    arrays, _ = Recorder(configuration, ENDINGS, 2).state()
    with pytest.raises(InputError, match="do not fit this configuration"):
        Recorder(configuration, ENDINGS, 3).restore(arrays)
    with pytest.raises(InputError, match="do not fit this configuration"):
        Recorder(configuration, ENDINGS, 2).restore({})


def test_an_unfinished_page_is_all_that_is_kept_of_steps() -> None:
    configuration = configure("Some-v0", defaults=host_preset("Some-v0"), **SMALL, steps=2**18)
    recorder = Recorder(configuration, ENDINGS, 1)
    blocks = recording.PAGE_STEPS // SMALL["learning_frequency"]
    shape = (1, blocks, SMALL["learning_frequency"])
    log = BlockLog(np.ones(shape, np.float32), np.full(shape, STEPPED, np.uint8), *np.zeros((4, 1, blocks), np.float32))
    sizes = []
    for _ in range(3):
        recorder.record(log)
        recorder.record(BlockLog(*(part[:, :7] for part in log[:6])))
        arrays, rows = recorder.state()
        sizes.append(sum(array.nbytes for array in arrays.values()))
    assert sizes[-1] < 4_000
    assert rows["curves"].stop == 3 * recording.PAGE_STEPS // SMALL["window"]
