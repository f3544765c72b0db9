"""Rounds that are stopped, killed or damaged on their way, and go on: the same bits as rounds that never were."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import shutil
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srgdqn.config import Configuration
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.checkpoints import CheckpointFolder
from srgdqn.tasks import Task
from srgdqn.training import Progress, Trained, train_rounds, train_side_by_side
from srgdqn.training.lanes import LaneRounds
from srgdqn.training.loop import configuration_digest
from srgdqn.training.reports import RoundReport
from tiny import LANES, bits, reproducible, tiny

CASES: dict[str, dict[str, Any]] = {
    # Chunks of four lanes are filled by three chunks, or by one; the last block of the budget is not whole.
    "steps, a target": dict(rounds=9, steps=200, target="hard", target_period=3, evaluation_interval=64),
    "episodes on several chunks": dict(rounds=10, episodes=14, evaluation_interval=60),
    "outer iterations, normalised": dict(rounds=3, outer_iterations=9, normalise_observations=True),
    "STORM, several to a block": dict(
        algorithm="dqn-storm",
        rounds=9,
        steps=200,
        gradient_steps=3,
        target="hard",
        target_period=4,
        evaluation_interval=64,
    ),
    "scaled": dict(rounds=9, steps=200, scale_observations=True, evaluation_interval=64),
    "divergence on several chunks": dict(rounds=12, steps=250, eta=0.3, time_limit=None, evaluation_interval=96),
}


_RECORDS = {f"records.{name}" for name in ("curves", "episodes", "evaluations", "timings")}


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of three blocks, so that rows of tables are kept as such, and not as what is logged. No power is cut."""
    monkeypatch.setattr("srgdqn.training.recorder.PAGE_STEPS", 48)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@functools.cache
def made(case: str, kernel: str) -> tuple[Configuration, Task]:
    return tiny(**CASES[case], kernel=kernel)


@functools.cache
def uninterrupted(case: str, kernel: str) -> Trained:
    trained = train_rounds(*made(case, kernel))
    assert not trained.interrupted
    return trained


def same(one: Trained, other: Trained) -> bool:
    return reproducible(one.tables) == reproducible(other.tables) and bits(one.policies) == bits(other.policies)


class Killed(BaseException):
    """Stands for the end of a process: nothing is kept that was not kept before."""


class Cut:
    """A listener by which a run ends after so many reports."""

    def __init__(self, after: int, *, kill: bool = False) -> None:
        self.after, self.kill, self.heard = after, kill, 0
        self.stop = threading.Event()

    def __call__(self, progress: Progress) -> None:
        self.heard += 1
        if self.heard == self.after:
            if self.kill:
                raise Killed
            self.stop.set()


def train_until(
    run: tuple[Configuration, Task], manager: CheckpointManager, after: int, **engine: Any
) -> Trained | None:
    """What was reached after so many reports; None if it was killed then."""
    cut = Cut(after, kill=engine.pop("kill", False))
    try:
        return train_rounds(*run, listener=cut, stop=cut.stop, manager=manager, **engine)
    except Killed:
        return None


ENGINES = {
    "xla": (dict(segment_blocks=2, workers=1), dict(segment_blocks=3, workers=2)),
    "native": (dict(segment_blocks=3, workers=2), dict(segment_blocks=1, workers=1)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_may_be_stopped_after_any_segment(case: str, each_kernel: str, tmp_path: Path) -> None:
    """Resumed by other numbers of threads, in other segments."""
    run, whole = made(case, each_kernel), uninterrupted(case, each_kernel)
    before, after = ENGINES[each_kernel]
    for count in itertools.count(1, 2):
        manager = CheckpointManager(tmp_path / str(count), every=0.0)
        reached = train_until(run, manager, count, **before)
        assert reached is not None
        if not reached.interrupted:
            break
        assert reached.tables["rounds"]["steps"].sum() <= whole.tables["rounds"]["steps"].sum()
        trained = train_rounds(*run, manager=manager, **after)
        assert not trained.interrupted
        assert same(trained, whole)
    assert count > 3


@pytest.mark.parametrize("case", CASES)
def test_a_run_may_be_killed_again_and_again(case: str, each_kernel: str, tmp_path: Path) -> None:
    """Each time two segments come to their end, of which the first is kept."""
    run, whole = made(case, each_kernel), uninterrupted(case, each_kernel)
    manager = CheckpointManager(tmp_path, every=0.0, keep=1)
    for turn in range(60):
        trained = train_until(run, manager, 2, kill=True, segment_blocks=1 + turn % 3, workers=1)
        if trained is not None:
            break
    assert turn > 4
    assert trained is not None
    assert same(trained, whole)


def test_checkpoints_change_no_bit_and_are_timed(tmp_path: Path) -> None:
    case = "episodes on several chunks"
    trained = train_rounds(
        *made(case, "xla"), segment_blocks=1, workers=2, manager=CheckpointManager(tmp_path, every=0.0)
    )
    assert same(trained, uninterrupted(case, "xla"))
    timings = trained.tables["timings"]
    kept = timings["phase"] == "checkpoint"
    assert kept.sum() > 4
    assert (timings["seconds"][kept] > 0).all()
    assert set(timings["step"][kept]) <= set(timings["step"][timings["phase"] == "train"])


def test_timings_of_before_are_stored_too(tmp_path: Path) -> None:
    case = "steps, a target"
    run, manager = made(case, "xla"), CheckpointManager(tmp_path, every=0.0)
    before = train_until(run, manager, 3, segment_blocks=2, workers=1)
    assert before is not None
    trained = train_rounds(*run, segment_blocks=2, workers=1, manager=manager)
    for name in ("phase", "step", "seconds"):
        rows = len(before.tables["timings"][name]) - 1  # of the last checkpoint nobody knew what it would take
        assert trained.tables["timings"][name][:rows].tolist() == before.tables["timings"][name][:rows].tolist()
    trains = trained.tables["timings"]["phase"] == "train"
    assert trained.tables["timings"]["step"][trains].tolist() == [32, 64, 96, 128, 160, 192, 208]


def test_a_run_stopped_at_once_has_what_its_checkpoints_have(tmp_path: Path) -> None:
    case = "steps, a target"
    manager = CheckpointManager(tmp_path)
    before = train_until(made(case, "xla"), manager, 2, segment_blocks=2, workers=1)
    stop = threading.Event()
    stop.set()
    again = train_rounds(*made(case, "xla"), manager=manager, stop=stop)
    assert before is not None
    assert again.interrupted
    assert same(before, again)
    assert again.tables["rounds"]["steps"].tolist() == [64] * 9


def test_a_run_that_had_come_to_its_end_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = "divergence on several chunks"
    whole = uninterrupted(case, "xla")
    manager = CheckpointManager(tmp_path)
    train_rounds(*made(case, "xla"), manager=manager, workers=1)
    assert manager.jobs() == []  # there was no need to keep its end
    first = CheckpointManager(tmp_path, every=0.0)
    train_rounds(*made(case, "xla"), manager=first, workers=1)
    [name] = first.jobs()
    newest = CheckpointFolder(tmp_path / name).open(CheckpointFolder(tmp_path / name).numbers()[-1])
    assert newest.about["last"] is True
    assert set(newest.spans) == _RECORDS  # nobody needs its replay any more
    monkeypatch.setattr("srgdqn.training.job.train", None)
    heard: list[Progress] = []
    trained = train_rounds(*made(case, "xla"), manager=CheckpointManager(tmp_path), listener=heard.append)
    assert not trained.interrupted
    assert same(trained, whole)
    diverged = np.ma.count(trained.tables["rounds"]["diverged_at"])
    assert LANES < diverged < 12
    assert [(each.share, each.steps, each.diverged, each.ended) for each in heard] == [(1.0, 0, diverged, True)]


@pytest.mark.parametrize("pattern", ["*.checkpoint", "*.replay.piece", "*.rows.piece"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    pattern: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = "steps, a target"
    manager = CheckpointManager(tmp_path, every=0.0)
    train_until(made(case, "xla"), manager, 9, segment_blocks=1, workers=1)
    for name in manager.jobs():
        newest = sorted((tmp_path / name).glob(pattern))[-1]
        data = bytearray(newest.read_bytes())
        data[-1] ^= 1
        newest.write_bytes(data)
    trained = train_rounds(*made(case, "xla"), manager=manager, workers=2)
    told = capsys.readouterr().err
    assert told.startswith("warning: the checkpoint ")
    assert " cannot be used: " in told
    assert ": it is damaged, as its digest is not that of its content" in told
    assert same(trained, uninterrupted(case, "xla"))


def test_a_job_of_which_nothing_is_left_is_warned_of_though_its_rounds_go_to_other_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = "steps, a target"
    manager = CheckpointManager(tmp_path, every=0.0)
    stop = threading.Event()

    def until_both_are_checkpointed(progress: Any) -> None:
        if len(manager.jobs()) == 2:
            stop.set()

    how: dict[str, Any] = {"segment_blocks": 1, "workers": 2, "stop": stop, "listener": until_both_are_checkpointed}
    train_rounds(*made(case, "xla"), manager=manager, **how)
    first, _ = manager.jobs()
    damaged = sorted((tmp_path / first).glob("*.checkpoint"))
    for file in damaged:
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    trained = train_rounds(*made(case, "xla"), manager=CheckpointManager(tmp_path, every=0.0), workers=3)
    told = capsys.readouterr().err
    assert all(told.count(f"the checkpoint {file} cannot be used: ") == 1 for file in damaged)
    assert same(trained, uninterrupted(case, "xla"))


def test_the_rounds_of_another_configuration_are_not_resumed(tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path, every=0.0)
    for seed in range(2):
        train_until(tiny(rounds=3, seed=seed), manager, 2, segment_blocks=2)
    other = tiny(rounds=3, seed=2)
    assert same(train_rounds(*other, manager=manager), train_rounds(*other))
    assert len(manager.jobs()) == 3
    assert {name.rpartition("-")[2] for name in manager.jobs()} == {
        configuration_digest(tiny(rounds=3, seed=seed)[0]) for seed in range(3)
    }


def test_what_instruments_record_is_not_checkpointed(tmp_path: Path) -> None:
    from srgdqn.training.lane import Instruments

    for recording in (Instruments(blocks_kept=20), Instruments(probe=lambda learner, trace: learner.parameters)):
        with pytest.raises(ValueError, match="what a study records in the loop cannot be checkpointed"):
            train_rounds(*tiny(), manager=CheckpointManager(tmp_path), instruments=recording)


def test_an_error_stores_the_ends_of_others(tmp_path: Path) -> None:
    """One chunk after the other: the first has come to its end when the second breaks."""
    run = tiny(rounds=18, steps=192)
    ends = 0

    def broken(progress: Progress) -> None:
        nonlocal ends
        ends += progress.ended
        if ends and not progress.ended:
            raise ArithmeticError("a mistake in the program")

    with pytest.raises(ArithmeticError):
        train_rounds(*run, listener=broken, manager=CheckpointManager(tmp_path), workers=1, segment_blocks=2)
    assert len(CheckpointManager(tmp_path).jobs()) == 1
    steps = 0

    def count(progress: Progress) -> None:
        nonlocal steps
        steps += progress.steps

    assert same(train_rounds(*run, manager=CheckpointManager(tmp_path), listener=count), train_rounds(*run))
    assert steps == 2 * 192  # of the 18 rounds, 16 were done


# Several configurations


ETAS = (0.01, 0.02, 0.03, 0.04)


def cells(*etas: float) -> list[Configuration]:
    return [tiny(rounds=6, eta=eta)[0] for eta in etas]


@functools.cache
def alone(eta: float) -> Trained:
    return train_rounds(*tiny(rounds=6, eta=eta))


def side_by_side(etas: tuple[float, ...], manager: CheckpointManager, **engine: Any) -> Iterator[tuple[float, Trained]]:
    for place, trained in train_side_by_side(cells(*etas), tiny()[1], manager=manager, **engine):
        yield etas[place], trained


def swept_until_some_are_finished(folder: Path) -> set[float]:
    """Ends a sweep of four cells of six rounds, whose chunks have sixteen seats, once the first two are finished: in
    the first segment of the second chunk, after the seven of the first.
    """
    cut, finished = Cut(8), set()
    manager = CheckpointManager(folder, every=0.0)
    for eta, trained in side_by_side(ETAS, manager, workers=1, stop=cut.stop, listener=cut, segment_blocks=2):
        if not trained.interrupted:
            assert same(trained, alone(eta))
            finished.add(eta)
    assert finished == {0.01, 0.02}
    return finished


def test_finished_cells_are_not_trained_twice(tmp_path: Path) -> None:
    """The chunk in which the third cell begins has come to its end, and has rounds of cells that nobody asks for."""
    finished = swept_until_some_are_finished(tmp_path)
    left = tuple(eta for eta in ETAS if eta not in finished)
    steps = 0

    def count(progress: Progress) -> None:
        nonlocal steps
        steps += progress.steps

    found = dict(side_by_side(left, CheckpointManager(tmp_path), listener=count))
    assert all(same(found[eta], alone(eta)) for eta in left)
    assert 0 < steps <= 8 * 208  # four rounds of the third cell were done


@pytest.mark.parametrize("damage", ["the end", "everything"])
def test_a_chunk_whose_end_is_damaged_is_trained_for_those_who_ask(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkpoint before its end has rounds on the way that nobody asks for: it does not serve."""
    original = tmp_path / "original"
    finished = swept_until_some_are_finished(original)
    left = tuple(eta for eta in ETAS if eta not in finished)
    for folder in original.iterdir():
        for piece in sorted(folder.glob("*.rows.piece"))[-1 if damage == "the end" else 0 :]:
            piece.write_bytes(piece.read_bytes()[:-1])
    for engine in (dict(workers=1), dict(workers=2, segment_blocks=1)):
        copy = tmp_path / f"by {engine['workers']}"
        shutil.copytree(original, copy)
        found = dict(side_by_side(left, CheckpointManager(copy, every=0.0), **engine))
        assert all(same(found[eta], alone(eta)) for eta in left)
        # And what that left behind is as good.
        found = dict(side_by_side(left, CheckpointManager(copy, every=0.0), **engine))
        assert all(same(found[eta], alone(eta)) for eta in left)
    assert "cannot be used" in capsys.readouterr().err


def test_what_is_trained_in_the_place_of_a_damaged_chunk_is_resumed_too(tmp_path: Path) -> None:
    """It has fewer seats than the chunk that its job was begun for."""
    finished = swept_until_some_are_finished(tmp_path)
    left = tuple(eta for eta in ETAS if eta not in finished)
    damaged, *begun = sorted(tmp_path.iterdir(), key=lambda job: -max(CheckpointFolder(job).numbers()))
    for other in begun:
        shutil.rmtree(other)
    [*_, piece] = sorted(damaged.glob("*.rows.piece"))
    piece.write_bytes(piece.read_bytes()[:-1])
    cut = Cut(5)
    dict(side_by_side(left, CheckpointManager(tmp_path), workers=1, stop=cut.stop, listener=cut, segment_blocks=2))
    steps = 0

    def count(progress: Progress) -> None:
        nonlocal steps
        steps += progress.steps

    found = dict(side_by_side(left, CheckpointManager(tmp_path), listener=count))
    assert all(same(found[eta], alone(eta)) for eta in left)
    assert steps == 12 * 208 - 4 * 5 * 32  # of the twelve rounds, four had trained five segments of two blocks


def test_a_grid_may_grow_while_it_is_unfinished(tmp_path: Path) -> None:
    stop = threading.Event()
    cut = Cut(3)
    dict(side_by_side(ETAS[:2], CheckpointManager(tmp_path), workers=1, stop=cut.stop, listener=cut, segment_blocks=2))
    before = CheckpointManager(tmp_path).jobs()
    assert before
    found = dict(side_by_side(ETAS, CheckpointManager(tmp_path, every=0.0), workers=2, stop=stop))
    assert all(same(found[eta], alone(eta)) for eta in ETAS)
    assert set(before) < set(CheckpointManager(tmp_path).jobs())


# Progress and reports


@pytest.mark.parametrize("case", ["episodes on several chunks", "divergence on several chunks"])
def test_shares_grow_from_where_they_were(case: str, tmp_path: Path) -> None:
    run, manager = made(case, "xla"), CheckpointManager(tmp_path, every=0.0)
    heard: list[list[Progress]] = []
    for turn in range(40):
        heard.append([])
        cut = Cut(3)

        def listen(progress: Progress, cut: Cut = cut, turn: int = turn) -> None:
            heard[turn].append(progress)
            cut(progress)

        trained = train_rounds(*run, listener=listen, stop=cut.stop, manager=manager, segment_blocks=1, workers=1)
        if not trained.interrupted:
            break
    assert turn > 2
    shares = [progress.share for each in heard for progress in each]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert 0 <= shares[0] < 0.2
    assert len(set(shares)) > 6
    told: list[Progress] = []
    train_rounds(*run, listener=told.append)
    assert sum(progress.steps for each in heard for progress in each) == sum(progress.steps for progress in told)


@pytest.mark.parametrize(("case", "after"), [*zip(CASES, itertools.cycle([1, 4, 7]), strict=False)])
def test_reports_continue_from_where_they_were(case: str, after: int, tmp_path: Path) -> None:
    """Counts, and the returns of episodes that were open then, are of the whole round."""
    run, manager = made(case, "xla"), CheckpointManager(tmp_path, every=0.0)
    before = train_until(run, manager, after, segment_blocks=1, workers=1)
    assert before is not None
    heard: dict[int, list[RoundReport]] = defaultdict(list)

    def listen(progress: Progress) -> None:
        for report in progress.reports():
            heard[report.round].append(report)

    trained = train_rounds(*run, listener=listen, manager=manager, segment_blocks=2, workers=1)
    tables = {
        name: {column: np.ma.asarray(values) for column, values in table.items()}
        for name, table in trained.tables.items()
    }
    then = before.tables["rounds"]
    for number, steps in zip(then["round"].tolist(), then["steps"].tolist(), strict=True):
        reports = heard[number]
        rounds, episodes, judged = (
            {column: values[tables[name]["round"] == number] for column, values in tables[name].items()}
            for name in ("rounds", "episodes", "evaluations")
        )
        assert sum(report.steps for report in reports) == rounds["steps"][0] - steps
        if reports:
            last = reports[-1]
            assert last.step == rounds["steps"][0]
            for name in ("episodes", "outer_iterations", "queries", "gradient_evaluations"):
                assert getattr(last, name) == rounds[name][0]
            assert last.diverged_at == (None if rounds["diverged_at"].mask[0] else rounds["diverged_at"][0])
        later = episodes["step"] > steps
        told = np.concatenate([np.zeros(0), *(report.returns for report in reports)])
        assert told.tolist() == episodes["return"][later].tolist()
        lengths = np.concatenate([np.zeros(0, int), *(report.lengths for report in reports)])
        assert lengths.tolist() == episodes["length"][later].tolist()
        known = np.asarray(before.tables["evaluations"].get("round", np.zeros(0))) == number
        told = np.concatenate([np.zeros(0), *(each.returns for r in reports for each in r.evaluations)])
        assert told.tolist() == judged["return"][known.sum() :].tolist()


def test_replays_do_not_wait_in_memory_for_the_end_to_be_written(
    each_kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However seldom that is; the end is whole all the same."""
    rings: list[weakref.ref[np.ndarray]] = []
    on_host = LaneRounds.on_host

    def noting(rounds: LaneRounds) -> Any:
        lanes = on_host(rounds)
        rings.append(weakref.ref(lanes.ring))
        return lanes

    monkeypatch.setattr(LaneRounds, "on_host", noting)
    run = made("steps, a target", each_kernel)
    manager = CheckpointManager(tmp_path, every=3600.0)
    whole = train_rounds(*run, manager=manager, workers=2)
    gc.collect()
    assert rings
    assert not any(ring() is not None for ring in rings)
    assert manager.jobs() == []
    manager.flush()
    assert same(train_rounds(*run, manager=CheckpointManager(tmp_path), workers=2), whole)
