"""A computation's version is raised when its bits change, and stays as long as they do."""

import dataclasses
import json
from types import ModuleType

import pytest

import golden_bits
from golden_bits import (
    COMPUTATIONS,
    EVERYWHERE,
    bits_of,
    kind_of_machine,
    only_elsewhere,
    problem,
    recorded,
    with_record,
)
from srgdqn.paper import confirmation
from srgdqn.paper.claims import cases, verdicts
from srgdqn.paper.studies import dose_response, figure_1, figure_3_right
from srgdqn.runs.provenance import VERSIONS, version_of

ENTRIES = json.loads(golden_bits.FILE.read_text("utf-8"))


@pytest.fixture(scope="module")
def judgements() -> list[bytes]:
    return list(golden_bits.judgements())


@pytest.fixture(scope="module")
def what_is_run() -> list[bytes]:
    return list(golden_bits.what_is_run_for_verdicts())


def test_every_computation_that_has_a_version_has_golden_bits_and_no_other_has() -> None:
    assert COMPUTATIONS.keys() == VERSIONS.keys()


@pytest.mark.parametrize("computation", COMPUTATIONS)
def test_bits_are_those_of_the_version(computation: str) -> None:
    known = recorded(computation, ENTRIES, kind_of_machine())
    if known is None or only_elsewhere(computation, ENTRIES, kind_of_machine()):
        pytest.skip("golden bits were recorded on other kinds of machines, or with other versions of packages")
    assert problem(computation, known, bits_of(computation)) is None


def test_other_bits_ask_for_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"host 1, training 1": "a"}
    assert problem("host", known, "a") is None
    assert "raise VERSIONS['host']" in str(problem("host", known, "b"))
    for raised in ("host", "training"):
        with monkeypatch.context() as patched:
            patched.setitem(VERSIONS, raised, 2)
            assert "has no golden bits" in str(problem("host", known, "b"))


def test_recording_refuses_other_bits_of_the_same_version(monkeypatch: pytest.MonkeyPatch) -> None:
    here, elsewhere = {"machine": "here"}, {"machine": "elsewhere"}
    first, refused = with_record([], here, {"host": "a", "claims": "b"})
    assert refused == []
    assert first == [
        {"kind": here, "bits": {"host 1, training 1": "a"}},
        {"kind": "everywhere", "bits": {version_of("claims"): "b"}},
    ]
    assert with_record(first, here, {"host": "a", "claims": "b"}) == (first, [])
    again, refused = with_record(first, here, {"host": "other", "claims": "b"})
    assert again == first
    assert len(refused) == 1
    assert "Raise VERSIONS['host'] first" in refused[0]
    assert with_record(first, elsewhere, {"host": "other"})[1] == []  # another machine has bits of its own
    monkeypatch.setitem(VERSIONS, "host", 2)
    raised, refused = with_record(first, here, {"host": "other"})
    assert refused == []
    assert raised[0]["bits"] == {"host 2, training 1": "other"}


def test_a_version_may_be_recorded_on_other_kinds_of_machines_only() -> None:
    entries = [
        {"kind": {"machine": "here"}, "bits": {"training 1": "a"}},
        {"kind": {}, "bits": {version_of("host"): "b"}},
    ]
    assert only_elsewhere("host", entries, {"machine": "here"})
    assert not only_elsewhere("training", entries, {"machine": "here"})
    assert not only_elsewhere("host", entries, {})
    assert not only_elsewhere("measurement.anchors", entries, {"machine": "here"})  # nowhere at all: a problem


def test_verdicts_are_not_current_once_something_is_measured_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    first = next(iter(COMPUTATIONS["claims"]()))
    monkeypatch.setitem(VERSIONS, "measurement.anchors", VERSIONS["measurement.anchors"] + 1)
    assert next(iter(COMPUTATIONS["claims"]())) != first


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (verdicts, "ERROR_RATE", 1e-6),
        (verdicts, "RESAMPLES", 9_999),
        (verdicts, "GAP", 1.0),
        (verdicts, "MOST_DIVERGED", -1.0),
        (verdicts, "FEWEST_COMMON", 61),
        (cases, "MARGINS", dict.fromkeys(cases.MARGINS, 0.1)),
        (cases, "LOG_MARGIN", 0.1),
        (cases, "REASON", 0.06),
        (cases, "FEWEST_THERE", 1.1),
        (cases, "FEWEST_DOSES", 10),
    ],
)
def test_whatever_decides_verdicts_is_among_the_golden_bits_of_claims(
    module: ModuleType, name: str, value: object, judgements: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value)
    assert list(golden_bits.judgements()) != judgements


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (confirmation, "CONFIRMATION", dataclasses.replace(confirmation.CONFIRMATION, seed=1)),
        (confirmation, "ARMS", confirmation.ARMS[1:]),
        (figure_1, "_EVALUATIONS", 10),
        (figure_3_right, "_FIRST", 0.05),
        (dose_response, "_ERROR_MOMENTS", 5),
    ],
)
def test_what_is_run_for_verdicts_is_among_the_golden_bits_of_claims(
    module: ModuleType, name: str, value: object, what_is_run: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value)
    assert list(golden_bits.what_is_run_for_verdicts()) != what_is_run


@pytest.mark.parametrize("name", VERSIONS)
def test_what_is_recorded_everywhere_is_free_of_training(name: str) -> None:
    assert ("training" in version_of(name)) == (name not in EVERYWHERE)
