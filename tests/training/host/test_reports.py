"""What rounds on the host tell while they go on: the same as their tables in the end, and the noise of their gradients
as a plain program finds it.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import reference
from host_environments import SMALL, Slope
from srgdqn.adapters.environments import source_of
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.config.presets import host_preset
from srgdqn.training.host.gradient_noise import GradientNoise
from srgdqn.training.host.program import host_program
from srgdqn.training.host.round import HostRound
from srgdqn.training.host.task import host_task, make_player
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


@pytest.mark.parametrize("target", ["current", "hard"])
def test_the_noise_is_a_plain_programs(target: str) -> None:
    with jax.enable_x64(True):
        configuration = configuration_of(target=target, target_period=3)
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
