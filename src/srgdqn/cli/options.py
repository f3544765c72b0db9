"""The options that several commands have, declared once: commands nest these groups, or use these annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from srgdqn.cli.help import as_text
from srgdqn.cli.parsing import AtLeast
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.presets import PRESETS
from srgdqn.runs.checkpoint_options import KEPT

if TYPE_CHECKING:
    from srgdqn.runs.checkpoint_manager import Pace


def default_is(hint: str, metavar: str | None = None) -> Any:
    """What help shows where an option's default is no value but a description."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {hint})")


def _named(metavar: str, known: Mapping[str, Any], hint: str) -> Any:
    """A positional name: completion suggests the known ones, and others may be given."""
    about = tyro.conf.arg(metavar=metavar, help=", ".join(known), help_behavior_hint=f"({hint})")
    suggested: PrimitiveConstructorSpec[Any] = PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=list,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [as_text(value)],
        choices=tuple(known),
    )
    return Annotated[str | None, tyro.conf.Positional, suggested, about]


AnyTask = _named("TASK", PRESETS, "one of the paper's compiled tasks, or a Gymnasium id such as LunarLander-v3")
CompiledTask = _named("TASK", PRESETS, "one of the paper's compiled tasks")
Algorithm = _named("ALGORITHM", ALGORITHMS, "srg-dqn by default")
SavedRun = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Readings = Literal["corrected", "printed"]
Every = Annotated[float | None, default_is("60, or as seldom as keeps them cheap", "SECONDS")]


@dataclass(frozen=True)
class RunCheckpoints:
    """How a run with --out is checkpointed, resumed and replaced."""

    checkpoint_every: Every = None
    """Seconds between two checkpoints."""
    keep_checkpoints: Annotated[
        int | Literal["all"] | None, AtLeast(1), default_is(f"{KEPT}, until it is finished", "all|INT")
    ] = None
    """Checkpoints that are kept, also once it is finished: a number, or all. Until then at least 2 are."""
    resume: bool = False
    """Go on where a run to the same folder stopped, however that was: it ends with the same bits."""
    overwrite: bool = False
    """Replace the run that is in the folder."""


@dataclass(frozen=True)
class CellCheckpoints:
    """How unfinished cells are checkpointed."""

    checkpoint_every: Every = None
    """Seconds between two checkpoints."""
    keep_checkpoints: Annotated[int | Literal["all"] | None, AtLeast(1), default_is(str(KEPT), "all|INT")] = None
    """Checkpoints that are kept of what is under way: a number (at least 2 are), or all."""
    resume: bool = False
    """Go on where it stopped, from finished cells and checkpoints, as the same command does without it."""

    @property
    def pace(self) -> Pace:
        """How often cells are checkpointed, and how many checkpoints are kept of each."""
        from srgdqn.runs.checkpoint_manager import USUAL

        asked = USUAL._replace(every=self.checkpoint_every)
        keep = self.keep_checkpoints
        return asked if keep is None else asked._replace(keep=None if keep == "all" else keep)


@dataclass(frozen=True)
class EngineOptions:
    """Where jobs run."""

    engine: Literal["local", "ray"] = "local"
    """On this machine, or on all cores of a Ray cluster (pip install 'srgdqn[ray]'), with the same bits."""
    address: Annotated[str | None, default_is("$RAY_ADDRESS, or a Ray of its own on this machine", "ADDRESS")] = None
    """The Ray cluster: HOST:PORT, or auto for the one that this machine is a node of."""


RunCheckpointGroup = Annotated[RunCheckpoints, tyro.conf.arg(name="checkpoint")]
CellCheckpointGroup = Annotated[CellCheckpoints, tyro.conf.arg(name="checkpoint")]
EngineGroup = Annotated[EngineOptions, tyro.conf.arg(name="engine")]
