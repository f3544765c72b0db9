"""Everything that a chunk's rounds have come to, to and from a checkpoint."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from srgdqn.errors import InputError
from srgdqn.runs.checkpoints import Checkpoint, Snapshot, Stream
from srgdqn.runs.trees import by_path, filled
from srgdqn.training.lane import Lane
from srgdqn.training.recorder import Recorder

Seats = list[tuple[str, int, int]]
"""Whose rounds sit in a chunk: of each configuration its identity, its first round, and the one after its last."""

_LANES, _RECORDER = "lanes.", "recorder."


class Standing(NamedTuple):
    """Where a chunk stands."""

    blocks_done: int
    last: bool  # whether it has come to its end
    lanes: Lane  # of every round, on the host
    recorder: Recorder


def snapshot(standing: Standing, seats: Seats, block: int) -> Snapshot:
    """What is kept of a chunk whose blocks have so many steps. At its end nobody needs its replays any more."""
    arrays, rows = standing.recorder.state()
    lanes = by_path(standing.lanes)
    ring = lanes.pop("ring")
    written, slots = standing.blocks_done * block, ring.shape[1]

    def transitions(start: int, stop: int) -> dict[str, np.ndarray]:
        return {"transition": ring[:, np.arange(start, stop) % slots].swapaxes(0, 1)}

    streams = {name: Stream(0, len(each), each.read) for name, each in rows.items()}
    if not standing.last:
        streams["replay"] = Stream(max(0, written - slots), written, transitions, "replay")
    about = {"seats": [list(seat) for seat in seats], "blocks_done": standing.blocks_done, "last": standing.last}
    tensors = {f"{_LANES}{name}": array for name, array in lanes.items()}
    return Snapshot(about, {**tensors, **{f"{_RECORDER}{name}": array for name, array in arrays.items()}}, streams)


def seats_of(checkpoint: Checkpoint) -> Seats:
    """Whose rounds a checkpoint is of."""
    try:
        seats = [(str(who), int(first), int(stop)) for who, first, stop in checkpoint.about["seats"]]
        lanes = len(checkpoint.tensors[f"{_LANES}active"])
        if not all(0 <= first < stop for _, first, stop in seats) or sum(b - a for _, a, b in seats) != lanes:
            raise ValueError(f"it has {lanes} of them")
        return seats
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"it does not tell whose rounds it has ({error})") from error


def standing_of(checkpoint: Checkpoint, form: Lane, recorder: Recorder, rounds: int) -> Standing:
    """Where a chunk of so many rounds stood, given the form of its lanes and a recorder that has heard nothing."""
    about = checkpoint.about
    blocks_done, last = about.get("blocks_done"), about.get("last")
    if type(blocks_done) is not int or type(last) is not bool or blocks_done < 0:
        raise InputError("it does not tell how far it is")
    lanes = _stored_lanes(checkpoint.tensors, form, rounds)
    ring = lanes.ring
    try:
        recorder.restore(
            {
                name.removeprefix(_RECORDER): array
                for name, array in checkpoint.tensors.items()
                if name.startswith(_RECORDER)
            }
        )
        for name, first, rows in checkpoint.rows():
            if name == "replay":
                written = rows["transition"]
                if written.shape[1:] != (rounds, ring.shape[2]) or written.dtype != ring.dtype:
                    raise ValueError(f"its transitions are {written.dtype} of shape {written.shape[1:]}")
                ring[:, np.arange(first, first + len(written)) % ring.shape[1]] = written.swapaxes(0, 1)
            else:
                recorder.take(name, rows)
    except InputError:  # which says what is wrong: it is damaged, say
        raise
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise InputError(f"it is none of this configuration's ({error})") from error
    first, stop = checkpoint.spans.get("replay", (0, 0))
    has_replay = stop == recorder.steps and first == max(0, stop - ring.shape[1])
    if recorder.blocks != blocks_done or not (last or has_replay):
        raise InputError("it is none of this configuration's (it lacks some of what was there)")
    return Standing(blocks_done, last, lanes, recorder)


def _stored_lanes(tensors: dict[str, np.ndarray], form: Lane, rounds: int) -> Lane:
    """The lanes of so many rounds; their rings, which are stored as rows, are still to be filled."""

    def of_rounds(like: Any) -> jax.ShapeDtypeStruct:
        if jax.dtypes.issubdtype(like.dtype, jax.dtypes.prng_key):
            like = jax.eval_shape(jax.random.key_data, like)
        return jax.ShapeDtypeStruct((rounds, *like.shape[1:]), like.dtype)

    expected: Any = jax.tree.map(of_rounds, form)
    stored = {name.removeprefix(_LANES): array for name, array in tensors.items() if name.startswith(_LANES)}
    rest = jax.tree.map(np.array, filled(expected._replace(ring=None), stored))
    lanes: Lane = rest._replace(ring=np.zeros(expected.ring.shape, expected.ring.dtype))
    return lanes
