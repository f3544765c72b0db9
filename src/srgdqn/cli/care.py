"""The options by which a long command is kept while it goes on, the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from srgdqn.cli.parsing import seconds, whole

if TYPE_CHECKING:
    from srgdqn.training.keeping import Pace

RESUME = "Go on where a run to the same folder stopped, however that was: it ends with the same bits."
GOES_ON = "Go on where it stopped, from finished cells and checkpoints, as the same command does without it."
EVERY = "Seconds between two checkpoints."
KEEP = "Checkpoints that are kept, also once it is finished: a number, or all."

FIELDS: dict[str, tuple[Any, Any, str]] = {
    "checkpoint_every": (float, seconds("checkpoint-every"), EVERY),
    "keep_checkpoints": (int, whole("keep-checkpoints", 1, "all"), KEEP),
}
_HINTS = {
    "checkpoint_every": "(default: 60, or as seldom as keeps them cheap)",
    "keep_checkpoints": "(default: 2, until it is finished)",
}


def pace(given: Mapping[str, Any]) -> Pace:
    """How often cells are kept, and how many checkpoints of each, as far as that was said."""
    from srgdqn.training.keeping import USUAL

    asked = USUAL._replace(every=given.get("checkpoint_every"))
    keep = given.get("keep_checkpoints")
    return asked if keep is None else asked._replace(keep=None if keep == "all" else keep)


def read_as() -> dict[str, Any]:
    """How the words of a command line are read, by name."""
    return {name: Annotated[kind, how] for name, (kind, how, _) in FIELDS.items()}


def shown_as() -> list[tuple[str, Any, Any]]:
    """How help shows them: names, annotations and defaults."""
    return [
        (name, Annotated[kind | None, how, tyro.conf.arg(help=text, help_behavior_hint=_HINTS[name])], None)
        for name, (kind, how, text) in FIELDS.items()
    ]
