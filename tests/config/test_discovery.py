"""Compiled tasks are found in their files, however these are written."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from srgdqn.config.discovery import COMPILED_TASKS, _tasks


def test_a_task_is_what_its_module_assigns() -> None:
    assert COMPILED_TASKS
    for task in COMPILED_TASKS.values():
        theirs = importlib.import_module(task.module).TASK
        assert {**vars(theirs), "module": task.module} == vars(task)


@pytest.mark.parametrize(
    "written",
    [
        'TASK = CompiledTask("Hill", dict(gamma=0.5), {"raw": "1"}, 9)',
        'TASK = CompiledTask(\n    "Hill",\n    dict(\n        gamma=0.5,\n),\n{"raw": "1"}, evaluation_limit=9\n)',
        'TASK = (\n    CompiledTask("Hill", {"gamma": 0.5}, {"raw": "1"}, 9)\n)\nLIMIT = (\n    3\n)',
    ],
)
def test_only_the_expression_is_evaluated(written: str, tmp_path: Path) -> None:
    text = f"import nowhere\nfrom srgdqn.config.discovery import CompiledTask\n{written}\nnowhere.call()\n"
    (tmp_path / "hill.py").write_text(text)
    (tmp_path / "shared.py").write_text("import nowhere\nTASK = None\n")
    (task,) = _tasks(tmp_path)
    assert (task.name, task.preset, task.rewards) == ("Hill", {"gamma": 0.5}, {"raw": "1"})
    assert (task.evaluation_limit, task.module) == (9, "srgdqn.tasks.hill")


@pytest.mark.parametrize("written", ["", "HILL = CompiledTask()", "TASK = None", "def f():\n    TASK = CompiledTask()"])
def test_a_file_without_its_task_is_named(written: str, tmp_path: Path) -> None:
    (tmp_path / "hill.py").write_text(f"from srgdqn.config.discovery import CompiledTask\n{written}\n")
    with pytest.raises(ValueError, match=r"hill\.py names CompiledTask, but has no line TASK"):
        list(_tasks(tmp_path))
