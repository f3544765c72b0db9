"""What is raised when an environment misbehaves in the midst of training: which one, at which step, what came."""

from __future__ import annotations

from typing import Any

RAISED = (Exception, SystemExit)
"""What is taken for an environment's own failure: also an attempt to end the whole process, as some make when their
window is closed.
"""


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


def told(error: BaseException) -> str:
    """An error in words, also where it has none of its own or cannot tell them.

    >>> told(ValueError("no pole")), told(ValueError())
    ('ValueError (no pole)', 'ValueError')
    """
    text = shortly(error, str)
    return f"{type(error).__name__} ({text})" if text else type(error).__name__


def shortly(value: Any, words: type[str] | Any = repr) -> str:
    """A value in a few words, whatever it is."""
    try:
        text: str = words(value)
    except Exception as error:
        return f"something that cannot be shown ({type(error).__name__})"
    return text if len(text) <= 200 else f"{text[:197]}..."
