"""What goes with parts of a training to another process, and what comes back: nothing is left out."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import jax
import pytest

from srgdqn.adapters.environments import source_of
from srgdqn.engines.executor import Executor
from srgdqn.engines.processes import Processes
from srgdqn.learner.estimators import ESTIMATORS, estimator_names, own_estimators, register_estimator
from srgdqn.learner.own_rules import make_known
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.locks import locked
from srgdqn.training import train_rounds
from srgdqn.training.distribute import distribute
from srgdqn.training.jax_setup import is_double
from srgdqn.training.reports import Listener, Progress
from tiny import bits, reproducible, tiny


class Pickling(Executor):
    """Pickles everything as an executor on another machine does, and calls here."""

    remote = True

    def __init__(self, *, shares_disk: bool = False, forget: Callable[[], None] = lambda: None) -> None:
        """`forget` makes this process one that knows nothing of what was packed."""
        super().__init__(1)
        self.shares_disk, self._forget = shares_disk, forget

    def _run(self, function: Any, items: Sequence[Any], on_message: Any, stopping: Any) -> Iterator[tuple[Any, Any]]:
        data = cloudpickle.dumps(function)
        self._forget()
        for item in items:
            there = cloudpickle.loads(cloudpickle.dumps(item))
            yield item, cloudpickle.loads(data)(there, threading.Event(), lambda m, item=item: on_message(item, m))


def test_the_users_code_is_known_elsewhere() -> None:
    gym.register("Private-v0", "host_environments:Counting")
    register_estimator("mine", ESTIMATORS["svrg"])
    source = source_of("Private-v0")

    def forget() -> None:
        del gym.registry["Private-v0"], ESTIMATORS["mine"]

    def work(part: str, listener: Listener, stop: Any, manager: Any) -> tuple[Any, ...]:
        environment = source.fresh()
        return part, type(environment.unwrapped).__name__, "mine" in estimator_names(), is_double()

    try:
        with jax.enable_x64(True):
            found = list(distribute(Pickling(forget=forget), work, ["a"], [print], names=["a"]))
    finally:
        gym.registry.pop("Private-v0", None)
        ESTIMATORS.pop("mine", None)
    assert found == [(0, ("a", "Counting", True, True))]


def test_estimators_reach_machines_without_their_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor the modules that these import; a process of this machine, which finds them, imports them itself."""
    (tmp_path / "half_of.py").write_text("SCALE = 0.5\n")
    (tmp_path / "halved_estimator.py").write_text(
        "import half_of, srgdqn\nfrom srgdqn.estimators import estimator\n\n\n"
        "def direction(state, *given):\n    return half_of.SCALE * state\n\n\n"
        "srgdqn.register_estimator('halved', estimator('sgd')._replace(direction=direction))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))

    def work(part: str, listener: Listener, stop: Any, manager: Any) -> tuple[float, bool]:
        return ESTIMATORS["halved"].direction(8.0), "halved_estimator" in sys.modules  # type: ignore[arg-type, call-arg, return-value]

    def forget() -> None:
        for name in ("half_of", "halved_estimator"):
            sys.modules.pop(name, None)
        ESTIMATORS.pop("halved", None)

    def forget_path() -> None:
        forget()
        for file in tmp_path.glob("*.py"):
            file.unlink()
        importlib.invalidate_caches()

    try:
        for shares_disk, lose, imported in ((True, forget, True), (False, forget_path, False)):
            importlib.import_module("halved_estimator")
            executor = Pickling(shares_disk=shares_disk, forget=lose)
            assert list(distribute(executor, work, ["a"], [print], names=["a"])) == [(0, (4.0, imported))]
            forget()
    finally:
        forget()


def test_estimators_are_what_they_are_in_the_process_that_is_worked_for() -> None:
    assert own_estimators() == {}
    register_estimator("mine", ESTIMATORS["svrg"])
    try:
        make_known({("estimator", "mine"): ESTIMATORS["srg"], ("estimator", "another"): ESTIMATORS["sgd"]})
        assert own_estimators() == {"mine": ESTIMATORS["srg"], "another": ESTIMATORS["sgd"]}
    finally:
        for name in own_estimators():
            del ESTIMATORS[name]


def test_steps_are_reported_once_each_and_the_end_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def work(part: int, listener: Listener, stop: Any, manager: Any) -> None:
        nonlocal now
        for turn in range(10):
            now = turn / 8
            listener(Progress(turn / 10, 7, 0.0, 0, ended=turn == 9, reports=lambda turn=turn: [turn]))

    heard: list[Progress] = []
    # The closure's `now` must be this test's: an executor that pickles nothing, but is remote.
    executor = Pickling()
    monkeypatch.setattr(cloudpickle, "dumps", lambda value: value)
    monkeypatch.setattr(cloudpickle, "loads", lambda value: value)
    list(distribute(executor, work, [0], [heard.append], names=["a"]))
    assert [progress.steps for progress in heard] == [7, 28, 28, 7]
    assert heard[-1].ended
    assert heard[-1].reports() == [0, 4, 8, 9]  # a listener may read them when it likes
    assert heard[-1].reports() == []


@pytest.mark.parametrize("shares_disk", [True, False])
def test_a_part_is_checkpointed_where_nobody_else_is_at_work_on_it(
    shares_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srgdqn.runs.locks._PATIENCE", 0.1)

    def work(part: str, listener: Listener, stop: Any, manager: Any) -> bool:
        return manager is not None

    def found() -> list[bool]:
        executor = Pickling(shares_disk=shares_disk)
        given: dict[str, Any] = dict(names=["a", "b"], manager=CheckpointManager(tmp_path))
        return [outcome for _, outcome in distribute(executor, work, ["a", "b"], [print, print], **given)]

    assert found() == [True, True]
    (tmp_path / ".locks" / "a").mkdir(parents=True)
    with locked(tmp_path / ".locks" / "a", what="a job"):
        assert found() == [shares_disk, True]  # a call that outlived its driver is on another machine
    monkeypatch.setattr("srgdqn.engines.shared_folders.Mark.is_seen", lambda mark: False)
    assert found() == [shares_disk] * 2


def test_compiled_rounds_have_the_same_bits_in_processes(each_kernel: str) -> None:
    run = tiny(rounds=20, kernel=each_kernel)
    here, there = train_rounds(*run), train_rounds(*run, executor=Processes(2))
    assert reproducible(there.tables) == reproducible(here.tables)
    assert bits(there.policies) == bits(here.policies)
