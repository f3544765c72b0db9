"""The package's front door in Python: `train` and `load`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
from gymnasium.experimental.functional import FuncEnv

from srgdqn.adapters.environments import Environment
from srgdqn.config.configure import configure
from srgdqn.engines.choice import ready
from srgdqn.errors import InputError
from srgdqn.integrations import Logger, logging_to
from srgdqn.integrations.progress import reporting
from srgdqn.learner.networks import NetworkFactory
from srgdqn.results.result import Result, load_result
from srgdqn.runs.provenance import LOCAL
from srgdqn.runs.unfinished import CheckpointOptions, claimed
from srgdqn.session.prepare import prepare, what_is_given
from srgdqn.session.run_session import run_session
from srgdqn.training.reports import Listener


def train(
    task: FuncEnv | Environment,
    algorithm: str = "srg-dqn",
    *,
    readings: str = "corrected",
    network: str | eqx.Module | NetworkFactory | None = None,
    progress: bool | None = None,
    loggers: Sequence[Logger] = (),
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_every: float | None = None,
    keep_checkpoints: int | Literal["all"] | None = None,
    engine: str = LOCAL,
    address: str | None = None,
    **options: Any,
) -> Result:
    """Trains an algorithm on a task, all rounds at once.

    Args:
      task: the name of a compiled task; the id of a Gymnasium environment, an environment, or a function that
        makes one, which is stepped on the host; or a functional JAX environment (`gymnasium`'s `FuncEnv`), whose
        attributes must not change once it is trained on: compiled programs would not notice.
      algorithm: a name that `srgdqn list` shows.
      readings: what to do where the paper is silent or contradicts itself: `corrected`, `printed` or `mnih`.
      network: `mlp` (a perceptron with `hidden` widths) or `cnn`; or an equinox module from one observation (flat, or
        an image with its channels first) to Q-values, or a function from a random key to one.
      progress: show a progress bar (by default where there is a terminal).
      loggers: what every round is logged to, such as `srgdqn.integrations.TensorBoard("logs")`.
      out: a new folder that the run is saved in; until then its checkpoints are beside it, in `out`.unfinished.
      resume: continue from these checkpoints, if there are any; the result is bit-identical.
      overwrite: replace the run that is in the folder.
      checkpoint_every: seconds between two checkpoints; by default a minute, or more, so that they stay cheap.
      keep_checkpoints: how many stay (or `"all"`), also in the finished run; by default two, until it is finished.
      engine: where it is trained: `"local"`, on this machine, or `"ray"`, on the cores of a Ray cluster, with the same
        bits.
      address: of that cluster: `"HOST:PORT"`, or `"auto"` for the one that this machine is a node of; by default
        `$RAY_ADDRESS`, or a Ray of its own on this machine.
      **options: any option that `srgdqn train --help` shows, such as `rounds=50`, `seed=0`, `steps=…`, `eta=…`.

    Returns:
      The result; also if it was interrupted from the keyboard, with what was reached by then.

    >>> result = train("CartPole", "dqn-adam", steps=2_000, evaluation_episodes=1)
    >>> result.curves.select("round", "step").rows()
    [(0, 1000), (0, 2000)]

    """
    given = what_is_given(task, network)
    together = {**given.options, **options}
    how_named: dict[str, Any] = {"readings": readings, "defaults": given.defaults}
    configuration = configure(given.task, algorithm, **how_named, typed=options, **together)
    checkpoints = None
    if out is not None:
        checkpoints = CheckpointOptions(Path(out), resume, overwrite, checkpoint_every, keep_checkpoints).checked()
    elif resume or overwrite or checkpoint_every is not None or keep_checkpoints is not None:
        raise InputError("resume, overwrite and checkpoints are for runs that are saved. Give out=… as well.")
    with claimed(checkpoints), ready(engine, address):
        run = prepare(configuration, **given.own)

        @contextlib.contextmanager
        def observed() -> Iterator[Listener]:
            with reporting(run.configuration, progress) as bar, logging_to(run.configuration, loggers, bar) as listener:
                yield listener

        how: dict[str, Any] = {"measure_noise": bool(loggers)} if run.on_host else {}
        outcome = run_session(run, checkpoints, observed, engine=engine, **how)
    if outcome.failure is not None:
        raise outcome.failure
    return outcome.result


def load(folder: str | os.PathLike[str], *, network: eqx.Module | NetworkFactory | None = None) -> Result:
    """The result in a run's folder; `network` is the user's own module, where the run was trained with one."""
    return load_result(folder, network=network)
