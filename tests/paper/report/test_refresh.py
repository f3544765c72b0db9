"""The report in the documentation."""

import importlib
from pathlib import Path

import pytest

from synthetic_report import synthetic_report

DOCS = Path(__file__).parents[3] / "docs"


def test_the_readme_has_one_place_for_the_result() -> None:
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert [text.count(mark) for mark in ("<!-- result -->", "<!-- end of result -->")] == [1, 1]


def test_the_readme_gets_the_first_screen_and_the_page_its_images(
    report_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    refresh = importlib.import_module("refresh")
    docs, readme = tmp_path / "docs", tmp_path / "README.md"
    (docs / "reproduction").mkdir(parents=True)
    (docs / "reproduction" / "old.png").write_bytes(b"")
    readme.write_text("Before.\n\n<!-- result -->\n\nOld.\n\n<!-- end of result -->\n\nAfter.\n")
    monkeypatch.setattr(refresh, "DOCS", docs)
    monkeypatch.setattr(refresh, "README", readme)
    refresh.refresh(report_folder)
    first = synthetic_report().first
    assert first is not None
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("Before.\n\n<!-- result -->\n\nThe paper claims: ")
    assert text.endswith("\n\n<!-- end of result -->\n\nAfter.\n")
    assert "Old." not in text
    assert f"**{first.question}** {' '.join(first.answer)}" in text
    assert "](docs/reproduction/first-contrasts.png)" in text
    assert "(figures/" not in text
    page = (docs / "reproduction.md").read_text(encoding="utf-8")
    assert "](reproduction/first-contrasts.png)" in page
    assert "| C1 | SRG-DQN reaches a higher score than DQN on all three tasks. | holds (small, below random) |" in page
    images = {path.name for path in (docs / "reproduction").iterdir()}
    assert images == {f"{chart.name}.png" for chart in synthetic_report().charts}
