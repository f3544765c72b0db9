"""The error about an environment that misbehaves while training: which one, at which step, what it did."""

from __future__ import annotations

from typing import Any

RAISED = (Exception, SystemExit)
"""What is taken for an environment's own failure: also an attempt to end the whole process, as some make when their
window is closed.
"""


class EnvironmentFailedError(RuntimeError):
    """An environment raised, or gave what it must not give.

    `result` is the run until then, where there was one.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


def failed(name: str, when: str, what: str) -> EnvironmentFailedError:
    """The error about an environment that did `what` at some time."""
    return EnvironmentFailedError(
        f"the environment {name} {what} {when}. Fix the environment; progress so far is not lost."
    )


def described(error: BaseException) -> str:
    """An error's type and message, also where it has no message or raises when asked for it.

    >>> described(ValueError("no pole")), described(ValueError())
    ('ValueError (no pole)', 'ValueError')
    """
    text = shortened(error, str)
    return f"{type(error).__name__} ({text})" if text else type(error).__name__


def shortened(value: Any, words: type[str] | Any = repr) -> str:
    """A value in at most 200 characters, whatever it is."""
    try:
        text: str = words(value)
    except Exception as error:
        return f"something that cannot be shown ({type(error).__name__})"
    return text if len(text) <= 200 else f"{text[:197]}..."
