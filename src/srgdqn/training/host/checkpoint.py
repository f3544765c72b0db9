"""Everything that a round on the host has come to, to and from a checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srgdqn.adapters.players import CopiesPlayer, Player
from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.runs.checkpoints import Checkpoint, Snapshot, Stream
from srgdqn.runs.trees import by_path, filled
from srgdqn.training.host.open_episodes import Trail
from srgdqn.training.host.round import HostRound
from srgdqn.training.recorder import Recorder
from srgdqn.training.tables import Endings

_STEPS = "steps"
_MEMORY, _RECORDER, _TRAIL, _PRESENT = "memory.", "recorder.", "trail.", "present"


class Records(NamedTuple):
    """What was heard from a round so far."""

    recorder: Recorder
    trail: Trail


def no_records(configuration: Configuration, endings: Endings) -> Records:
    """Those of a round that has not lived."""
    return Records(Recorder(configuration, endings, 1), Trail(configuration.training.environments))


class RoundStanding(NamedTuple):
    """Where a round stood: all but its environments, which are no data."""

    round_: HostRound  # that nobody plays yet
    records: Records
    last: bool  # whether it has come to its end
    begun: list[int]  # the episodes that were begun in each of its environments,
    episodes: int  # those that ended in all of them,
    present: np.ndarray | None  # and what each observed, where it can be brought there again


def round_snapshot(round_: HostRound, records: Records, identity: str, *, last: bool) -> Snapshot:
    """What is kept of a round of the configuration of that identity. At its end nobody needs its replay any more."""
    assert round_.player is not None
    recorded, rows = records.recorder.state()
    streams = {name: Stream(0, len(each), each.read) for name, each in rows.items()}
    tensors = by_path({"learner": round_.learner, "normaliser": round_.normaliser})
    tensors |= {f"{_RECORDER}{name}": array for name, array in recorded.items()}
    if not last:
        remembered, transitions = round_.memory.state()
        trail, streams[_STEPS] = records.trail.state()
        streams |= transitions
        tensors |= {f"{_MEMORY}{name}": array for name, array in remembered.items()}
        tensors |= {f"{_TRAIL}{name}": array for name, array in trail.items()}
        present = round_.player.present if isinstance(round_.player, CopiesPlayer) else None
        tensors |= {} if present is None else {_PRESENT: present}
    about = {
        "identity": identity,
        "round": round_.number,
        "blocks": round_.blocks,
        "iterations": round_.iterations,
        "diverged_at": round_.diverged_at,
        "last": last,
        "begun": list(round_.player.begun),
        "episodes": round_.player.episodes,
    }
    return Snapshot(about, tensors, streams)


def round_standing(checkpoint: Checkpoint, round_: HostRound, identity: str) -> RoundStanding:
    """Where a round stood, made of one that has not lived; an `InputError` if it is none of the configuration's of that
    identity.
    """
    about, tensors = checkpoint.about, checkpoint.tensors
    _check(about, round_, identity)
    round_.blocks, round_.iterations, round_.diverged_at = about["blocks"], about["iterations"], about["diverged_at"]
    tree = jax.tree.map(jnp.asarray, filled({"learner": round_.learner, "normaliser": round_.normaliser}, tensors))
    round_.restore(tree["learner"], tree["normaliser"])
    memory, records = round_.memory, no_records(round_.configuration, round_.task.endings)
    recorder, trail = records
    try:
        recorder.restore(_below(_RECORDER, tensors))
        _, recorded = recorder.state()
        if not about["last"]:
            trail.restore(_below(_TRAIL, tensors), round_.steps)
        for name, first, rows in checkpoint.rows():
            if name in recorded:
                recorder.take(name, rows)
            elif name == _STEPS:
                trail.take(first, rows)
            else:
                memory.take(name, first, rows)
        if not about["last"]:
            memory.settle(_below(_MEMORY, tensors), round_.task.actions.count)
    except InputError:  # which says what is wrong: it is damaged, say
        raise
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise InputError(f"it is none of this configuration's ({error})") from error
    if recorder.blocks != round_.blocks:
        raise InputError(f"it has records of {recorder.blocks} blocks, where {round_.blocks} were lived")
    return RoundStanding(round_, records, about["last"], about["begun"], about["episodes"], tensors.get(_PRESENT))


def enter_again(standing: RoundStanding, player: Player) -> None:
    """Lets a player go on where the round stood, in environments that were made anew. Where they cannot be brought to
    where they were, new episodes begin, and a RuntimeWarning tells of it.
    """
    round_, present, seats = standing.round_, standing.present, range(len(standing.begun))
    trail = standing.records.trail
    round_.player, player.episodes = player, standing.episodes
    if not isinstance(player, CopiesPlayer):
        problems = dict.fromkeys(seats, "is a vector environment, whose parts cannot be brought anywhere one by one")
    elif present is None:  # nothing was open
        problems = {}
        round_.begin_anew(seats)
    else:
        told = {seat: player.live_again(seat, *trail.of(seat), present[seat]) for seat in seats}
        problems = {seat: problem for seat, problem in told.items() if problem is not None}
    round_.begin_anew(problems)
    trail.leave(list(problems))
    if problems:
        where = "" if len(seats) == 1 or len(problems) == len(seats) else f" in {len(problems)} of {len(seats)} copies"
        warnings.warn(
            f"round {round_.number} goes on with new episodes{where}: the environment {round_.task.name} "
            f"{next(iter(problems.values()))}, and so is not where it was. Everything learnt, remembered and recorded "
            "is restored; the open episodes are left, so that it is another run from here on than it would have been "
            "without the interruption.",
            RuntimeWarning,
            stacklevel=2,
        )


def _check(about: dict[str, Any], round_: HostRound, identity: str) -> None:
    seats = round_.configuration.training.environments
    counts = [about.get("blocks"), about.get("iterations"), about.get("episodes")]
    begun, diverged_at = about.get("begun"), about.get("diverged_at")
    if (about.get("identity"), about.get("round")) != (identity, round_.number):
        raise InputError("it is of another configuration, or another round of it")
    if type(about.get("last")) is not bool or not isinstance(begun, list) or len(begun) != seats:
        raise InputError("it does not tell how far it is")
    if not all(type(count) is int and count >= 0 for count in [*counts, *begun, diverged_at or 0]):
        raise InputError("it does not tell how far it is")


def _below(prefix: str, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
