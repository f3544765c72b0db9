"""What can be named in a configuration, found among the package's files: adding one takes its own file and no list.

A file of `learner/estimators/` is an estimator and a file of `learner/networks/` a network, both called as the file is.
A file of `tasks/` with `TASK = CompiledTask(…)` is a compiled task. Only that expression is evaluated here, with the
names of this module: the rest of the file needs jax, which a command line that only reads presets does not load.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from srgdqn.config import plugins

Success = Literal["termination", "truncation", "none"]

_PACKAGE = Path(__file__).parents[1]

# The rows of Table 1 that are the same for every task.
TABLE_1_SHARED: dict[str, Any] = dict(activation="relu", alpha=1e-3, beta1=0.9, beta2=0.999, inner_iterations=16)


@dataclass(frozen=True)
class CompiledTask:
    """What is known of a compiled task without its dynamics."""

    name: str
    """Its name, and that of its functional JAX environment in the same file."""
    preset: dict[str, Any]
    """The options that its name stands for; for the paper's tasks Table 1, and what the readings add to it."""
    rewards: dict[str, str]
    """The rewards that it can be learned from, and their formulas; `raw` is what is evaluated."""
    evaluation_limit: int
    """Steps after which an episode of evaluation is truncated: Gymnasium's own, even where training has none."""
    success: Success = "none"
    """The end of an episode that counts as success: `termination` at a goal, `truncation` for having lasted."""
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The options that only this task has, and their choices."""
    gymnasium: str | None = None
    """The same as an ordinary Gymnasium environment, `module:class`, registered as `srgdqn/NAME-v0`."""
    module: str = ""
    """Where it was found."""


def _tasks(folder: Path = _PACKAGE / "tasks") -> Iterator[CompiledTask]:
    for path in sorted(folder.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if CompiledTask.__name__ in text:  # the other files are what tasks share
            yield dataclasses.replace(_task(path, text), module=f"srgdqn.tasks.{path.stem}")


def _task(path: Path, text: str) -> CompiledTask:
    """What a file assigns to `TASK`, evaluated without the rest of it."""
    for statement in ast.parse(text, str(path)).body:
        if isinstance(statement, ast.Assign) and [ast.unparse(each) for each in statement.targets] == ["TASK"]:
            task = eval(compile(ast.Expression(statement.value), str(path), "eval"), globals())
            if isinstance(task, CompiledTask):
                return task
    raise ValueError(f"{path} names CompiledTask, but has no line TASK = CompiledTask(…) of its own.")


def _names(folder: str) -> list[str]:
    return sorted(path.stem for path in (_PACKAGE / folder).glob("*.py") if path.stem != "__init__")


COMPILED_TASKS = {task.name: task for task in _tasks()}
NETWORKS = tuple(_names("learner/networks"))
"""The built-in networks. Any other name is that of a user's module, passed in Python."""
BUILT_IN_ESTIMATORS = frozenset(_names("learner/estimators"))
ESTIMATORS: dict[str, Any] = dict.fromkeys(sorted(BUILT_IN_ESTIMATORS))
"""The registry of estimators, with those of users; `learner.estimators` adds the values when it is imported."""


SAMPLINGS = ("with-replacement", "without-replacement", "newest", "prioritised")
"""The rules for drawing D that are built in."""
BOOTSTRAPS = ("max", "double", "munchausen")
"""The rules for the value of S' that are built in."""
OWN_RULES: dict[str, dict[str, Any]] = {"sampling": {}, "bootstrap": {}}
"""The rules that users registered, by option and name (`learner.own_rules`)."""


def estimator_names() -> list[str]:
    """The names that the option `estimator` may have: `none` for no inner iterations, all that are registered, and all
    that installed packages declare.
    """
    return ["none", *dict.fromkeys([*ESTIMATORS, *plugins.declared()])]


def known_estimator(name: str) -> bool:
    """Whether the option `estimator` may have that name. An installed package's estimator is imported and registered:
    an `InputError` if it cannot be.
    """
    if name not in ("none", *ESTIMATORS) and name in plugins.declared():
        from srgdqn.config.checks import check_definition  # here, as it imports this module

        found = plugins.load(name)
        check_definition(name, found)
        ESTIMATORS[name] = found
    return name in ("none", *ESTIMATORS)
