"""`srgdqn train`: every option of a configuration, with the defaults of the task and the algorithm that are named."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from srgdqn.adapters.defaults import defaults_of
from srgdqn.cli.options import Algorithm, EngineOptions, Readings, RunCheckpoints, Task, UserModules
from srgdqn.cli.parsing import Arg, parse, wants_help
from srgdqn.config import Configuration, option_names
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.checks import check_estimator_of_run
from srgdqn.config.configure import composed, configure, layered, named_options
from srgdqn.config.discovery import NETWORKS
from srgdqn.config.estimator_numbers import numbers_of_estimator
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.presets import PRESETS, is_compiled, preset, resembles_compiled
from srgdqn.engines.choice import ready
from srgdqn.errors import InputError
from srgdqn.integrations.loggers import loggers_with_options
from srgdqn.runs.configurations import LONGEST, UserOptions, options_from_toml
from srgdqn.runs.unfinished import CheckpointOptions, claimed

if TYPE_CHECKING:
    from srgdqn.results.result import Result
    from srgdqn.session.run_session import Outcome


LoggerOptions = make_dataclass(
    "LoggerOptions",
    [
        (name, Annotated[str | None, Arg(logger.option.metavar, help=logger.option.help)], None)
        for name, logger in loggers_with_options().items()
    ],
    namespace={"__doc__": "What training is logged to."},
    frozen=True,
)


@dataclass(frozen=True)
class Train:
    """Trains an algorithm on a task, all rounds at once.

      srgdqn train MountainCar srg-dqn --rounds 50 --out runs/srg
      srgdqn train CartPole dqn-adam --steps 50000 --alpha 0.005 --hidden 20 20
      srgdqn train LunarLander-v3 srg-dqn --steps 200000 --out runs/lander
      srgdqn train Pendulum-v1 svr-dqn --action-bins 12 --rounds 4
      srgdqn train FrozenLake-v1,is_slippery=false,map_name=8x8 dqn-adam
      srgdqn train --config runs/srg/configuration.toml --out again
      srgdqn train Pendulum svr-dqn --tensorboard logs/svr             then: tensorboard --logdir logs
      srgdqn train --out runs/lander --resume                          resumes a run that was killed

    A task is one of the paper's, compiled, or the id of any Gymnasium environment, which is stepped on the host.

    The names decide every default, and each option given overrides one. {shown} A budget (--steps, --outer-iterations
    or --episodes) replaces the task's own, whatever its unit.

    A run with --out is checkpointed in DIR.unfinished. Killed at any instant, the same command with --resume continues
    from there, to the same bits. Ctrl-C ends a run early: what was reached is saved, and --resume continues it.
    """

    task: Task = None
    algorithm: Algorithm = None
    readings: Annotated[Readings | None, Arg(default="corrected")] = None
    """What is done where the paper is silent or contradicts itself: repaired, followed to the letter, or repaired with
    the target network and clipped errors of Mnih et al. (2015)."""
    config: Annotated[Path | None, Arg("FILE", "none")] = None
    """TOML file of names and options, such as a saved run's configuration.toml. The command line is above the file,
    and the file above the names' defaults; of a saved run's file, another name here replaces what its own stood for."""
    out: Annotated[Path | None, Arg("DIR", "nothing is saved")] = None
    """New or empty folder that the run is saved in. Until it is finished, 'srgdqn watch DIR' shows its progress."""
    import_: UserModules = ()
    json: bool = False
    """Print the summary as JSON, and nothing else, on standard output."""
    quiet: bool = False
    """Show neither progress nor a summary."""
    loggers: LoggerOptions = field(default_factory=LoggerOptions)  # type: ignore[valid-type]
    checkpoints: RunCheckpoints = field(default_factory=RunCheckpoints)
    engine: EngineOptions = field(default_factory=EngineOptions)
    options: dict[str, Any] = field(default_factory=dict)


def run(words: Sequence[str]) -> int:
    """Trains what the words ask for. Everything that can be wrong with them is found before anything is compiled."""
    asked, file, typed = _read([word for word in words if not wants_help([word])])
    names = (str(asked.algorithm), str(asked.readings))
    if wants_help(words):
        from srgdqn.cli.help import print_options_help

        defaults = {} if asked.task is None else defaults_of(asked.task)
        named = composed(defaults, *names, file.options, asked.task)
        print_options_help(Train, asked, named, [asked.options.get("estimator", named["estimator"])])
        return 0
    if asked.task is None:
        raise InputError(
            f"no task was given. Give one of {', '.join(sorted(PRESETS))}, or the id of a Gymnasium environment "
            "(LunarLander-v3, say), as in: srgdqn train MountainCar srg-dqn."
        )
    defaults = defaults_of(asked.task)
    configuration = configure(asked.task, names[0], readings=names[1], defaults=defaults, typed=typed, **asked.options)
    if configuration.network.network not in NETWORKS:
        raise InputError(
            f"the configuration's network is the module {configuration.network.network!r}, which no command line can "
            "give. Train it in Python: srgdqn.train(…, network=…)."
        )
    return _show(asked, _train(asked, configuration, _checkpoint_options(asked)))


def _train(asked: Train, configuration: Configuration, checkpoints: CheckpointOptions | None) -> Outcome:
    from srgdqn.integrations import logging_to
    from srgdqn.integrations.progress import reporting
    from srgdqn.integrations.watching import rows_for_watching

    given = {name: getattr(asked.loggers, name) for name in loggers_with_options()}
    loggers = [loggers_with_options()[name](value) for name, value in given.items() if value is not None]
    # The folder is claimed before anything is written that another run to it would write, and jax is imported below
    # the bar, and after Ray has started its processes.
    with (
        claimed(checkpoints),
        rows_for_watching(asked.out) as rows,
        reporting(configuration, False if asked.quiet else None, lines=True) as bar,
        logging_to(configuration, [*loggers, *rows], bar, curves=bool(loggers)) as listener,
        ready(asked.engine.engine, asked.engine.address),
    ):
        from srgdqn.kernel.program_cache import enable_program_cache
        from srgdqn.session.prepare import prepare
        from srgdqn.session.run_session import NotSavedError, run_session

        def resuming(blocks: list[int]) -> None:
            if blocks and not (asked.quiet or asked.json):
                print(f"resuming from {_position(configuration, blocks)}", file=sys.stderr, flush=True)

        enable_program_cache()
        prepared = prepare(configuration)
        how: dict[str, Any] = {"measure_noise": bool(loggers)} if prepared.on_host else {}
        how |= {"engine": asked.engine.engine, "resuming": resuming}
        try:
            return run_session(prepared, checkpoints, lambda: contextlib.nullcontext(listener), **how)
        except NotSavedError as error:
            _print(asked, error.result, "not saved: see below", None)
            raise


def _position(configuration: Configuration, done: Sequence[int]) -> str:
    """The steps of a run whose jobs have done so many blocks."""
    training = configuration.training
    most = math.inf if training.steps is None else training.steps  # which the last block may exceed
    steps = sorted({min(blocks * training.learning_frequency, most) for blocks in done})
    where = f"step {steps[0]:,}" if len(steps) == 1 else f"steps {steps[0]:,} to {steps[-1]:,}, as rounds differ,"
    return where if training.steps is None else f"{where} of {training.steps:,}"


def _checkpoint_options(asked: Train) -> CheckpointOptions | None:
    given = asked.checkpoints
    if asked.out is not None:
        how = (given.resume, given.overwrite, given.checkpoint_every, given.keep_checkpoints)
        return CheckpointOptions(asked.out, *how).checked()
    for name in ("resume", "overwrite", "checkpoint_every", "keep_checkpoints"):
        if getattr(given, name) != getattr(RunCheckpoints(), name):
            raise InputError(f"--{name.replace('_', '-')} is for runs that are saved. Give --out DIR as well.")
    return None


def _show(asked: Train, outcome: Outcome) -> int:
    """Shows what the run came to, and returns the exit code."""
    from srgdqn.cli import INTERRUPTED
    from srgdqn.cli.presentation import discard_output

    saved = outcome.saved
    if outcome.was_finished and not asked.quiet:
        print(f"{saved} is finished already.", file=sys.stderr)
    try:
        _print(asked, outcome.result, "not saved: give --out DIR to save a run", saved)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("" if saved is None else f"what was reached is saved in {saved}.") from None
    except OSError as error:
        if saved is None or not discard_output(error):
            raise
        print(f"warning: the summary could not be printed ({error.strerror}).", file=sys.stderr)
    if outcome.failure is not None:
        print(f"error: {outcome.failure}", file=sys.stderr)
        return 1
    if not outcome.result.run.provenance.get("interrupted"):
        return 0
    if not asked.quiet:
        left = "nothing was saved." if saved is None else f"what was reached is saved in {saved}; --resume continues."
        print(f"interrupted: {left}", file=sys.stderr)
    return INTERRUPTED


def _print(asked: Train, result: Result, nowhere: str, saved: Path | None) -> None:
    """Prints what a run came to, and where it is saved."""
    if asked.quiet and not asked.json:
        return
    from srgdqn.cli.presentation import phase_seconds, print_json, print_summary
    from srgdqn.results.comparison import summarise

    summary, place = summarise(result), None if saved is None else str(saved)
    if asked.json:
        print_json({**summary.as_dict(), "phase_seconds": phase_seconds(result), "saved": place})
    else:
        print_summary(result, summary, place or nowhere)


def _read(words: Sequence[str]) -> tuple[Train, UserOptions, dict[str, Any]]:
    """What is asked for, with names and options of the file below those given; the file; and the options given."""
    asked = parse(Train, words)
    config = asked.config
    if config is None and asked.task is None and asked.checkpoints.resume and asked.out is not None:
        config = _unfinished_configuration(asked.out)
    file = UserOptions(None, None, None, {}) if config is None else _read_file(config)
    if config is not asked.config and "estimator" in file.options:
        check_estimator_of_run(file.options["estimator"])
    task = file.task if asked.task is None else asked.task
    algorithm = asked.algorithm or file.algorithm or "srg-dqn"
    readings = asked.readings or file.readings or "corrected"
    if task is not None:
        _check_task(task)
    options = layered(_what_the_file_adds(file, task, algorithm, readings, asked.options), asked.options)
    names: dict[str, Any] = {"task": task, "algorithm": algorithm, "readings": readings}
    return replace(asked, **names, options=options), file, asked.options


def _unfinished_configuration(out: Path) -> Path:
    """The configuration of the run to resume, or of one that is finished already."""
    from srgdqn.runs.unfinished import configuration_file

    for file in (configuration_file(out), out / "configuration.toml"):
        if file.is_file():
            return file
    raise InputError(f"there is no run in {out} to resume. Name a task and an algorithm to begin one.")


def _what_the_file_adds(
    file: UserOptions, task: str | None, algorithm: str, readings: str, above: Mapping[str, Any]
) -> dict[str, Any]:
    """The file's options. A run's own file has them all: where the command line gives another name than such a file,
    only those whose values are not just what the file's names stand for. Where options `above` the file, or another
    name, choose another estimator, the numbers of the file's own go with it.
    """
    own = (file.task or task or "", file.algorithm or algorithm, file.readings or readings)
    added, complete = dict(file.options), {*file.options, "task"} >= option_names().keys()
    named = named_options(*own)
    if own != (task, algorithm, readings) and complete:
        added = {name: value for name, value in added.items() if name not in named or named[name] != value}
    added = _in_one_unit(added, named, above)
    given, chosen = (
        options.get("estimator", named_options("", name, readings)["estimator"])
        for options, name in ((file.options, own[1]), ({**added, **above}, algorithm))
    )
    if given == chosen:
        return added
    lost = numbers_of_estimator(given).keys() - numbers_of_estimator(chosen).keys()
    return {name: value for name, value in added.items() if name not in lost}


def _in_one_unit(added: dict[str, Any], named: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The file's options without the period of a target where `above` gives its interval, or the reverse; and without
    a period beside an interval if it is only what the file's names stand for, as a run's own file has it.
    """
    period, interval = "target_period", "target_update_interval"
    lost = [other for name, other in ((period, interval), (interval, period)) if above.get(name) is not None]
    if added.get(interval) is not None and added.get(period) == named[period]:
        lost.append(period)
    return {name: value for name, value in added.items() if name not in lost}


def _check_task(task: str) -> None:
    if task in ALGORITHMS:
        tasks = ", ".join(sorted(PRESETS))
        raise InputError(f"{task!r} is an algorithm, but the task comes first. Give one of {tasks} before it.")
    if is_compiled(task) or (resembles_compiled(task) and not is_identifier(task)):
        preset(task)  # which refuses a misspelt one without importing Gymnasium
        return
    from srgdqn.adapters.registry import check_name, known_identifier

    if is_identifier(task):
        known_identifier(task)
    else:
        check_name(task)


def _read_file(path: Path) -> UserOptions:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(LONGEST + 1)  # a device has no end
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file in UTF-8 ({error.reason}). Give a TOML file.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read ({reason}). Give --config a TOML file.") from error
    try:
        return options_from_toml(text)
    except InputError as error:
        raise InputError(f"in {path}: {error}") from error
