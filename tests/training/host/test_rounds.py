"""Rounds in this process and in others: the same bits, whatever happens to one of them."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.envs.registration import registry

from host_environments import SMALL, Deadly, Hanging, Slope
from srgdqn.adapters.environments import source_of
from srgdqn.config.configure import configure
from srgdqn.config.presets import host_preset
from srgdqn.errors import InputError
from srgdqn.learner.estimators import ESTIMATORS, register_estimator
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.checkpoints import CheckpointFolder
from srgdqn.runs.locks import locked
from srgdqn.training import Trained
from srgdqn.training.host.rounds import train_on_host
from srgdqn.training.host.task import host_task, reset_seed
from srgdqn.training.reports import Progress
from tiny import bits, reproducible


def trained(
    environment: Any, workers: int, own_network: Any = None, *, manager: CheckpointManager | None = None, **options: Any
) -> Trained:
    source = source_of(environment)
    configuration = configure(
        source.name,
        defaults=host_preset(source.name),
        **{**SMALL, "steps": 48, "kernel": "xla", "rounds": 3, **options},
    )
    return train_on_host(configuration, host_task(configuration, source), own_network, workers=workers, manager=manager)


def same(one: Trained, other: Trained) -> bool:
    policies = bits(one.policies) == bits(other.policies)
    return policies and reproducible(one.tables) == reproducible(other.tables)


class Wide(eqx.Module):
    weight: jax.Array

    def __call__(self, observation: jax.Array) -> jax.Array:
        return observation @ self.weight


def test_everything_of_the_users_works_in_processes(capfd: pytest.CaptureFixture[str]) -> None:
    """An id that only this process knows, of an environment that prints; a network made by a lambda; an estimator."""
    gym.register("Talking-v0", "host_environments:Talking")
    register_estimator("mine", ESTIMATORS["svrg"])
    try:
        network = lambda key: Wide(jax.random.normal(key, (2, 3)))  # noqa: E731
        alone, shared = (
            trained("Talking-v0", workers, network, network="Wide", estimator="mine") for workers in (1, 2)
        )
    finally:
        del registry["Talking-v0"], ESTIMATORS["mine"]
    assert (alone.failures, shared.failures) == ({}, {})
    assert not shared.interrupted
    assert same(alone, shared)
    assert shared.policies["network.weight"].shape == (3, 2, 3)
    assert len(np.unique(shared.policies["network.weight"][:, 0, 0])) == 3
    assert "pushed" in capfd.readouterr().err  # where it does no harm


def test_an_id_with_options_that_only_this_process_knows_is_known_to_all() -> None:
    gym.register("Longer-v0", "host_environments:Counting")
    try:
        name = "Longer-v0,max_episode_steps=2"
        apart, alone = trained(name, workers=2), trained(name, workers=1)
    finally:
        del gym.registry["Longer-v0"]
    assert not apart.failures
    assert same(apart, alone)
    assert max(apart.tables["episodes"]["length"]) == 2


def test_a_second_ctrl_c_returns_the_rounds_that_are_done() -> None:
    """Round 0 is over, and round 1 never ends."""
    source = source_of(functools.partial(Hanging, [reset_seed(0, 1, 0, 0)]))
    options = {**SMALL, "steps": 48, "kernel": "xla", "rounds": 2}
    configuration = configure(source.name, defaults=host_preset(source.name), **options)

    presses = [threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)) for seconds in (3.0, 6.0)]

    def listen(progress: Progress) -> None:
        """Presses Ctrl-C a while after round 0 is over, when round 1 hangs, and once more."""
        if progress.ended and not any(press.is_alive() for press in presses):
            for press in presses:
                press.start()

    done = train_on_host(configuration, host_task(configuration, source), workers=2, listener=listen)
    for press in presses:  # round 1 may have been asked to stop before it hung
        press.cancel()
    assert done.interrupted
    assert done.tables["rounds"]["round"].tolist()[0] == 0
    assert done.tables["rounds"]["completed"].tolist() in ([True], [True, False])


def test_a_killed_process_costs_its_round_alone() -> None:
    def deadly() -> gym.Env:
        return Deadly([reset_seed(0, 1, 0, 1)], spared)

    spared = os.getpid()
    alone, shared = trained(deadly, 1), trained(deadly, 2)
    assert shared.failures.keys() == {1}
    assert "the process that trained round 1 failed: it ended with code -9" in shared.failures[1]
    assert shared.interrupted
    rounds = np.asarray(shared.tables["rounds"]["round"]).tolist()
    assert rounds == [0, 2]
    for name, array in shared.policies.items():
        np.testing.assert_array_equal(array, alone.policies[name][[0, 2]])
    # Another number of rounds gives the same ones.
    assert same(trained(deadly, 1, rounds=1), _first(alone))


def _first(all_of_them: Trained) -> Trained:
    tables = {
        name: {column: np.ma.asarray(values)[np.asarray(columns["round"]) == 0] for column, values in columns.items()}
        for name, columns in all_of_them.tables.items()
        if name != "timings"
    }
    policies = {name: array[:1] for name, array in all_of_them.policies.items()}
    return all_of_them._replace(tables=tables, policies=policies)


def test_a_network_that_does_not_fit_is_refused_before_any_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srgdqn.engines.processes._started", None)
    with pytest.raises(InputError, match=r"but the task has 3 actions"):
        trained(Slope, 2, Wide(jax.numpy.ones((2, 5))), network="Wide")


def test_a_round_that_another_process_is_at_work_on_is_not_checkpointed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call that outlived its run costs checkpoints, not the run."""
    monkeypatch.setattr("srgdqn.runs.locks._PATIENCE", 0.1)
    (tmp_path / "round-0").mkdir()
    given = dict(rounds=1, steps=48)
    with locked(tmp_path / "round-0", what="a round"):
        alone = trained(Slope, 1, manager=CheckpointManager(tmp_path), **given)
        assert os.listdir(tmp_path / "round-0") == [".lock"]
    assert "no checkpoint could be made" in capsys.readouterr().err
    stored = trained(Slope, 1, manager=CheckpointManager(tmp_path), **given)
    assert CheckpointFolder(tmp_path / "round-0").numbers() == [1]
    assert same(alone, stored)


def test_a_stop_asked_for_keeps_what_was_reached() -> None:
    """Asked for by the first progress that is heard, long before the budget is spent."""
    source, stop = source_of(Slope), threading.Event()
    configuration = configure(
        source.name, defaults=host_preset(source.name), **{**SMALL, "steps": 10**8, "kernel": "xla"}
    )
    done = train_on_host(configuration, host_task(configuration, source), listener=lambda _: stop.set(), stop=stop)
    assert done.interrupted
    assert done.failures == {}
    (steps,) = done.tables["rounds"]["steps"].tolist()
    assert 0 < steps < 10**8
    assert steps % 8 == 0


SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {tests!r})
import srgdqn
from host_environments import SMALL, Slope
from srgdqn.integrations import Logger

class Mine(Slope):
    pass

class Telling(Logger):
    def start(self, configuration, about): pass
    def log(self, reports): print("heard", {{report.round for report in reports}}, flush=True)
    def close(self): pass

result = srgdqn.train(Mine, **SMALL, steps=10**8, rounds=2, progress=False, loggers=[Telling()])
print("kept", result.rounds["round"].to_list(), result.rounds["steps"].min() > 0, result.run.provenance["interrupted"])
"""


@pytest.mark.slow
def test_ctrl_c_in_a_script_without_a_guard_keeps_what_was_reached(tmp_path: Path) -> None:
    """No process is left behind, and the script is run once only."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT).format(tests=str(Path(__file__).parents[2])))
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    heard: set[str] = set()
    try:
        for line in process.stdout:
            heard |= {number for number in "01" if number in line}
            if heard == {"0", "1"}:
                break
        children = _children(process.pid)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert "kept [0, 1] True True" in out, errors
    assert out.count("kept") == 1
    assert len(children) == 2
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def _children(parent: int) -> list[int]:
    if not Path("/proc/self/task").exists():
        pytest.skip("processes are told by /proc")
    return [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def test_an_error_in_one_process_costs_its_round_alone(tmp_path: Path) -> None:
    mark, parent = tmp_path / "failed", os.getpid()

    def make() -> gym.Env:
        if os.getpid() != parent and not mark.exists():
            mark.touch()
            raise OSError("no licence is left")
        return Slope()

    done = trained(make, 2, rounds=4)
    assert done.failures
    assert all("no licence is left" in failure for failure in done.failures.values())
    assert sorted({*range(4)} - {*done.failures}) == sorted({*done.tables["rounds"]["round"].tolist()})
    assert len(done.failures) < 4
