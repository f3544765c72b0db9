"""The options by which a long command is kept while it goes on, the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from srgdqn.cli.parsing import seconds, whole
from srgdqn.runs.checkpoint_options import KEPT

if TYPE_CHECKING:
    from srgdqn.runs.checkpoint_manager import Pace

RESUME = "Go on where a run to the same folder stopped, however that was: it ends with the same bits."
GOES_ON = "Go on where it stopped, from finished cells and checkpoints, as the same command does without it."

CheckpointEvery = Annotated[
    float | None,
    seconds("checkpoint-every"),
    tyro.conf.arg(
        help="Seconds between two checkpoints.",
        help_behavior_hint="(default: 60, or as seldom as keeps them cheap)",
    ),
]
_number_or_all = whole("keep-checkpoints", 1, "all")
KeepCheckpoints = Annotated[
    int | None,
    _number_or_all,
    tyro.conf.arg(
        help=f"Checkpoints that are kept, also once it is finished: a number, or all. Until then at least {KEPT} are.",
        help_behavior_hint=f"(default: {KEPT}, until it is finished)",
    ),
]
"""Of a run, which has them in its folder from then on."""
KeepCheckpointsOfCells = Annotated[
    int | None,
    _number_or_all,
    tyro.conf.arg(
        help=f"Checkpoints that are kept of what is under way: a number (at least {KEPT} are), or all.",
        help_behavior_hint=f"(default: {KEPT})",
    ),
]
"""Of cells, which have none once they are finished."""

OF_A_RUN: dict[str, Any] = {"checkpoint_every": CheckpointEvery, "keep_checkpoints": KeepCheckpoints}
OF_CELLS: dict[str, Any] = {"checkpoint_every": CheckpointEvery, "keep_checkpoints": KeepCheckpointsOfCells}


def pace(given: Mapping[str, Any]) -> Pace:
    """How often cells are kept, and how many checkpoints of each, as far as that was said."""
    from srgdqn.runs.checkpoint_manager import USUAL

    asked = USUAL._replace(every=given.get("checkpoint_every"))
    keep = given.get("keep_checkpoints")
    return asked if keep is None else asked._replace(keep=None if keep == "all" else keep)
