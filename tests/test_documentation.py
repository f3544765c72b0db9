"""Every example in the documentation runs, every link leads somewhere, every algorithm has its page."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from srgdqn.config import option_names
from srgdqn.config.algorithms import ALGORITHMS

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])


def blocks(language: str) -> list:
    found = []
    for page in PAGES:
        for index, code in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.S)):
            found.append(pytest.param(code, id=f"{page.relative_to(ROOT)}-{index}"))
    return found


@pytest.mark.parametrize("code", blocks("python"))
def test_python_examples_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from srgdqn.learner import estimators

    monkeypatch.chdir(tmp_path)
    known = dict(estimators.ESTIMATORS)
    try:
        exec(compile(code, "example", "exec"), {"__name__": "example"})
    finally:
        estimators.ESTIMATORS.clear()
        estimators.ESTIMATORS.update(known)


@pytest.mark.parametrize("code", blocks("sh"))
def test_commands_of_ours_are_understood(
    code: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each `srgdqn` command is parsed with its options: with --help added, it explains itself instead of running."""
    from srgdqn.cli import main

    if "--import" in code:
        (tmp_path / "my_estimators.py").write_text("")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["srgdqn"]:
            assert main([*words[1:], "--help"]) == 0, line
            flags = [word for word in words if word.startswith("--")]
            shown = capsys.readouterr().out
            assert all(flag in shown for flag in flags), line
    sys.modules.pop("my_estimators", None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_every_algorithm_has_a_page() -> None:
    text = "".join(page.read_text() for page in ROOT.glob("docs/algorithms/*.md"))
    assert [name for name in ALGORITHMS if f"`{name}`" not in text] == []


def test_options_named_on_the_readings_page_exist() -> None:
    rows = re.findall(r"^\| \d+ \|[^|]*\|([^|]*)\|", (ROOT / "docs/readings.md").read_text(), flags=re.M)
    named = {name for row in rows for name in re.findall(r"`([a-z_0-9]+)`", row)}
    assert named <= set(option_names())
    assert len(named) > 25
