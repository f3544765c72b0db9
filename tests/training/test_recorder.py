"""Recording in pages: however the log is cut and wherever recording is interrupted, against sums made step by step."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from host_environments import SMALL
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.config.presets import host_preset
from srgdqn.errors import InputError
from srgdqn.training import recorder as recording
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.lane import STEPPED, TERMINATED, TRUNCATED, BlockLog
from srgdqn.training.recorder import Recorder
from srgdqn.training.tables import Endings, Tables
from tiny import reproducible

ENDINGS = Endings("censored", "termination")
DIAGNOSTICS = ("loss", "max_q", "delta_norm", "theta_norm")
ROUNDS, BLOCKS = 3, 40


class Case(NamedTuple):
    configuration: Configuration
    log: BlockLog
    environments: np.ndarray | None
    diverged_at: np.ndarray
    evaluations: list[tuple[int, bool, Evaluation]]
    lived: list[int]  # blocks of each round


@st.composite
def cases(draw: st.DrawFn) -> Case:
    block = draw(st.sampled_from([1, 2, 8]))
    environments = draw(st.sampled_from([1, 2])) if block > 1 else 1
    starts = draw(st.integers(4, 30))
    unit = draw(st.sampled_from(["steps", "outer_iterations", "episodes"]))
    amount = draw(st.integers(-(-starts // block) * block, BLOCKS * block) if unit == "steps" else st.integers(1, 15))
    options = {**SMALL, "learning_frequency": block, "learning_starts": starts, unit: amount}
    options |= {"window": draw(st.integers(1, 3 * BLOCKS)), "environments": environments, "evaluation_episodes": 2}
    configuration = configure("Some-v0", defaults=host_preset("Some-v0"), **options)
    settings = configuration.training

    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ended = random.random((ROUNDS, BLOCKS, block)) < draw(st.sampled_from([0.01, 0.1, 0.5]))
    most = {"steps": -(-amount // block), "outer_iterations": settings.first_learning_block + amount}.get(unit, BLOCKS)
    lived = [min(BLOCKS, most)] * ROUNDS
    if unit == "episodes":
        for lane in range(ROUNDS):
            so_far = ended[lane].sum(1).cumsum()
            lived[lane] = int(np.argmax(so_far >= amount)) + 1 if so_far[-1] >= amount else BLOCKS
    diverged = np.full(ROUNDS, -1)
    diagnostics = random.normal(size=(4, ROUNDS, BLOCKS)).astype(np.float32)
    if draw(st.booleans()):
        lived[1] = draw(st.integers(1, lived[1]))
        diverged[1] = lived[1] * block
        diagnostics[2:, 1, lived[1] - 1] = np.nan
    total = max(lived)
    terminated = random.random(ended.shape) < 0.5
    flags = TERMINATED * (ended & terminated) + TRUNCATED * (ended & ~terminated)
    flags += STEPPED * (np.arange(BLOCKS)[:, None] < np.array(lived)[:, None, None])
    reward = random.normal(size=ended.shape).astype(np.float32)
    log = BlockLog(*(part[:, :total] for part in (reward, flags.astype(np.uint8), *diagnostics)))
    where = None if environments == 1 else random.integers(environments, size=reward[:, :total].size)
    judged = [
        (time, time == total, Evaluation(*random.integers(0, 2, (3, ROUNDS, 2))))  # type: ignore[arg-type]
        for time in sorted({draw(st.integers(1, total)), total})
    ]
    shaped = None if where is None else where.reshape(ROUNDS, total, block)
    return Case(configuration, log, shaped, diverged, judged, lived)


def pieces(case: Case, cuts: list[int]) -> Iterator[tuple[BlockLog, np.ndarray | None]]:
    edges = sorted({0, case.log.flags.shape[1], *(cut for cut in cuts if cut < case.log.flags.shape[1])})
    for start, stop in itertools.pairwise(edges):
        part = BlockLog(*(part[:, start:stop] for part in case.log[:6]))
        yield part, None if case.environments is None else case.environments[:, start:stop]


def tables(recorder: Recorder, case: Case, lanes: slice = slice(0, ROUNDS)) -> Tables:
    rounds = range(5, 5 + ROUNDS)[lanes]
    return recorder.tables(lanes, rounds, case.configuration, case.diverged_at)


def recorder_of(case: Case, page: int = 2**15) -> Recorder:
    """A new one, with pages of so many steps."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recording, "PAGE_STEPS", page)
        return Recorder(case.configuration, ENDINGS, ROUNDS)


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
        expected = (found["evaluations"][name].tolist() for name in ("round", "step", "return"))
        assert rows == list(zip(*expected, strict=True))


@pytest.mark.parametrize("page", [8, 40, 2**15])
@given(case=cases())
def test_every_row_against_a_loop_in_plain_python(page: int, case: Case) -> None:
    found = recorded_at_once(case, page)
    for name, expected in told(case).items():
        assert len(found[name]["round"]) == len(expected)
        for index, row in enumerate(expected):
            for column, value in row.items():
                given_value = found[name][column][index]
                if value is None:
                    assert np.ma.is_masked(given_value), (name, column, row)
                elif isinstance(value, float):
                    # Relative to the size of what was added up, as sums of both signs may come to nearly nothing.
                    assert abs(float(given_value) - value) <= 1e-12 * max(1.0, abs(value)), (name, column, row)
                else:
                    assert given_value == value, (name, column, row)


@given(case=cases())
def test_what_crosses_no_page_has_the_bits_of_one_sum(case: Case) -> None:
    page = case.configuration.training.window * case.configuration.training.learning_frequency
    whole, pages = recorded_at_once(case), recorded_at_once(case, page)  # a whole number of windows each
    for name in ("reward", "reward_cumulative", *DIAGNOSTICS):
        assert reproducible({"curves": {"round": whole["curves"]["round"], name: whole["curves"][name]}}) == (
            reproducible({"curves": {"round": pages["curves"]["round"], name: pages["curves"][name]}})
        )
    for row in range(len(whole["episodes"]["round"])):
        end, length = (int(whole["episodes"][column][row]) for column in ("step", "length"))
        if case.environments is None and (end - length) // page == (end - 1) // page:
            assert pages["episodes"]["return"][row] == whole["episodes"]["return"][row]


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
                numbers = whole[name]["round"] if whole[name] else np.zeros(0)
                chosen = (numbers >= 5 + lanes.start) & (numbers < 5 + lanes.stop)
                wanted = {column: values[chosen] for column, values in whole[name].items()}
                assert reproducible({name: part[name]}) == reproducible({name: wanted})


@dataclasses.dataclass
class Story:
    """A round told one step after the other."""

    number: int
    curves: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    episodes: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    rewards: list[float] = dataclasses.field(default_factory=list)
    in_window: list[float] = dataclasses.field(default_factory=list)
    learnt: list[list[float]] = dataclasses.field(default_factory=list)
    open_rewards: dict[int, list[float]] = dataclasses.field(default_factory=dict)
    made: int = 0

    def step(self, reward: float, flag: int, where: int) -> None:
        for rewards in (self.rewards, self.in_window, self.open_rewards.setdefault(where, [])):
            rewards.append(reward)
        if flag & (TERMINATED | TRUNCATED):
            rewards, terminated = self.open_rewards.pop(where), bool(flag & TERMINATED)
            self.episodes.append(
                {
                    "round": self.number,
                    "step": len(self.rewards),
                    "return": math.fsum(rewards),
                    "length": len(rewards),
                    "ending": "terminated" if terminated else "censored",
                    "success": terminated,
                }
            )

    def close_window(self) -> None:
        finite = [[v for v in column if math.isfinite(v)] for column in zip(*self.learnt, strict=True)] or [[]] * 4
        self.curves.append(
            {
                "round": self.number,
                "step": len(self.rewards),
                "reward": math.fsum(self.in_window) / len(self.in_window),
                "reward_cumulative": math.fsum(self.rewards) / len(self.rewards),
                "episodes": len(self.episodes),
                **{n: math.fsum(c) / len(c) if c else None for n, c in zip(DIAGNOSTICS, finite, strict=True)},
            }
        )
        self.in_window, self.learnt = [], []


def told(case: Case) -> dict[str, list[dict[str, Any]]]:
    """Curves, episodes and rounds, by adding up one step after the other."""
    settings, rows = case.configuration.training, dict[str, list[dict[str, Any]]](curves=[], episodes=[], rounds=[])
    block, log = settings.learning_frequency, case.log
    for lane, lived in enumerate(case.lived):
        story = Story(5 + lane)
        for index in range(lived):
            for offset in range(block):
                if len(story.rewards) == settings.steps or len(story.episodes) == settings.episodes:
                    break
                if len(story.in_window) == settings.window:
                    story.close_window()
                where = 0 if case.environments is None else int(case.environments[lane, index, offset])
                story.step(float(log.reward[lane, index, offset]), int(log.flags[lane, index, offset]), where)
            end = (index + 1) * block
            if end >= settings.learning_starts and (settings.steps is None or end <= settings.steps):
                story.made += 1
                story.learnt.append([float(getattr(log, name)[lane, index]) for name in DIAGNOSTICS])
        story.close_window()
        rows["curves"] += story.curves
        rows["episodes"] += story.episodes
        rows["rounds"].append(
            {
                "round": story.number,
                "steps": len(story.rewards),
                "episodes": len(story.episodes),
                "outer_iterations": story.made,
                "censored": sum(not each["success"] for each in story.episodes),
            }
        )
    return rows


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
