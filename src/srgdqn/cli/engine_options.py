"""The options that say where a long command runs, the same for all of them."""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from srgdqn.cli.forms import help_text
from srgdqn.cli.parsing import one_of
from srgdqn.engines.choice import ENGINES

Engine = Annotated[
    str,
    one_of("engine", ENGINES),
    help_text(
        "Where it runs: on this machine, or on all cores of a Ray cluster (pip install 'srgdqn[ray]'), with the same "
        "bits."
    ),
]
Address = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="ADDRESS",
        help="The Ray cluster: HOST:PORT, or auto for the one that this machine is a node of.",
        help_behavior_hint="(default: $RAY_ADDRESS, or a Ray of its own on this machine)",
    ),
]

OPTIONS: dict[str, tuple[Any, Any]] = {"engine": (Engine, ENGINES[0]), "address": (Address, None)}
"""By name, how each is read and shown, and its default."""
