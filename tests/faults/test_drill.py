"""The fault drill at a smaller size; `python tests/faults/drill.py` is the whole of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.platform == "win32":
    pytest.skip("it sends signals that there are not on Windows", allow_module_level=True)

import commands
import damages
import drill
import kills
from workshop import Expected, Workshop, bits_of, differences

SMALL = commands.DAMAGED[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where compiled programs are stored, too."""
    root = tmp_path_factory.mktemp("drill")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SRGDQN_CACHE", str(root / "programs"))
        yield root


@pytest.fixture(scope="module")
def shared(place: Path) -> Workshop:
    """What runs come to undisturbed is found out once."""
    return Workshop(place / "work", show=False)


@pytest.fixture
def workshop(shared: Workshop) -> Workshop:
    shared.problems.clear()
    return shared


def test_runs_that_are_killed_end_with_the_same_bits(workshop: Workshop, kernel: None) -> None:
    found = kills.drill(workshop, (SMALL,), 2, seed=0)
    assert workshop.problems == []
    assert found["kills"] == 2
    assert found["runs"] == found["runs with the same bits"] > 0


def test_damaged_bytes_are_found_or_of_no_consequence(workshop: Workshop, kernel: None) -> None:
    found = damages.drill(workshop, (SMALL,), 6, seed=1)
    assert workshop.problems == []
    assert found["damages"] == 6
    assert found["refused"] + found["told, and made good"] + found["of no consequence"] == 6
    assert found["folders"]["finished: compiled, native"] == {"damages": 3, "refused": 3}
    assert found["folders"]["under way: compiled, native"]["damages"] == 3


def test_what_differs_is_noticed(tmp_path: Path) -> None:
    """A drill that finds nothing must be able to find something."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "curves.parquet").write_bytes(b"the same")
        (tmp_path / name / "timings.parquet").write_bytes(name.encode())
    a, b = tmp_path / "a", tmp_path / "b"
    assert differences(bits_of(a), bits_of(b)) == []
    (b / "parameters.safetensors").write_bytes(b"only here")
    (b / "curves.parquet").write_bytes(b"the sane")
    assert differences(bits_of(a), bits_of(b)) == ["curves.parquet", "parameters.safetensors"]


def test_a_run_that_came_to_something_else_is_a_problem(tmp_path: Path) -> None:
    """And so is a command that fails, or one that leaves its checkpoints."""

    class Ended:
        def said(self) -> str:
            return "error: what was said"

    workshop = Workshop(tmp_path, show=False)
    workshop._expected[SMALL] = expected = Expected({"curves.parquet": "0" * 64}, 1.0)
    place = workshop.place()
    (place / "out").mkdir()
    child: Any = Ended()
    assert not workshop.check("kills", SMALL, place, child, 2)
    assert not workshop.check("kills", SMALL, place, child, 0)
    workshop._expected[SMALL] = expected._replace(bits={})
    assert workshop.check("kills", SMALL, place, child, 0)
    (place / "out.unfinished").mkdir()
    assert not workshop.check("kills", SMALL, place, child, 0)
    problems = [problem["what"].removeprefix("compiled, native: ") for problem in workshop.problems]
    assert problems == [
        "exit code 2 instead of 0",
        "other bits in curves.parquet",
        "what was under way is still there",
    ]


@pytest.mark.drill
def test_the_whole_drill_at_a_smaller_size(tmp_path: Path, place: Path, kernel: None) -> None:
    report = tmp_path / "report.json"
    code = drill.main(["--kills", "24", "--damages", "80", "--interrupts", "2", "--seed", "3", "--report", str(report)])
    assert code == 0, report.read_text()
    found = json.loads(report.read_text())["drills"]
    assert set(found) == set(drill.DRILLS)
    assert found["kills"]["kills"] == 24
    assert found["kills"]["runs"] == found["kills"]["runs with the same bits"]
    assert found["damages"]["WRONG"] == 0
