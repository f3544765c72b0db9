"""What rounds on the host tell while they go on: the same as their tables in the end, and the noise of their gradients
as a plain program finds it.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
import srgdqn
from host_environments import SMALL, Slope
from srgdqn.adapters.environments import source_of
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.config.presets import host_preset
from srgdqn.training.host.gradient_noise import GradientNoise
from srgdqn.training.host.program import host_program
from srgdqn.training.host.round import HostRound
from srgdqn.training.host.task import host_task, make_player
from srgdqn.training.recorder import Recorder
from srgdqn.training.reports import ProgressReporter, RoundReport
from translation import flat, from_packed, options_of

SIZES = (2, 4, 3)


def configuration_of(**options: Any) -> Configuration:
    options = {**SMALL, "steps": 160, "kernel": "xla", "clip_norm": None, **options}
    return configure("Slope", defaults=host_preset("Slope"), **options)


def round_of(configuration: Configuration) -> tuple[HostRound, GradientNoise]:
    task = host_task(configuration, source_of(Slope))
    program, _ = host_program(configuration, task.network_input, task.actions.count)
    player, _ = make_player(configuration, task, 0)
    return HostRound(configuration, task, program, player, 0), GradientNoise(configuration, program.network)


@pytest.mark.parametrize(("target", "estimated"), [("current", False), ("hard", False), ("current", True)])
def test_the_noise_is_a_plain_programs(target: str, estimated: bool) -> None:
    with jax.enable_x64(True):
        configuration = configuration_of(target=target, target_period=3, reward_estimation=estimated)
        round_, noise = round_of(configuration)
        assert noise.measure(round_) == (None, None)  # as there is nothing to draw from
        while round_.iterations < 5:
            round_.step_block()
        asked: list[np.ndarray] = []
        gather = round_.memory.gather
        round_.memory.gather = lambda slots: asked.append(slots) or gather(slots)  # type: ignore[method-assign,func-returns-value]
        variance, distance = noise.measure(round_)
        theta, frozen = flat(round_.learner.parameters), round_.learner.target
    (slots,) = asked
    o, data = options_of(configuration, SIZES), from_packed(gather(slots))
    if estimated:
        psi = flat(round_.learner.rewards.parameters)
        data = reference.with_estimates(o, reference.Rewards(psi, psi, psi, 0), data)
    judge = theta if target == "current" else flat(frozen)
    gradients = np.array([reference.gradient(o, theta, x, reference.bellman_target(o, judge, x)) for x in data])
    few, reference_rows = gradients[: SMALL["batch_size"]], gradients[SMALL["batch_size"] :]
    assert len(reference_rows) >= 1_000
    assert variance == pytest.approx(((few - few.mean(0)) ** 2).sum(1).mean(), rel=1e-5)
    assert distance == pytest.approx(np.linalg.norm(few.mean(0) - reference_rows.mean(0)), rel=1e-5)
    # Every transition that is remembered can be drawn, and none that is not.
    assert set(slots.tolist()) == set(range(40))


def test_measuring_takes_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    round_, noise = round_of(configuration_of())
    while round_.iterations < 2:
        round_.step_block()
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.5  # so that a measurement takes half a second
        return now

    monkeypatch.setattr("srgdqn.training.host.gradient_noise.time.perf_counter", clock)
    measured = []
    for _ in range(100):
        found = noise.measure(round_) != (None, None)
        measured += [now] if found else []
    # The first compiles, and the second is what others cost: one in 25 seconds.
    assert measured[:2] == [1.0, 2.0]
    assert np.diff(measured[1:]).min() >= 25
    assert len(measured) >= 3


def test_measuring_changes_nothing() -> None:
    ends = []
    for measured in (True, False):
        round_, noise = round_of(configuration_of())
        while round_.active:
            round_.step_block()
            if measured:
                noise.measure(round_)
        ends.append(flat(round_.learner.parameters))
    np.testing.assert_array_equal(*ends)


@settings(max_examples=15, deadline=None)
@given(gaps=st.lists(st.integers(1, 6), min_size=1, max_size=20), environments=st.sampled_from([1, 2]))
def test_however_often_it_is_asked_a_round_tells_what_its_tables_say(gaps: list[int], environments: int) -> None:
    configuration = configuration_of(environments=environments)
    expected = srgdqn.train(Slope, progress=False, **{**SMALL, **_told(configuration)})
    round_, _ = round_of(configuration)
    recorder = Recorder(configuration, round_.task.endings, 1)
    reporter = ProgressReporter(recorder, configuration, [0], lambda progress: None)
    told: list[RoundReport] = []
    for gap in [*gaps, 20]:
        for _ in range(gap):
            if round_.active:
                round_.step_block()
        recorder.record(round_.log, round_.environments)
        round_.step_log.clear()
        told += reporter.read()
    assert reporter.read() == []
    episodes = expected.episodes.sort("episode")
    assert sum(each.steps for each in told) == told[-1].step == 160
    assert [total for each in told for total in each.returns] == episodes["return"].to_list()
    assert [length for each in told for length in each.lengths] == episodes["length"].to_list()
    last, row = told[-1], expected.rounds.row(0, named=True)
    counted = (last.episodes, last.outer_iterations, last.queries, last.gradient_evaluations)
    assert counted == tuple(row[n] for n in ("episodes", "outer_iterations", "queries", "gradient_evaluations"))
    mean = sum(each.reward * each.steps for each in told) / 160
    assert mean == pytest.approx(np.average(expected.curves["reward"]), rel=1e-5)


def _told(configuration: Configuration) -> dict[str, Any]:
    chosen = configuration.options()
    return {name: chosen[name] for name in ("steps", "kernel", "clip_norm", "environments")}
