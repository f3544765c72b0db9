"""What a logger is: three functions, called in this order, never at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from srgdqn.config import Configuration

if TYPE_CHECKING:
    from srgdqn.training.reports import RoundReport


class Logger(Protocol):
    """Whoever is told how a run goes. An exception drops it, with a warning that calls it by its `str`; only an
    `InputError` of `start` ends the run, before it begins.
    """

    def start(self, configuration: Configuration, about: Mapping[str, Any]) -> None:
        """A run with this configuration begins; `about` tells versions and the kind of machine."""

    def hear(self, reports: Sequence[RoundReport]) -> None:
        """Some rounds have come further."""

    def close(self) -> None:
        """The run has ended, in whatever way."""
