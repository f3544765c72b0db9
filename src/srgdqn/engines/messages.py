"""What a run's process and its workers tell each other: pickled messages in pipes that only they hold."""

from __future__ import annotations

from typing import IO, Any

import cloudpickle

_LENGTH_BYTES = 8


def packed(message: Any) -> bytes:
    """A message as bytes."""
    data: bytes = cloudpickle.dumps(message)
    return data


def send(pipe: IO[bytes], message: Any) -> None:
    """Writes a message and lets it go at once."""
    send_packed(pipe, packed(message))


def send_packed(pipe: IO[bytes], data: bytes) -> None:
    """Writes a message that is bytes already, and lets it go at once."""
    pipe.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """The next message; an EOFError if the other end is gone."""
    length = _exactly(pipe, _LENGTH_BYTES)
    return cloudpickle.loads(_exactly(pipe, int.from_bytes(length, "little")))


def _exactly(pipe: IO[bytes], count: int) -> bytes:
    data = pipe.read(count)
    if data is None or len(data) < count:
        raise EOFError
    return data
