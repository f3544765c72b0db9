"""A saved agent: one sealed file with everything that it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from srgdqn.errors import InputError
from srgdqn.runs.digest_file import Form, seal, unseal
from srgdqn.runs.snapshots import Rows, Snapshot, Spans, Tensors, rows_among, rows_as_tensors, spans_of

AGENT = Form("agent", "srgdqn-agent", 2, oldest=2)


class SavedAgent(NamedTuple):
    """What is in the file."""

    tensors: Tensors
    configuration: str  # as TOML
    about: dict[str, Any]  # JSON values: the task and the provenance
    spans: Spans = {}  # noqa: RUF012  # of the rows that stand among the tensors

    def rows(self) -> Iterator[tuple[str, int, Rows]]:
        """The rows of all streams: a stream's name, the number of the first row, the rows."""
        return rows_among(self.tensors, self.spans)


def encode(configuration: str, snapshot: Snapshot) -> bytes:
    """The bytes of the file."""
    content = {"configuration": configuration, "about": snapshot.about, "streams": snapshot.spans}
    data, _ = seal(AGENT, content, snapshot.tensors | rows_as_tensors(snapshot.streams, snapshot.spans))
    return data


def decode(data: bytes) -> SavedAgent:
    """What is in the bytes of a file that `encode` wrote, if not a bit of it is another one. Runs no code from it."""
    content, tensors, _ = unseal(AGENT, data)
    configuration, about = content.get("configuration"), content.get("about")
    if not isinstance(configuration, str) or not isinstance(about, dict):
        raise InputError("its content is not that of an agent")
    try:
        spans = spans_of(content["streams"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"its content is not that of an agent ({error})") from error
    return SavedAgent(tensors, configuration, about, spans)
