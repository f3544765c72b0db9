"""The hash of what decides: any edit of it shows, and nothing that is run in judging is left out."""

import dataclasses
import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import srgdqn
from srgdqn.paper.claims import contrasts, digest, judge
from srgdqn.paper.claims.digest import claims_digest
from srgdqn.paper.studies.scale import CONFIRMATORY
from synthetic_outcomes import PILOT, world

ROOT = Path(srgdqn.__file__).parent
FILES = [(package, name) for package, names in digest._FILES.items() for name in names]


def fresh() -> str:
    return claims_digest.__wrapped__()


def test_it_is_sixteen_digits_and_stays() -> None:
    assert fresh() == fresh() == claims_digest()
    assert len(claims_digest()) == 16
    assert int(claims_digest(), 16) >= 0


@pytest.mark.parametrize(("package", "name"), FILES)
def test_it_changes_with_every_file_that_decides(
    package: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fresh()
    real = digest.resources.files
    source = real(package)

    class Edited:
        def joinpath(self, asked: str) -> Any:
            if asked != name:
                return source.joinpath(asked)
            copy = tmp_path / asked
            copy.write_bytes(source.joinpath(asked).read_bytes() + b" ")
            return copy

    monkeypatch.setattr(digest.resources, "files", lambda given: Edited() if given == package else real(given))
    assert fresh() != before
    monkeypatch.undo()
    assert fresh() == before


@pytest.mark.parametrize("statistic", digest._STATISTICS, ids=lambda each: f"{each.__module__}.{each.__qualname__}")
def test_it_changes_with_every_statistic_of_a_study(statistic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = fresh(), inspect.getsource
    monkeypatch.setattr(inspect, "getsource", lambda given: real(given) + (" " if given is statistic else ""))
    assert fresh() != before


def test_it_changes_with_the_confirmatory_rounds_and_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {fresh()}
    for change in ({"seed": 1}, {"rounds": {"MountainCar": 401}}, {"spread_rounds": 7}):
        monkeypatch.setattr(digest, "CONFIRMATORY", dataclasses.replace(CONFIRMATORY, **change))
        found.add(fresh())
    assert len(found) == 4


def test_everything_that_is_run_in_judging_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever of the package is called between outcomes and verdicts stands in a hashed file or statistic.

    Apart from those that read a table out of a result or name a cell, which decide nothing.
    """
    monkeypatch.setattr(contrasts, "RESAMPLES", 3)
    outcomes, called = world(True, rounds=4), set()

    def notice(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            called.add((Path(code.co_filename).relative_to(ROOT).as_posix(), code.co_qualname, code.co_firstlineno))

    sys.setprofile(notice)
    try:
        judge(outcomes, "corrected", PILOT)
    finally:
        sys.setprofile(None)
    whole = {"/".join((*package.split(".")[1:], name)) for package, name in FILES}
    parts: dict[str, list[range]] = {}
    for statistic in digest._STATISTICS:
        lines, first = inspect.getsourcelines(statistic)
        path = Path(inspect.getfile(statistic)).relative_to(ROOT).as_posix()
        parts.setdefault(path, []).append(range(first, first + len(lines)))
    tables = {"Result._recorded", "Result.configuration", "Result.curves", "Result.episodes", "Result.rounds"}
    harmless = {"cell_name", "times_cell", *tables}
    left_out = {
        (path, name)
        for path, name, line in called
        if path not in whole and not any(line in span for span in parts.get(path, ())) and name not in harmless
    }
    assert left_out == set()
    assert len(called) > 40
