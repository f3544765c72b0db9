import dataclasses
import json
import math
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from srgdqn.errors import InputError
from srgdqn.paper.claims import evidence, verdicts
from srgdqn.paper.claims.evidence import Evidence, evidence_of, find_evidence, write_evidence
from srgdqn.paper.claims.verdicts import Judgement, Measured
from srgdqn.paper.report.contents import Table
from srgdqn.results.statistics import Interval
from srgdqn.runs.provenance import VERSIONS


def judgements() -> dict[str, list[Judgement]]:
    told = Measured("reward, δ ≥ 0", Interval(0.1, 0.05, 0.2), 0.01, 0.9, 0.02, verdicts.REWARDS["Pendulum"])
    odd = Measured("steadiness", Interval(math.inf, math.nan, math.nan), 0.5, 0.5, 0.05, verdicts.STEADY)
    wide = Measured("steadiness", Interval(-0.1, -math.inf, math.inf), 0.5, 0.5, 0.05, verdicts.STEADY)
    return {
        "corrected": [Judgement("C1", "holds", (told,)), Judgement("C2", "undecided", (told, odd, wide))],
        "printed": [Judgement("C1", "fails", (told,))],
    }


def made(**changes: object) -> Evidence:
    frame = pl.DataFrame({"task": ["MountainCar", None], "score": [0.25, None], "count": [3, 4]})
    table = Table("scores", "Scores", frame, "A note.")
    given = dict(seed=7, rounds="4 on CartPole", seconds=61.6)
    return evidence_of("confirmation", judgements(), [table], **{**given, **changes})  # type: ignore[arg-type]


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the package's own evidence would be."""
    folder = tmp_path / "released"
    folder.mkdir()
    monkeypatch.setattr(evidence, "resources", SimpleNamespace(files=lambda package: folder))
    return folder


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def test_verdicts_by_the_present_rules_come_back(tmp_path: Path) -> None:
    contrast = verdicts.Measured(
        "steadiness", Interval(0.1, -0.2, math.nan), 0.5, 0.25, 0.05, verdicts.STEADY, "steadiness", "", against=True
    )
    void = dataclasses.replace(contrast, void="an arm has not learned", unit=verdicts.REWARDS["Pendulum"])
    before = verdicts.Judgement("C3", "moot", (contrast, void), ("below random",), 1.0, 0.75, "no contrast is left")
    write_evidence(evidence_of("confirmation", {"mnih": [before]}, seed=1, rounds="2", seconds=3.0), tmp_path)
    after = find_evidence("confirmation", tmp_path)
    assert after is not None
    assert repr(after.judgements) == repr({"mnih": [before]})  # NaN equals nothing


def test_everything_comes_back(tmp_path: Path) -> None:
    before = made()
    file = write_evidence(before, tmp_path)
    assert file == tmp_path / "confirmation.json"
    after = find_evidence("confirmation", tmp_path)
    assert after is not None
    assert after.kind == "confirmation"
    assert after.about == before.about
    assert list(after.judgements) == ["corrected", "printed"]
    for label, expected in before.judgements.items():
        for mine, theirs in zip(after.judgements[label], expected, strict=True):
            assert (mine.name, mine.verdict) == (theirs.name, theirs.verdict)
            for a, b in zip(mine.contrasts, theirs.contrasts, strict=True):
                assert (a.label, a.margin) == (b.label, b.margin)
                assert all(same(x, y) for x, y in zip(a.interval, b.interval, strict=True))
    (table,) = after.tables
    (kept,) = before.tables
    assert (table.name, table.title, table.note) == (kept.name, kept.title, kept.note)
    assert table.frame.equals(kept.frame)


def test_the_file_is_strict_json_that_others_can_read(tmp_path: Path) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    content = json.loads(write_evidence(made(), tmp_path).read_text("utf-8"), parse_constant=refuse)
    odd, wide = content["judgements"]["corrected"][1]["contrasts"][1:]
    assert (odd["estimate"], odd["low"], odd["high"]) == ("inf", None, None)
    assert (wide["low"], wide["high"]) == ("-inf", "inf")


def test_it_is_current_as_long_as_the_rules_are(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made()
    assert found.is_current
    monkeypatch.setitem(VERSIONS, "claims", VERSIONS["claims"] + 1)
    assert not found.is_current
    assert made().is_current


def test_a_results_folder_comes_before_the_package(tmp_path: Path, released: Path) -> None:
    assert find_evidence("confirmation") is None
    assert find_evidence("confirmation", tmp_path) is None
    write_evidence(made(seed=1), released)
    for folder in (None, tmp_path, tmp_path / "nowhere"):
        found = find_evidence("confirmation", folder)
        assert found is not None
        assert found.about["seed"] == 1
    write_evidence(made(seed=2), tmp_path)
    own = find_evidence("confirmation", tmp_path)
    assert own is not None
    assert own.about["seed"] == 2
    assert find_evidence("tuned", tmp_path) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: "{}",
        lambda text: text.replace('"judgements": {', '"judgements": [], "was": {'),
        lambda text: text.replace('"estimate": 0.1', '"estimate": "much"'),
        lambda text: text.replace('"margin"', '"mragin"'),
        lambda text: text.replace('"tables": [', '"tables": [3, '),
    ],
)
def test_a_damaged_file_is_named(damage: object, tmp_path: Path) -> None:
    file = write_evidence(made(), tmp_path)
    whole = file.read_text("utf-8")
    file.write_text(damage(whole), "utf-8")  # type: ignore[operator]
    assert file.read_text("utf-8") != whole
    with pytest.raises(InputError, match=r"confirmation\.json cannot be read \(.*\)\. It is damaged, or of") as caught:
        find_evidence("confirmation", tmp_path)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("kind", ["confirmation"])
def test_what_the_package_is_released_with_was_judged_by_its_own_rules(kind: str) -> None:
    """Whoever changes what decides has to judge anew."""
    released = find_evidence(kind)
    assert released is not None
    assert released.is_current
