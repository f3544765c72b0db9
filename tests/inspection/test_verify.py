"""`srgdqn.verify`: runs that are what they say, and runs that were tampered with."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from shutil import copytree
from typing import Any

import jax.numpy as jnp
import pytest

import srgdqn
from checkpointed_runs import checkpointed_run, resealed, with_another_bit, with_another_value
from host_environments import SMALL, Slope
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.errors import InputError
from srgdqn.inspection.differences import Condition, differing_conditions
from srgdqn.inspection.saved_run import open_run
from srgdqn.runs.provenance import provenance
from srgdqn.runs.run import load
from srgdqn.session.prepare import result_of, with_kernel
from srgdqn.tasks import task_of
from srgdqn.training.rounds import train_rounds
from tiny import LEVERS, STUBBORN, TINY, Stubborn, tiny


@pytest.mark.parametrize("kind", ["compiled", "hosted"])
@pytest.mark.parametrize("which", [0, "all"])
def test_a_run_is_what_it_was(kind: str, which: int | str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    done, result = srgdqn.verify(folder, which, progress=False), srgdqn.load(folder)
    assert (done.verdict, done.holds, done.conditions) == ("identical", True, ())
    assert [check.number for check in done.rounds] == (result.rounds["round"].to_list() if which == "all" else [0])
    check, tables = done.rounds[0], result.run.tables
    mine = {name: tables[name].filter(tables[name]["round"] == 0).height for name in tables if name != "timings"}
    assert check.rows == mine
    assert min(check.rows["episodes"], check.rows["evaluations"]) > 5
    assert check.arrays == len(result.run.parameters)


def test_another_network_than_the_runs_is_a_condition(tmp_path: Path) -> None:
    still = {name: value for name, value in TINY.items() if name not in ("hidden", "time_limit")}
    srgdqn.train(LEVERS, "dqn-sgd", network=STUBBORN, **still, out=tmp_path / "run", progress=False)
    same = srgdqn.verify(tmp_path / "run", 0, network=STUBBORN, environment=LEVERS, progress=False)
    assert (same.verdict, same.conditions) == ("identical", ())
    other = srgdqn.verify(tmp_path / "run", 0, network=Stubborn(jnp.zeros(8)), environment=LEVERS, progress=False)
    assert other.verdict == "differs"
    [condition] = other.conditions
    assert condition.name == "your network"
    assert condition.words.startswith("your network: tiny.Stubborn ")


def test_the_kernels_runs(tmp_path: Path, kernel: None) -> None:
    del kernel
    checkpointed_run(tmp_path / "run", kernel="native", lanes=8)
    assert srgdqn.verify(tmp_path / "run", 1, progress=False).verdict == "identical"


@pytest.mark.parametrize("kind", ["compiled", "hosted"])
def test_one_bit_of_one_parameter(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    folder = request.getfixturevalue(kind)
    number = srgdqn.load(folder).rounds["round"][-1]
    path, place = "network.layers.0.weight", (number, 2, 3)
    other = with_another_bit(folder, tmp_path / "other", path, place)
    done = srgdqn.verify(other, number, progress=False)
    assert not done.holds
    [difference] = done.rounds[0].differences
    assert (difference.where, difference.place) == (path, place[1:])
    assert difference.stored == load(other).parameters[path][place]
    assert difference.recomputed == load(folder).parameters[path][place]
    assert 0 < difference.relative < 1e-6


@pytest.mark.parametrize("kind", ["compiled", "hosted"])
def test_one_bit_at_the_end_of_a_segment(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Under the conditions of the run any other bit refutes it, however small an error that is."""
    folder = request.getfixturevalue(kind)
    assert srgdqn.verify(folder, 0, how="segments", progress=False).verdict == "identical"
    other = with_another_bit(folder, tmp_path / "other", "network.layers.0.weight", (0, 2, 3))
    copytree(folder / "checkpoints", other / "checkpoints")
    done = srgdqn.verify(other, 0, how="segments", progress=False)
    assert (done.verdict, done.holds, done.conditions) == ("differs", False, ())
    *before, last = done.segments
    assert {each.finding for each in before} == {"agrees"}
    assert 0 < last.error < 1e-6
    assert last.finding == "differs"
    assert last.words.endswith("every bit is to be the same")


def test_one_value_of_one_table(compiled: Path, tmp_path: Path) -> None:
    episodes = load(compiled).tables["episodes"]
    row = int((episodes["round"] == 1).arg_true()[3])
    other = with_another_value(compiled, tmp_path / "other", "episodes", row, "return", episodes["return"][row] + 1e-9)
    done = srgdqn.verify(other, 1, progress=False)
    [difference] = done.rounds[0].differences
    assert (difference.where, difference.column, difference.place) == ("episodes", "return", (3,))
    assert difference.step == episodes["step"][row]
    assert srgdqn.verify(other, 2, progress=False).verdict == "identical"


def test_the_first_steps_alone(compiled: Path, tmp_path: Path) -> None:
    path = "network.layers.0.weight"
    other = with_another_bit(compiled, tmp_path / "other", path, (0, 0, 0))
    done = srgdqn.verify(other, 0, steps=150, progress=False)
    assert done.verdict == "identical"  # as the final parameters are not among them
    [check] = done.rounds
    assert not check.whole
    assert check.arrays == 0
    curves = load(compiled).tables["curves"]
    assert check.rows["curves"] == curves.filter((curves["round"] == 0) & (curves["step"] <= 150)).height == 3
    episodes = load(compiled).tables["episodes"]
    assert check.rows["episodes"] == episodes.filter((episodes["round"] == 0) & (episodes["step"] <= 150)).height


def test_a_round_is_chosen_by_a_seed(compiled: Path) -> None:
    unseeded = srgdqn.verify(compiled, steps=64, progress=False)
    again = srgdqn.verify(compiled, seed=unseeded.seed, steps=64, progress=False)
    assert (again.seed, again.rounds[0].number) == (unseeded.seed, unseeded.rounds[0].number)
    chosen = {srgdqn.verify(compiled, seed=seed, steps=64, progress=False).rounds[0].number for seed in range(4)}
    assert len(chosen) > 1


def test_interrupted_runs_are_verified_as_far_as_they_went(tmp_path: Path) -> None:
    configuration, _ = tiny(rounds=2, steps=8_000, kernel="xla", evaluation_interval=None)
    configuration = with_kernel(configuration)
    stop = threading.Event()
    trained = train_rounds(
        configuration,
        task_of(configuration),
        listener=lambda progress: stop.set() if progress.share > 0.5 else None,
        stop=stop,
    )
    assert trained.interrupted
    result_of(configuration, task_of(configuration), trained).save(tmp_path / "run")
    done = srgdqn.verify(tmp_path / "run", "all", progress=False)
    assert done.verdict == "identical"
    assert [check.steps for check in done.rounds] == trained.tables["rounds"]["steps"].tolist()
    assert 4_000 < done.rounds[0].steps < 8_000


def test_conditions_that_differ_are_named(compiled: Path, tmp_path: Path) -> None:
    """Engine, host and inputs do not determine the bits, and are none."""
    now = load(compiled).provenance
    elsewhere = {**now, "engine": "ray", "cores": 1_000, "memory_gib": 1, "inputs": {"digest": "other"}}
    assert differing_conditions(open_run(resealed(compiled, tmp_path / "elsewhere", provenance=elsewhere))) == []
    other = {**now, "instruction_sets": ["sve"], "versions": {**now["versions"], "jax": "0.0.1"}}
    found = differing_conditions(open_run(resealed(compiled, tmp_path / "other", provenance=other)))
    assert [condition.name for condition in found] == ["version of jax", "instruction sets"]
    assert found[0].words.startswith("version of jax: 0.0.1 then, ")


def test_what_cannot_be_asked(compiled: Path) -> None:
    with pytest.raises(InputError, match="no round 7"):
        srgdqn.verify(compiled, 7)
    with pytest.raises(InputError, match="Give a number, or 'all'"):
        srgdqn.verify(compiled, "some")
    with pytest.raises(InputError, match="first outer iteration comes after 16"):
        srgdqn.verify(compiled, 0, steps=3)


def test_under_other_conditions_an_error_is_compared_with_rounding(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One other bit at the end of the run is rounding, and another hundredth of every parameter is not."""
    elsewhere = [Condition("version of jax", "0.0.1", "0.0.2")]
    monkeypatch.setattr("srgdqn.inspection.verify.differing_conditions", lambda saved: elsewhere)
    assert srgdqn.verify(compiled, 0, progress=False).verdict == "identical"
    with pytest.raises(InputError, match="steps was given, but segments"):
        srgdqn.verify(compiled, 0, steps=64, progress=False)
    rounded = with_another_bit(compiled, tmp_path / "rounded", "network.layers.0.weight", (0, 2, 3))
    other = {name: array * 1.01 for name, array in load(compiled).parameters.items()}
    tampered = resealed(compiled, tmp_path / "tampered", parameters=other)
    for folder, finding in ((rounded, "agrees"), (tampered, "undecided")):
        copytree(compiled / "checkpoints", folder / "checkpoints")
        done = srgdqn.verify(folder, 0, progress=False)
        assert (done.verdict, done.segments[-1].finding) == (finding, finding)
        assert all(each.identical for each in done.segments[:-1])


ELSEWHERE = """
import sys, srgdqn
for folder in sys.argv[1:]:
    done = srgdqn.verify(folder, 0, progress=False)
    print(done.verdict, len(done.segments), sum(s.identical for s in done.segments), len(done.conditions))
"""


@pytest.mark.slow
@pytest.mark.skipif("avx2" not in provenance()["instruction_sets"], reason="needs AVX2")
def test_under_another_instruction_set_segments_are_compared(tmp_path: Path) -> None:
    """XLA's programs without AVX and FMA, in a process of their own: other bits for the same mathematics."""
    run, other = tmp_path / "run", tmp_path / "other"
    checkpointed_run(run, "svr-dqn", kernel="xla", steps=1_000, rounds=1, replay_capacity=64, hidden=(16,), eta=0.01)
    resealed(run, other, parameters={name: array * 1.01 for name, array in load(run).parameters.items()})
    copytree(run / "checkpoints", other / "checkpoints")
    clean = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(run), str(other)],
        env={**clean, "SRGDQN_CACHE": "off", "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    (verdict, segments, identical, conditions), (tampered, *_) = map(str.split, done.stdout.splitlines())
    assert (verdict, conditions) == ("agrees", "1")
    assert int(segments) >= 15
    assert int(identical) < int(segments)
    assert tampered in ("undecided", "differs")


class Worn(Slope):
    """A slope that breaks once it was walked on for long enough."""

    walked, holds = 0, 10**9

    def step(self, action: Any) -> tuple[Any, ...]:
        Worn.walked += 1
        if Worn.walked > Worn.holds:
            raise RuntimeError("the slope has slid")
        return super().step(action)


@pytest.fixture
def worn(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(Worn, "walked", 0)
    return monkeypatch


def trained(folder: Path) -> None:
    srgdqn.train(Worn, **{**SMALL, "steps": 96, "evaluation_interval": None}, progress=False, out=folder)


@pytest.mark.parametrize("which", ["all", 0])
def test_a_failure_is_neither_an_interrupt_nor_a_difference(
    which: int | str, worn: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trained(tmp_path / "run")
    worn.setattr(Worn, "holds", Worn.walked + 50)
    with pytest.raises(EnvironmentFailedError, match=r"round 0 could not be recomputed: .*the slope has slid"):
        srgdqn.verify(tmp_path / "run", which, environment=Worn, progress=False)
    worn.setattr(Worn, "holds", 10**9)
    assert srgdqn.verify(tmp_path / "run", which, environment=Worn, progress=False).verdict == "identical"


def test_a_run_that_failed_fails_again_at_the_same_step(worn: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Which is what it was, so that it is verified."""
    worn.setattr(Worn, "holds", 50)
    with pytest.raises(EnvironmentFailedError):
        trained(tmp_path / "run")
    assert srgdqn.load(tmp_path / "run").rounds["steps"].to_list() == [48]
    worn.setattr(Worn, "walked", 0)
    assert srgdqn.verify(tmp_path / "run", 0, environment=Worn, progress=False).verdict == "identical"
