"""The options that say where a long command runs, the same for all of them."""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from srgdqn.cli.forms import help_text
from srgdqn.cli.parsing import one_of
from srgdqn.engines.choice import ENGINES

ENGINE = (
    "Where it runs: on this machine, or on all cores of a Ray cluster (pip install 'srgdqn[ray]'), with the same bits."
)
ADDRESS = "The Ray cluster: HOST:PORT, or auto for the one that this machine is a node of."
NO_ADDRESS = "(default: $RAY_ADDRESS, or a Ray of its own on this machine)"

FIELDS: dict[str, str] = {"engine": ENGINE, "address": ADDRESS}


def read_as() -> dict[str, Any]:
    """How the words of a command line are read, by name."""
    return {"engine": Annotated[str, one_of("engine", ENGINES)], "address": str}


def shown_as() -> list[tuple[str, Any, Any]]:
    """How help shows them: names, annotations and defaults."""
    engine = Annotated[str, one_of("engine", ENGINES), help_text(ENGINE)]
    address = Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help=ADDRESS, help_behavior_hint=NO_ADDRESS)]
    return [("engine", engine, ENGINES[0]), ("address", address, None)]
