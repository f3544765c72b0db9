"""The options that several commands have, declared once: commands nest these groups, or use these annotations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from srgdqn.cli.parsing import Arg
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.presets import PRESETS
from srgdqn.runs.unfinished import DEFAULT_KEEP

if TYPE_CHECKING:
    from srgdqn.runs.checkpoint_manager import Pace


_TASKS = "the compiled tasks, or a Gymnasium id such as LunarLander-v3"

Task = Annotated[str | None, Arg("TASK", _TASKS, positional=True, names=tuple(PRESETS))]
Algorithm = Annotated[str | None, Arg("ALGORITHM", "srg-dqn by default", positional=True, names=tuple(ALGORITHMS))]
SavedRun = Annotated[Path, Arg("RUN", positional=True)]
Readings = Literal["corrected", "printed", "mnih"]
UserModules = Annotated[
    tuple[str, ...],
    Arg(
        "MODULE",
        help="A module of yours that registers estimators or environments (srgdqn.register_estimator, "
        "gymnasium.register): its name, or the path of its file, such as ./my_estimators.py. May be given repeatedly. "
        "No run stores it: give it again to verify, replay or resume one.",
        repeated=True,
    ),
]
Every = Annotated[float | None, Arg("SECONDS", "60, or longer where they are expensive")]


@dataclass(frozen=True)
class RunCheckpoints:
    """How a run with --out is checkpointed, resumed and replaced."""

    checkpoint_every: Every = None
    """Seconds between two checkpoints."""
    keep_checkpoints: Annotated[
        int | Literal["all"] | None, Arg("all|INT", f"{DEFAULT_KEEP}, until it is finished", least=1)
    ] = None
    """Checkpoints that stay, also once it is finished: a number, or all. Until then at least 2 do."""
    resume: bool = False
    """Continue a run to the same folder, however it ended: the result is bit-identical."""
    overwrite: bool = False
    """Replace the run that is in the folder."""


@dataclass(frozen=True)
class CellCheckpoints:
    """How unfinished cells are checkpointed."""

    checkpoint_every: Every = None
    """Seconds between two checkpoints."""
    keep_checkpoints: Annotated[int | Literal["all"] | None, Arg("all|INT", str(DEFAULT_KEEP), least=1)] = None
    """Checkpoints that stay of every unfinished cell: a number (at least 2 do), or all."""
    resume: bool = False
    """Continue from finished cells and checkpoints, as the same command does without it."""

    @property
    def pace(self) -> Pace:
        """How often cells are checkpointed, and how many checkpoints of each stay."""
        from srgdqn.runs.checkpoint_manager import DEFAULT_PACE

        asked = DEFAULT_PACE._replace(every=self.checkpoint_every)
        keep = self.keep_checkpoints
        return asked if keep is None else asked._replace(keep=None if keep == "all" else keep)


@dataclass(frozen=True)
class EngineOptions:
    """Where jobs run."""

    engine: Literal["local", "ray"] = "local"
    """On this machine, or on all cores of a Ray cluster (pip install 'srgdqn[ray]'), with the same bits."""
    address: Annotated[str | None, Arg("ADDRESS", "$RAY_ADDRESS, or a Ray of its own on this machine")] = None
    """The Ray cluster: HOST:PORT, or auto for the one that this machine is a node of."""
