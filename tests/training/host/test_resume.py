"""Rounds on the host that are stopped, or killed, and go on: to the bit what they would have been."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from host_environments import SMALL, Masked, Slope
from srgdqn.adapters.environments import source_of
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.config.presets import host_preset
from srgdqn.errors import InputError
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.checkpoints import CheckpointFolder
from srgdqn.runs.locks import locked
from srgdqn.training.host.rounds import RoundOutcome, round_checkpoints, train_on_host, train_round
from srgdqn.training.host.steps import OpenSteps
from srgdqn.training.host.task import HostTask, host_task
from tiny import bits, reproducible

STEPS = 240


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every segment is one block, after which a checkpoint can be made."""
    monkeypatch.setattr("srgdqn.training.host.round.SEGMENT_SECONDS", 0.0)


class Pictures(gym.Env):
    """A bright row that moves up or down a dark image, observed as the four newest frames. Nothing is random but the
    start, and an episode ends where the row leaves the image or after 30 steps.
    """

    observation_space = Box(0, 255, (4, 36, 36), np.uint8)
    action_space = Discrete(2)
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.steps = int(self.np_random.integers(8, 28)), 0
        self.frames = np.zeros((4, 36, 36), np.uint8)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.place += 2 * int(action) - 1
        self.steps += 1
        out = not 0 <= self.place < 36
        return self._seen(), float(self.place) / 36, out, self.steps == 30 and not out, {}

    def _seen(self) -> np.ndarray:
        frame = np.zeros((1, 36, 36), np.uint8)
        frame[0, self.place % 36] = 100 + self.steps
        self.frames = np.concatenate([self.frames[1:], frame])
        return self.frames


class Endless(Slope):
    """An episode that nothing ends."""

    def step(self, action: Any) -> tuple[Any, ...]:
        after, reward, *_ = super().step(action)
        self.place = max(self.place, 0.1)
        return after, reward, False, False, {}


class Moody(Slope):
    """Episodes of 12 steps, with rewards that no seed decides."""

    def step(self, action: Any) -> tuple[Any, ...]:
        after, reward, *_ = super().step(action)
        self.place = max(self.place, 0.1)
        return after, reward + float(os.urandom(1)[0]), False, self.steps == 12, {}


STORM: dict[str, Any] = dict(estimator="storm", step="adam", adam_process=False, gradient_steps=3, target="hard")
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "CartPole, kernel": ("CartPole-v1", {"kernel": "native"}),
    "CartPole, XLA": ("CartPole-v1", {"kernel": "xla"}),
    "evaluations": ("CartPole-v1", {"kernel": "native", "evaluation_interval": 40}),
    "a target network": ("CartPole-v1", {"kernel": "xla", "target": "hard", "target_period": 3}),
    "episodes": (Slope, {"kernel": "native", "steps": None, "episodes": 25}),
    "several": (functools.partial(Slope), {"kernel": "xla", "environments": 2, "replay_capacity": 100}),
    "normalised": (Slope, {"kernel": "xla", "normalise_observations": True, "normalise_rewards": True}),
    "several, normalised": (Slope, {"kernel": "xla", "environments": 4, "normalise_rewards": True}),
    "STORM": ("CartPole-v1", {"kernel": "native", **STORM}),
    "STORM, XLA": ("CartPole-v1", {"kernel": "xla", **STORM}),
    "scaled": (Slope, {"kernel": "native", "scale_observations": True}),
    "scaled, XLA": (Slope, {"kernel": "xla", "scale_observations": True}),
    "endless": (Endless, {"kernel": "native", "window": 7}),
    "directions": (Slope, {"kernel": "native", "evaluation_interval": 40, "direction_errors": True}),
    "the best": (Slope, {"kernel": "native", "evaluation_interval": 40, "keep_best": True}),
    "masks": (Masked, {"action_masks": True, "environments": 2, "target": "hard", "bootstrap": "double"}),
    "images": (Pictures, {"network": "cnn", "window": 30}),
    "images, the best": (Pictures, {"network": "cnn", "window": 30, "evaluation_interval": 80, "keep_best": True}),
    "n steps": (Slope, {"kernel": "xla", "environments": 2, "n_step": 4, "normalise_rewards": True}),
    "prioritised": (Slope, {"kernel": "xla", "sampling": "prioritised", "gradient_steps": 2, "environments": 2}),
    "n steps, images": (Pictures, {"network": "cnn", "window": 30, "n_step": 4}),
}


def made(environment: Any, options: dict[str, Any]) -> tuple[Configuration, HostTask]:
    source = source_of(environment)
    usual = {**SMALL, "steps": STEPS, **options}
    configuration = configure(source.name, defaults=host_preset(source.name), **usual)
    return configuration, host_task(configuration, source)


@functools.cache
def uninterrupted(name: str) -> RoundOutcome:
    configuration, task = made(*CASES[name])
    return train_round(configuration, task, 3)


class Killed(BaseException):
    """What stands for the end of a process: nobody catches it, and nothing is kept after it."""


def after(blocks: int, *, kill: bool = False) -> Callable[[], bool]:
    """Tells a round to stop after so many blocks, or ends it."""
    left = blocks

    def stopping() -> bool:
        nonlocal left
        left -= 1
        if left < 0 and kill:
            raise Killed
        return left < 0

    return stopping


def same(one: RoundOutcome, other: RoundOutcome) -> bool:
    assert (one.failure, other.failure) == (None, None)
    policies = [bits((outcome.policies, outcome.best)) for outcome in (one, other)]
    return reproducible(one.tables) == reproducible(other.tables) and policies[0] == policies[1]


@pytest.mark.parametrize("name", CASES)
def test_a_round_that_was_stopped_or_killed_is_the_round_it_would_have_been(name: str, tmp_path: Path) -> None:
    configuration, task = made(*CASES[name])
    random = np.random.default_rng(len(name))
    for turn, kill in enumerate((False, True)):
        manager = CheckpointManager(tmp_path / str(turn), every=0.0)
        for _ in range(3):
            blocks = int(random.integers(1, 9))
            if kill:
                with pytest.raises(Killed):
                    train_round(configuration, task, 3, manager=manager, stopping=after(blocks, kill=True))
            else:
                train_round(configuration, task, 3, manager=manager, stopping=after(blocks))
        outcome = train_round(configuration, task, 3, manager=manager)
        assert outcome.whole
        assert same(outcome, uninterrupted(name))
        assert "checkpoint" in outcome.tables["timings"]["phase"]


def test_errors_of_directions_between_images_change_no_bit() -> None:
    environment, options = CASES["images"]
    configuration, task = made(environment, {**options, "evaluation_interval": 120, "direction_errors": True})
    measured, plain = train_round(configuration, task, 3), uninterrupted("images")
    directions = measured.tables.pop("directions")
    assert directions["step"].tolist() == [120, 240]
    assert (directions["squared_norm"] != 0).all()
    without = {name: table for name, table in plain.tables.items() if name != "evaluations"}
    del measured.tables["evaluations"]  # which are made more often
    assert reproducible(measured.tables) == reproducible(without)
    assert bits(measured.policies) == bits(plain.policies)


@pytest.mark.parametrize("name", ["CartPole, kernel", "several"])
def test_who_watches_hears_of_every_episode_once(name: str, tmp_path: Path) -> None:
    """Also of those that were open when the round was stopped, with all their rewards."""
    configuration, task = made(*CASES[name])
    manager, heard = CheckpointManager(tmp_path), list[Any]()
    for stopping in (after(7), after(6), lambda: False):
        listener = lambda progress: heard.extend(progress.reports())  # noqa: E731
        outcome = train_round(configuration, task, 3, manager=manager, stopping=stopping, listener=listener)
    episodes = outcome.tables["episodes"]
    np.testing.assert_allclose(np.concatenate([report.returns for report in heard]), episodes["return"], rtol=1e-12)
    assert [length for report in heard for length in report.lengths] == episodes["length"].tolist()
    assert heard[-1].episodes == len(episodes["length"])
    assert sum(report.steps for report in heard) == STEPS


@pytest.mark.parametrize("name", ["CartPole, kernel", "images"])
def test_a_round_that_had_come_to_its_end_is_not_trained_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration, task = made(*CASES[name])
    whole, manager = uninterrupted(name), CheckpointManager(tmp_path)
    train_round(configuration, task, 3, manager=manager)
    manager.flush()
    monkeypatch.setattr("srgdqn.training.host.rounds.make_player", None)  # nobody is to play
    shares = []
    outcome = train_round(configuration, task, 3, manager=manager, listener=lambda p: shares.append((p.share, p.ended)))
    assert outcome.whole
    assert shares == [(1.0, True)]
    assert same(outcome, whole)
    [newest] = CheckpointFolder(tmp_path / "round-3").numbers()
    records = {f"records.{name}" for name in ("curves", "episodes", "evaluations", "timings")}
    assert set(CheckpointFolder(tmp_path / "round-3").open(newest).spans) == records


def test_the_checkpoint_of_another_round_or_configuration_is_not_gone_on_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configuration, task = made(*CASES["CartPole, kernel"])
    manager = CheckpointManager(tmp_path, every=0.0)
    train_round(configuration, task, 3, manager=manager, stopping=after(5))
    other, _ = made("CartPole-v1", {"kernel": "native", "eta": 0.5})
    train_round(other, task, 3, manager=manager, stopping=after(1))
    assert "it is of other rounds, or of another configuration" in capsys.readouterr().err
    (tmp_path / "round-3").rename(tmp_path / "round-2")
    train_round(other, task, 2, manager=manager, stopping=after(1))
    assert "it is of other rounds, or of another configuration" in capsys.readouterr().err


def test_where_the_environment_comes_elsewhere_new_episodes_begin_and_it_is_told(tmp_path: Path) -> None:
    configuration, task = made(Moody, {"kernel": "native", "window": 8})
    manager = CheckpointManager(tmp_path, every=0.0)
    before = train_round(configuration, task, 0, manager=manager, stopping=after(10))
    with pytest.warns(RuntimeWarning, match=r"round 0 goes on with new episodes: the environment .*Moody gave other"):
        outcome = train_round(configuration, task, 0, manager=manager)
    assert outcome.whole
    assert outcome.tables["rounds"]["steps"].tolist() == [STEPS]
    # What was recorded before is as it was.
    for name in ("curves", "episodes"):
        for column, values in before.tables[name].items():
            np.testing.assert_array_equal(outcome.tables[name][column][: len(values)], values)
    # Of the episode that was left open after 80 steps, none is counted as part of another.
    assert before.tables["episodes"]["step"].tolist() == [12, 24, 36, 48, 60, 72]
    assert outcome.tables["episodes"]["step"].tolist() == [12, 24, 36, 48, 60, 72, *range(92, STEPS + 1, 12)]
    assert set(outcome.tables["episodes"]["length"]) == {12}


@pytest.mark.filterwarnings("ignore:there are no evaluations")  # as nobody can make another
def test_a_vector_environment_begins_new_episodes_and_it_is_told(tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path, every=0.0)

    def run(**how: Any) -> RoundOutcome:
        vector = gym.vector.SyncVectorEnv([Slope, Slope])
        configuration, task = made(vector, {"kernel": "native", "environments": 2})
        return train_round(configuration, task, 0, manager=manager, **how)

    before = run(stopping=after(9))
    with pytest.warns(RuntimeWarning, match=r"SyncVectorEnv is a vector environment.*the open episodes are left"):
        outcome = run()
    assert outcome.whole
    assert outcome.tables["episodes"]["length"].max() <= 12
    known = len(before.tables["episodes"]["step"])
    np.testing.assert_array_equal(outcome.tables["episodes"]["return"][:known], before.tables["episodes"]["return"])


def test_rounds_in_processes_go_on_too(tmp_path: Path) -> None:
    configuration, task = made("CartPole-v1", {"kernel": "xla", "rounds": 3, "steps": 480})
    whole = train_on_host(configuration, task, workers=1)
    manager = CheckpointManager(tmp_path, every=0.0)
    for number in (0, 2):
        train_round(configuration, task, number, manager=manager, stopping=after(20))
    for workers in (2, 1):  # the second time, all are there
        outcome = train_on_host(configuration, task, workers=workers, manager=manager)
        assert outcome.failures == {}
        assert reproducible(outcome.tables) == reproducible(whole.tables)
        assert bits(outcome.policies) == bits(whole.policies)
    assert sorted(manager.jobs()) == ["round-0", "round-1", "round-2"]
    assert not list(tmp_path.glob("*/.lock"))


def test_a_run_killed_with_its_processes_at_work_leaves_nobody_writing(tmp_path: Path) -> None:
    """The run's own process is killed; its workers end by themselves, and what they kept is gone on from."""
    program = tmp_path / "run.py"
    program.write_text(
        textwrap.dedent(
            f"""
            from pathlib import Path
            from srgdqn.adapters.environments import source_of
            from srgdqn.config.configure import configure
            from srgdqn.config.presets import host_preset
            from srgdqn.training.host.rounds import train_on_host
            from srgdqn.runs.checkpoint_manager import CheckpointManager
            from srgdqn.training.host.task import host_task

            source = source_of("CartPole-v1")
            configuration = configure(source.name, defaults=host_preset(source.name), **{long_options()!r})
            train_on_host(
                configuration,
                host_task(configuration, source),
                workers=2,
                manager=CheckpointManager(Path({str(tmp_path)!r}) / "kept", every=0.05),
            )
            """
        )
    )
    kept = tmp_path / "kept"
    process = subprocess.Popen([sys.executable, str(program)])
    try:
        wait_for(lambda: all(list(kept.glob(f"round-{number}/*.checkpoint")) for number in range(2)))
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    for number in range(2):
        with round_checkpoints(CheckpointManager(kept), number) as job:
            assert job is not None  # within its patience, nobody holds it any more
    newest = [max(CheckpointFolder(kept / f"round-{number}").numbers()) for number in range(2)]
    time.sleep(0.3)
    assert newest == [max(CheckpointFolder(kept / f"round-{number}").numbers()) for number in range(2)]
    configuration, task = made("CartPole-v1", long_options())
    whole = train_on_host(configuration, task, workers=1)
    outcome = train_on_host(configuration, task, workers=2, manager=CheckpointManager(kept))
    assert reproducible(outcome.tables) == reproducible(whole.tables)
    assert bits(outcome.policies) == bits(whole.policies)


def long_options() -> dict[str, Any]:
    return {**SMALL, "kernel": "xla", "rounds": 2, "steps": 8_000, "window": 1_000}


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.05)


def test_a_lock_that_leads_elsewhere_is_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kept" / "round-0").mkdir(parents=True)
    (tmp_path / "kept" / "round-0" / ".lock").symlink_to(tmp_path / "elsewhere")
    with round_checkpoints(CheckpointManager(tmp_path / "kept"), 0) as job:
        assert job is None
    assert "no checkpoint could be made" in capsys.readouterr().err
    assert not (tmp_path / "elsewhere").exists()


def test_the_end_of_a_round_is_kept_before_it_may_be_anybody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However seldom it is kept otherwise."""
    left: list[list[int]] = []

    @contextlib.contextmanager
    def noticing(folder: Path, *, what: str) -> Iterator[None]:
        with locked(folder, what=what):
            yield
            left.append(CheckpointFolder(folder).numbers())

    monkeypatch.setattr("srgdqn.training.host.rounds.locked", noticing)
    configuration, task = made(*CASES["CartPole, kernel"])
    for _ in range(2):
        assert train_round(configuration, task, 0, manager=CheckpointManager(tmp_path, every=3600.0)).whole
    assert left == [[1], [1]]


def test_a_replay_is_kept_piece_by_piece(tmp_path: Path) -> None:
    """What a checkpoint writes of images is what is new since the one before."""
    configuration, task = made(*CASES["images"])
    manager = CheckpointManager(tmp_path, every=0.0, keep=None)
    train_round(configuration, task, 3, manager=manager, stopping=after(8))
    journal = CheckpointFolder(tmp_path / "round-3", None)
    rows = journal.open(journal.numbers()[-1]).rows()
    frames = sum(len(each["frame"]) for name, _, each in rows if name.startswith("memory.frames."))
    written = sum(path.stat().st_size for path in (tmp_path / "round-3").glob("*.piece"))
    # Every step has one new frame, every episode four, and each is written once.
    assert 64 <= frames <= 64 * 1.5
    assert frames * 36 * 36 <= written <= 1.5 * frames * 36 * 36


def test_the_steps_of_open_episodes_may_take_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    step = 4 + 4 + 4  # bytes: an action, a reward and an environment
    monkeypatch.setattr("srgdqn.runs.untrusted.most_bytes", lambda: 1000 * step)
    kinds = {"action": np.int32, "reward": np.float32, "environment": np.int32}
    steps = OpenSteps(1)
    steps.take("steps", 5, {name: np.zeros(1000, kind) for name, kind in kinds.items()})
    with pytest.raises(InputError, match="its open episodes would take"):
        steps.take("steps", 1005, {name: np.zeros(1, kind) for name, kind in kinds.items()})


@pytest.mark.parametrize(
    "tensors",
    [
        {"began": np.array([4])},
        {"began": np.array([26])},
        {"began": np.array([5, 5])},
        {"began": np.array([5.0])},
        {"began": np.array([5]), "observed": np.zeros((2, 3))},
    ],
)
def test_open_episodes_that_cannot_be_are_refused(tensors: dict[str, np.ndarray]) -> None:
    kinds = {"action": np.int32, "reward": np.float32, "environment": np.int32}
    steps = OpenSteps(1)
    steps.take("steps", 5, {name: np.zeros(20, kind) for name, kind in kinds.items()})
    with pytest.raises(ValueError, match=r"it does not say when|episodes began when|it lacks an observation"):
        steps.restore(tensors)


STEP = st.tuples(st.integers(0, 5), st.integers(-64, 64), st.sampled_from([False] * 30 + [True]), st.integers(0, 2))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(STEP, min_size=4, max_size=4), min_size=1, max_size=80), st.integers(1, 200))
def test_the_open_episodes_of_all_environments_are_there(blocks: list[list[tuple[Any, ...]]], room: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("srgdqn.training.host.steps._FIRST_ROOM", room)
        steps = OpenSteps(3)
        open_: list[list[tuple[int, float]]] = [[], [], []]
        for number, block in enumerate(blocks):
            columns = [list(column) for column in zip(*block, strict=True)]
            steps.write(*(np.array(column) for column in columns))
            for action, reward, ended, environment in block:
                open_[environment] = [] if ended else [*open_[environment], (action, float(reward))]
            if number % 7 == 3:
                tensors, streams = steps.state()
                stream = streams["steps"]
                steps = OpenSteps(3)
                middle = (stream.first + stream.stop) // 2
                for first, stop in ((stream.first, middle), (middle, stream.stop)):
                    rows = {name: column.copy() for name, column in stream.read(first, stop).items()}
                    steps.take("steps", first, rows)
                steps.restore(tensors)
            if number % 11 == 10:
                steps.leave([1])
                open_[1] = []
        for environment in range(3):
            actions, rewards = steps.of(environment)
            assert list(zip(actions.tolist(), rewards.tolist(), strict=True)) == open_[environment]
