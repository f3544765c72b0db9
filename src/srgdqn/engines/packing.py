"""What is handed to other machines, as bytes."""

from __future__ import annotations

import functools
from typing import Any

import cloudpickle

from srgdqn.errors import InputError


def packed(thing: Any) -> bytes:
    """A thing as bytes; an `InputError` if it cannot be made such."""
    try:
        data: bytes = cloudpickle.dumps(thing)
    except Exception as error:  # whatever pickling may raise
        raise InputError(
            f"the work cannot be handed to another machine ({error}). Give what can be pickled."
        ) from error
    return data


@functools.lru_cache(maxsize=8)
def the_same(data: bytes) -> Any:
    """What was packed: one object for the same bytes, as compiled programs belong to an object."""
    return cloudpickle.loads(data)
