"""The round of an agent: made new, saved to a file, and loaded from it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np

from srgdqn.adapters.environments import Environment, Source, source_named, source_of
from srgdqn.adapters.spaces import Actions, Observations
from srgdqn.config import Configuration
from srgdqn.config.checks import check_estimator_of_run, check_stored
from srgdqn.config.discovery import NETWORKS
from srgdqn.config.identifiers import is_identifier
from srgdqn.errors import InputError
from srgdqn.kernel.support import resolved_on_host
from srgdqn.learner.networks import NetworkFactory
from srgdqn.learner.outer_iteration import batch_rows, replay_rows
from srgdqn.learner.replay import ring_length
from srgdqn.runs import configurations
from srgdqn.runs.destination import check_file, write_file
from srgdqn.runs.provenance import check_metadata, is_count
from srgdqn.runs.snapshots import (
    Saveable,
    SavedAgent,
    decode_agent,
    encode_agent,
    filled,
    restore_from,
    snapshot_of,
    tensors_below,
)
from srgdqn.runs.untrusted import check_room, read_file
from srgdqn.training.host.program import PAGE_BLOCKS, host_program
from srgdqn.training.host.round import HostRound, RoundState, state_form
from srgdqn.training.host.task import HostTask, about_task, check_same_spaces, host_task
from srgdqn.training.jax_setup import check_random_numbers, is_double

SUFFIX = ".safetensors"
# Bytes that a step takes beside its observations, in the replay, among the random numbers and in the step log.
_PER_STEP = 64


def new_round(configuration: Configuration, source: Source, network: eqx.Module | NetworkFactory | None) -> HostRound:
    """A round before its first step, whose environment is not entered yet."""
    check_random_numbers()
    configuration = resolved_on_host(configuration, double=is_double())
    task = host_task(configuration, source)
    program, _ = host_program(configuration, task.network_input, task.actions.count, network)
    return HostRound(configuration, task, program, None)


def save_round(
    round_: HostRound, path: str | os.PathLike[str], about: dict[str, Any], *, include_replay: bool, overwrite: bool
) -> Path:
    """Writes a round to one file, atomically, with or without its replay."""
    place = Path(path)
    if place.suffix != SUFFIX:
        place = place.with_name(f"{place.name}{SUFFIX}")
    check_file(place, (SUFFIX,), what="agent", overwrite=overwrite)
    about = {**about_task(round_.task), **about, "replay": include_replay}
    stored = encode_agent(
        configurations.dumps(round_.configuration), snapshot_of(about, _states(round_, include_replay))
    )
    return write_file(place, stored)


def load_round(
    path: str | os.PathLike[str], env: Environment | None, network: eqx.Module | NetworkFactory | None
) -> HostRound:
    """The round in a file, in the environment given or in that of its name, which is not made yet."""
    place = Path(path)
    named = place.with_name(f"{place.name}{SUFFIX}")
    if not place.is_file() and place.suffix != SUFFIX and (named.exists() or not place.exists()):
        place = named
    if not place.exists():
        raise InputError(f"{place} does not exist. Give a file that Agent.save wrote.")
    if place.is_dir():
        run = (place / "manifest.json").is_file()
        what = "the folder of a run: srgdqn.load(folder).policy(round) acts as its agents do" if run else "a folder"
        raise InputError(f"{place} is {what}. Give a file that Agent.save wrote.")
    data = read_file(place)
    try:
        saved = decode_agent(data)
        configuration = check_stored(configurations.loads(saved.configuration))
        check_metadata(saved.about)
    except InputError as error:
        problem = str(error).rstrip(".")
        raise InputError(f"{place} cannot be loaded: {problem}. Give a file that Agent.save wrote.") from error
    try:
        check_estimator_of_run(configuration.estimator.estimator)
        return _restored(saved, configuration, env, network)
    except InputError as error:
        raise InputError(f"{place} cannot be loaded: {str(error).rstrip('.')}.") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        # Of what it says something is missing, or is of another kind.
        raise InputError(f"{place} cannot be loaded: it is incomplete ({error}).") from error


def renamed(configuration: Configuration, name: str) -> Configuration:
    """The same for an environment of another name."""
    return dataclasses.replace(configuration, task=dataclasses.replace(configuration.task, task=name))


def _states(round_: HostRound, replay: bool) -> dict[str, Saveable]:
    stored: dict[str, Saveable] = {"state": round_}
    stored |= {"memory": round_.memory} if replay else {}
    return stored if round_.best is None else {**stored, "best": round_.best}


def _restored(
    saved: SavedAgent,
    configuration: Configuration,
    env: Environment | None,
    network: eqx.Module | NetworkFactory | None,
) -> HostRound:
    needed = configuration.network.network
    if needed not in NETWORKS and network is None:
        raise InputError(f"its network is the module {needed!r}, which is not stored with it. Give it: network=….")
    task = _stored_task(configuration, saved.about, env)
    configuration = renamed(configuration, task.name)
    program, _ = host_program(configuration, task.network_input, task.actions.count, network)
    # The arrays are compared with what they should be before any of these is made.
    training = configuration.training
    stored: RoundState = filled(state_form(program, training.environments), tensors_below("state", saved.tensors))
    stored.check(training.learning_frequency)
    _check_room(configuration, task)
    round_ = HostRound(configuration, task, program, None)
    restore_from(saved, _states(round_, saved.about["replay"]))
    if not saved.about["replay"]:
        round_.forget_memory()
    round_.spend(configuration, steps_before=round_.steps_before, to_the_end=True)
    return round_


def _check_room(configuration: Configuration, task: HostTask) -> None:
    """An `InputError` where training as the configuration says would take more memory than a file may ask for."""
    training, inner = configuration.training, configuration.estimator
    block, rows, beyond = training.learning_frequency, batch_rows(configuration), replay_rows(configuration)
    step = 2 * task.observations.size * np.dtype(task.observations.dtype).itemsize + _PER_STEP
    if configuration.acting.action_masks:
        step += task.actions.count
    remembered = (ring_length(configuration.replay, block) + block + training.environments) * step
    batch = (rows + beyond) * (step + 8 * sum(configuration.network.hidden))
    drawn = rows + beyond + inner.inner_iterations * inner.inner_batch
    planned = PAGE_BLOCKS * (block * _PER_STEP + 8 * training.gradient_steps * drawn)
    check_room(remembered + batch + planned + _PER_STEP * (training.episodes or 0), "what its configuration asks for")


def _stored_task(configuration: Configuration, about: dict[str, Any], env: Environment | None) -> HostTask:
    """The task that a file describes, in the environment given or in that of its name."""
    observations = Observations.from_metadata(about["observations"])
    if not is_count(about["evaluation_limit"], 1):
        raise InputError("it does not say how long an episode may be.")
    actions = Actions.from_metadata(about["action_table"], about["action_type"])
    if env is not None:
        task = host_task(configuration, source_of(env))
        check_same_spaces(task.name, (task.observations, task.actions), (observations, actions))
        return task
    name = configuration.task.task
    # An id is not looked up before it is needed: that may import the module it names, which is no file's to decide.
    source = source_named(name) if is_identifier(name) else Source(name, None)
    limit, masked = about["evaluation_limit"], configuration.acting.action_masks
    return HostTask(source, observations, actions, limit, None, masked=masked)
