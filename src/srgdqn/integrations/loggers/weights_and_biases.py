"""Weights & Biases: one of its runs for every round, all in one group."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from srgdqn.config import Configuration
from srgdqn.errors import InputError, unknown
from srgdqn.extras import require
from srgdqn.integrations.loggers import LoggerOption, Scalars

if TYPE_CHECKING:
    from srgdqn.training.reports import RoundReport

Mode = Literal["online", "offline", "disabled"]


class WeightsAndBiases:
    """Logs every round to Weights & Biases, as a run of its own.

    Args:
      project: its project.
      group: what the rounds have in common there; by default the task, the algorithm and a few random letters.
      mode: `online`, `offline` (into the folder `wandb`, for `wandb sync`) or `disabled`; by default what the
        environment variable WANDB_MODE says, or else `online`.

    """

    option = LoggerOption(
        "wandb",
        "PROJECT",
        "Project of Weights & Biases that every round is logged to during training (pip install 'srgdqn[wandb]'). "
        "WANDB_MODE=offline stores everything on this machine.",
    )

    def __init__(self, project: str, *, group: str | None = None, mode: Mode | None = None) -> None:
        if mode is not None and mode not in get_args(Mode):
            raise unknown("mode of Weights & Biases", mode, get_args(Mode))
        if not project:
            raise InputError("the project of Weights & Biases has no name. Give one, such as 'srgdqn'.")
        require("wandb", "wandb", "Logging to Weights & Biases")
        self._project, self._group, self._mode = project, group, mode
        self._runs: list[Any] = []

    def __str__(self) -> str:
        return f"the Weights & Biases project {self._project}"

    def start(self, configuration: Configuration, about: Mapping[str, Any]) -> None:
        """Begins a run there for every round."""
        import wandb

        self._began, self._scalars = time.monotonic(), Scalars()
        task, algorithm = configuration.task.task, configuration.algorithm
        group = self._group or f"{task} {algorithm} {secrets.token_hex(3)}"
        known = {"algorithm": algorithm, "readings": configuration.readings, **configuration.options(), **about}
        try:
            for number in range(configuration.training.rounds):
                self._runs.append(
                    wandb.init(
                        project=self._project,
                        group=group,
                        name=f"{algorithm} round {number:03d}",
                        config={**known, "round": number},
                        mode=self._mode,
                        reinit="create_new",
                        settings=wandb.Settings(silent=True, console="off"),
                    )
                )
        except wandb.Error as error:
            raise InputError(
                f"Weights & Biases cannot be written to: {error}. Run 'wandb login', or set WANDB_MODE=offline to log "
                "to this machine alone."
            ) from error

    def log(self, reports: Sequence[RoundReport]) -> None:
        """Logs at each round's environment steps."""
        seconds = time.monotonic() - self._began
        for report in reports:
            for step, values in self._scalars.rows(report, seconds):
                known = {name: value for name, value in values.items() if value is not None}
                self._runs[report.round].log(known, step=step)

    def close(self) -> None:
        """Waits until everything is written, or sent."""
        while self._runs:
            self._runs.pop().finish()
