"""What is raised when an environment misbehaves in the midst of training: which one, at which step, what came."""

from __future__ import annotations

from typing import Any


class EnvironmentFailedError(RuntimeError):
    """An environment raised, or gave what it must not give.

    Everything learnt before is kept: `result` is the run until then, where one was under way.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


def failed(name: str, when: str, what: str) -> EnvironmentFailedError:
    """The error about an environment that did `what` at some time."""
    return EnvironmentFailedError(
        f"the environment {name} {what} {when}. Mend the environment; what was learnt before is kept."
    )
