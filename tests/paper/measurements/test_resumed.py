"""Measurements that are ended in their midst go on from their checkpoints, to the same bits."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import polars as pl
import pytest

from cut_short import CutShort, Killed
from srgdqn.interrupts import StopRequestedError
from srgdqn.paper.cells import Console, MeasurementCell, compute
from srgdqn.paper.measurements import anchors, dose_errors, exact_anchors, gradient_spread
from srgdqn.paper.measurements.parts import Parts
from srgdqn.runs.checkpoint_manager import CheckpointManager, Pace
from srgdqn.runs.measurement import Measured
from srgdqn.runs.provenance import VERSIONS
from srgdqn.runs.snapshots import Snapshot
from tiny import tiny

pytestmark = pytest.mark.usefixtures("double")

ALWAYS, RARELY = 0.0, 3600.0  # seconds between checkpoints
STEPS = (48, 112, 190)
SMALL: dict[str, Any] = {"rounds": 3, "inner_iterations": 8, "reward_scale": 0.5, "eta": 0.01, "alpha": 0.01}
RUN = tiny("srg-dqn", **SMALL)[0]
PLANS: dict[ModuleType, Any] = {
    anchors: anchors.Plan(RUN, STEPS[:2]),
    dose_errors: dose_errors.Plan(tiny("sgd-inner-adam", **SMALL)[0], STEPS[:2], ((0.0, 1), (1.0, 4)), 2),
    gradient_spread: gradient_spread.Plan(RUN, STEPS, window=48, batches=3, picks=2),
}
PARTS = dict.fromkeys(PLANS, 3 * 2) | {gradient_spread: 3}  # rounds and moments, or windows
LONG = pytest.mark.parametrize("module", PLANS, ids=lambda module: module.__name__.rpartition(".")[2])


def cell_of(module: ModuleType, plan: Any = None) -> MeasurementCell:
    return MeasurementCell("cell", module.measure, PLANS[module] if plan is None else plan)


def quiet(share: float) -> None:
    pass


def measured(cell: MeasurementCell, folder: Path, every: float = ALWAYS) -> Measured:
    return cell.compute(quiet, threading.Event(), CheckpointManager(folder, every), "local")


def bits(outcome: Measured) -> dict[str, tuple[pl.Schema, str]]:
    return {name: (table.schema, repr(table.rows())) for name, table in outcome.tables.items()}


class Counted:
    """Counts the parts that are computed, and ends the measurement after so many."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.parts = 0
        self.after: int | None = None
        self.how: Literal["kill", "stop"] = "kill"
        left = Parts.left

        def counting(given: Parts, parts: Any, report: Callable[[float], None], stop: threading.Event) -> Iterator[Any]:
            def reported(share: float) -> None:
                report(share)
                if self.parts == self.after:
                    self.after = None
                    if self.how == "kill":
                        raise Killed
                    stop.set()

            for part in left(given, parts, reported, stop):
                self.parts += 1
                yield part

        patched.setattr(Parts, "left", counting)

    def since(self) -> int:
        """The parts since this was last asked."""
        parts, self.parts = self.parts, 0
        return parts


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


@pytest.fixture(scope="module")
def whole() -> Callable[[ModuleType], dict[str, Any]]:
    """The bits of a measurement that nobody ends, without checkpoints; each is made once."""
    found: dict[ModuleType, dict[str, Any]] = {}

    def of(module: ModuleType) -> dict[str, Any]:
        if module not in found:
            found[module] = bits(cell_of(module).compute(quiet, threading.Event(), None, "local"))
        return found[module]

    return of


@LONG
def test_a_measurement_that_is_killed_goes_on(
    module: ModuleType, whole: Callable[..., Any], counted: Counted, tmp_path: Path
) -> None:
    """Twice, and the second time after a part of its own."""
    expected = whole(module)
    counted.since()
    counted.after = 2
    with pytest.raises(Killed):
        measured(cell_of(module), tmp_path)
    assert counted.since() == 2  # of which the second was being reported, and is not stored
    counted.after = 2
    with pytest.raises(Killed):
        measured(cell_of(module), tmp_path)
    assert counted.since() == 2
    assert bits(measured(cell_of(module), tmp_path)) == expected
    assert counted.since() == PARTS[module] - 2


@LONG
def test_a_measurement_that_is_told_to_stop_goes_on(
    module: ModuleType, whole: Callable[..., Any], counted: Counted, tmp_path: Path
) -> None:
    """It is checkpointed then, however rarely it is otherwise."""
    expected = whole(module)
    counted.since()
    counted.after, counted.how = 2, "stop"
    with pytest.raises(StopRequestedError):
        measured(cell_of(module), tmp_path, RARELY)
    assert counted.since() == 2
    assert bits(measured(cell_of(module), tmp_path, RARELY)) == expected
    assert counted.since() == PARTS[module] - 2
    # Its end is stored as well, should its tables not be saved.
    assert bits(measured(cell_of(module), tmp_path, RARELY)) == expected
    assert counted.since() == 0


def test_a_measurement_that_is_seldom_checkpointed_begins_anew_when_killed(counted: Counted, tmp_path: Path) -> None:
    counted.after = 4
    with pytest.raises(Killed):
        measured(cell_of(anchors), tmp_path, RARELY)
    assert list(tmp_path.rglob("*.checkpoint")) == []
    counted.since()
    measured(cell_of(anchors), tmp_path)
    assert counted.since() == PARTS[anchors]


def killed_after_four(counted: Counted, folder: Path) -> list[Path]:
    """The two checkpoints that are left: after two and after three parts."""
    counted.since()
    counted.after = 4
    with pytest.raises(Killed):
        measured(cell_of(anchors), folder)
    counted.since()
    found = sorted(folder.rglob("*.checkpoint"))
    assert len(found) == 2
    return found


@pytest.mark.parametrize("damaged", [1, 2])
def test_a_damaged_checkpoint_is_told_and_its_parts_are_computed_again(
    damaged: int, whole: Callable[..., Any], counted: Counted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = whole(anchors)
    checkpoints = killed_after_four(counted, tmp_path)
    for path in checkpoints[-damaged:]:
        data = bytearray(path.read_bytes())
        data[-100] ^= 1
        path.write_bytes(data)
    assert bits(measured(cell_of(anchors), tmp_path)) == expected
    assert counted.since() == {1: 4, 2: 6}[damaged]
    told = capsys.readouterr().err
    assert told.count("cannot be used") == damaged
    assert str(checkpoints[-1]) in told


def test_another_plan_in_the_same_folder_begins_anew(
    counted: Counted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed_after_four(counted, tmp_path)
    other = dataclasses.replace(PLANS[anchors], steps=STEPS[1:])
    found = measured(cell_of(anchors, other), tmp_path)
    assert counted.since() == PARTS[anchors]
    assert found.tables["anatomy"]["step"].unique().sort().to_list() == [112, 192]
    assert capsys.readouterr().err == ""
    measured(cell_of(anchors), tmp_path)  # whose checkpoints are where they were
    assert counted.since() == PARTS[anchors] - 3


def test_checkpoints_of_another_version_are_not_used_and_told(
    counted: Counted, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_after_four(counted, tmp_path)
    monkeypatch.setitem(VERSIONS, "measurement.anchors", 7)
    measured(cell_of(anchors), tmp_path)
    assert counted.since() == PARTS[anchors]
    assert "it was made by another version" in capsys.readouterr().err


def test_checkpoints_are_removed_once_the_cell_is_saved(
    whole: Callable[..., Any], counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, cell = whole(anchors), cell_of(anchors)
    monkeypatch.setattr("srgdqn.engines.executor.usable_cores", lambda: 1)
    counted.since()
    counted.after = 4
    with pytest.raises(Killed):
        compute([cell], tmp_path, Console(pace=Pace(ALWAYS)))
    assert os.listdir(tmp_path) == ["unfinished"]
    assert os.listdir(tmp_path / "unfinished") == ["cell"]
    counted.since()
    assert bits(compute([cell], tmp_path)["cell"]) == expected
    assert counted.since() == PARTS[anchors] - 3
    assert os.listdir(tmp_path) == ["cell"]


# Tables that a stranger may have put into a checkpoint

SCHEMAS = {"squares": {"number": int, "square": int}}


@pytest.mark.parametrize(
    ("about", "schemas", "said"),
    [
        ({"parts": 1}, {"squares": {"number": int, "square": float}}, "it has other tables"),
        ({"parts": 1}, {**SCHEMAS, "cubes": {"number": int}}, "it has other tables"),
        ({"parts": 0}, SCHEMAS, "does not say how far it is"),
        ({"parts": "one"}, SCHEMAS, "does not say how far it is"),
        ({}, SCHEMAS, "does not say how far it is"),
    ],
)
def test_a_checkpoint_that_is_none_of_its_own_is_told(
    about: dict[str, Any], schemas: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manager = CheckpointManager(tmp_path, ALWAYS)
    tensors = Parts(None, schemas)._snapshot().tensors
    manager.job("parts").save(Snapshot(about, tensors, {}))
    parts = Parts(manager, SCHEMAS)
    assert said in capsys.readouterr().err
    assert list(parts.left([3, 4], quiet, threading.Event())) == [3, 4]


# Exact anchors: an arm is checkpointed in the midst of training

EXACT = tiny("svr-dqn-no-adam", **SMALL, steps=128, evaluation_interval=32)[0]
ARMS = {exact_anchors.Plan(EXACT): 2, exact_anchors.SampledPlan(EXACT, rows=50): 1}
ARM_STEPS = 3 * 128


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> CutShort:
    return CutShort(monkeypatch, "srgdqn.paper.measurements.exact_anchors.train_rounds")


@pytest.mark.parametrize("plan", ARMS, ids=["all rows", "sampled"])
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_exact_anchors_go_on(plan: Any, how: Any, cut: CutShort, tmp_path: Path) -> None:
    cell = cell_of(exact_anchors, plan)
    expected = bits(cell.compute(quiet, threading.Event(), None, "local"))
    everything = cut.counted()
    assert everything >= ARMS[plan] * ARM_STEPS
    cut.after, cut.how = 3, how  # of four segments of the first arm
    with pytest.raises((Killed, StopRequestedError)):
        measured(cell, tmp_path, ALWAYS if how == "kill" else RARELY)
    assert cut.counted() == ARM_STEPS * 3 // 4
    assert bits(measured(cell, tmp_path, RARELY)) == expected
    # The third segment was being reported when the process was killed, and is not stored.
    assert cut.counted() == everything - ARM_STEPS * (2 if how == "kill" else 3) // 4


def test_an_arm_that_is_done_is_not_trained_again(cut: CutShort, tmp_path: Path) -> None:
    plan = exact_anchors.Plan(EXACT)
    expected = bits(cell_of(exact_anchors, plan).compute(quiet, threading.Event(), None, "local"))
    cut.counted()
    cut.after = 5  # the first segment of the second arm
    with pytest.raises(Killed):
        measured(cell_of(exact_anchors, plan), tmp_path, RARELY)
    cut.counted()
    assert bits(measured(cell_of(exact_anchors, plan), tmp_path, RARELY)) == expected
    assert cut.counted() == ARM_STEPS


def test_a_sample_of_another_size_trains_its_arm_anew(cut: CutShort, tmp_path: Path) -> None:
    """The configuration, which training's own checkpoints are known by, is the same."""
    cut.after = 3
    with pytest.raises(Killed):
        measured(cell_of(exact_anchors, exact_anchors.SampledPlan(EXACT, rows=50)), tmp_path)
    cell = cell_of(exact_anchors, exact_anchors.SampledPlan(EXACT, rows=40))
    cut.counted()
    found = bits(measured(cell, tmp_path))
    steps = cut.counted()
    assert found == bits(cell.compute(quiet, threading.Event(), None, "local"))
    assert steps == cut.counted()
