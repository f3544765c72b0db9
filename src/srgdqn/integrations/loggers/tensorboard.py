"""TensorBoard event files, one folder per round, written without TensorFlow or PyTorch."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.extras import require
from srgdqn.integrations.loggers import LoggerOption, Scalars
from srgdqn.runs.configurations import dumps
from srgdqn.runs.destination import make_folder

if TYPE_CHECKING:
    from srgdqn.training.reports import RoundReport


class TensorBoard:
    """Writes event files of every round for `tensorboard --logdir FOLDER`."""

    option = LoggerOption(
        "tensorboard",
        "DIR",
        "New folder for TensorBoard: event files of every round during training (pip install 'srgdqn[tensorboard]').",
    )

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        require("tensorboard", "tensorboard", "Logging for TensorBoard")
        self._folder = make_folder(folder)
        if any(self._folder.glob("round-*")):
            raise InputError(
                f"{self._folder} has the rounds of a run already, with which these would be mixed. Give another folder."
            )

    def __str__(self) -> str:
        return f"the TensorBoard folder {self._folder}"

    def start(self, configuration: Configuration, about: Mapping[str, Any]) -> None:
        """Begins a file for every round, with the configuration as a text."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.plugins.text.summary_v2 import text_pb

        self._began, self._scalars = time.time(), Scalars()
        events = [Event(wall_time=self._began, file_version="brain.Event:2")]
        described = "\n".join(f"{name}: {value}" for name, value in about.items())
        for name, text in (("configuration", dumps(configuration)), ("about", described)):
            summary = text_pb(f"{name}/text_summary", textwrap.indent(text, "    "))  # it is shown as Markdown
            events.append(Event(wall_time=self._began, step=0, summary=summary))
        for number in range(configuration.training.rounds):
            self._file(number).parent.mkdir(exist_ok=True)
            self._write(number, events)

    def log(self, reports: Sequence[RoundReport]) -> None:
        """Adds events to the rounds' files."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        now = time.time()
        for report in reports:
            events = []
            for step, values in self._scalars.rows(report, now - self._began):
                known = [
                    Summary.Value(tag=name, simple_value=value) for name, value in values.items() if value is not None
                ]
                events.append(Event(wall_time=now, step=step, summary=Summary(value=known)))
            self._write(report.round, events)

    def close(self) -> None:
        """Does nothing: no file is left open, as thousands of rounds would be too many for a process."""

    def _file(self, number: int) -> Path:
        return self._folder / f"round-{number:03d}" / f"events.out.tfevents.{self._began:.0f}.srgdqn"

    def _write(self, number: int, events: Iterable[Any]) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        with open(self._file(number), "ab") as file:
            writer = RecordWriter(file)
            for event in events:
                writer.write(event.SerializeToString())
