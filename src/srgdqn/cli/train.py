"""`srgdqn train`: the options of every room, with the defaults of the task and the algorithm that are named."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

import tyro

from srgdqn.adapters.defaults import defaults_of
from srgdqn.cli import checkpoint_options as care_options
from srgdqn.cli import engine_options as where
from srgdqn.cli.forms import annotated, command_form, flag, logger_option, path_option, positional, readings_option
from srgdqn.cli.help import print_help, wants_help
from srgdqn.cli.options import options
from srgdqn.cli.parsing import parse_with_stray, task_and_algorithm
from srgdqn.config import Configuration, option_names
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.algorithms import algorithm as algorithm_named
from srgdqn.config.configure import composed, configure, layered, named_options
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.options import BUILT_IN_NETWORKS
from srgdqn.config.presets import PRESETS, is_compiled, preset, resembles_compiled
from srgdqn.config.readings import readings as readings_named
from srgdqn.engines.choice import ENGINES, for_training, ready
from srgdqn.errors import InputError
from srgdqn.integrations import LOGGERS
from srgdqn.runs.checkpoint_options import Care
from srgdqn.runs.configurations import LONGEST, UserOptions, options_from_toml

if TYPE_CHECKING:
    from srgdqn.runs.result import Result
    from srgdqn.runs.session import UnderWay

_DESCRIPTION = """Trains an algorithm on a task, all rounds at once.

  srgdqn train MountainCar srg-dqn --rounds 50 --out runs/srg
  srgdqn train CartPole dqn-adam --steps 50000 --alpha 0.005 --hidden 20 20
  srgdqn train LunarLander-v3 srg-dqn --steps 200000 --out runs/lander
  srgdqn train Pendulum-v1 svr-dqn --action-bins 12 --rounds 4
  srgdqn train FrozenLake-v1,is_slippery=false,map_name=8x8 dqn-adam
  srgdqn train --config runs/srg/configuration.toml --out again
  srgdqn train Pendulum svr-dqn --tensorboard logs/svr             then: tensorboard --logdir logs
  srgdqn train --out runs/lander --resume                          goes on with a run that was killed

A task is one of the paper's, compiled, or the id of any Gymnasium environment, which is stepped on the host.

The names decide every default, and each option given overrides one. {shown} A budget (--steps, --outer-iterations or
--episodes) replaces the task's own, whatever its unit.

A run with --out makes a checkpoint now and then, in DIR.unfinished. Killed at any instant, the same command with
--resume goes on from there, and ends with the same bits. Ctrl-C ends a run early: what was reached is saved, and it
can go on."""


class _Asked(NamedTuple):
    """What a command line asks for."""

    task: str | None
    algorithm: str
    readings: str
    options: dict[str, Any]  # the user's: the file's, and above them the command line's
    file: UserOptions
    out: Path | None
    loggers: dict[str, str]  # what those of `LOGGERS` that were asked for are made from
    checkpoint_every: float | None
    keep_checkpoints: int | Literal["all"] | None
    engine: str | None
    address: str | None
    overwrite: bool
    resume: bool
    json: bool
    quiet: bool


def run(words: Sequence[str]) -> int:
    """Trains what the words ask for. Everything that can be wrong with them is found before anything is compiled."""
    asked = _read([word for word in words if not wants_help([word])])
    if wants_help(words):
        _show_help(asked)
        return 0
    if asked.task is None:
        raise InputError(
            f"no task was given. Give one of {', '.join(sorted(PRESETS))}, or the id of a Gymnasium environment "
            "(LunarLander-v3, say), as in: srgdqn train MountainCar srg-dqn."
        )
    defaults = defaults_of(asked.task)
    configuration = configure(asked.task, asked.algorithm, readings=asked.readings, defaults=defaults, **asked.options)
    if configuration.network.network not in BUILT_IN_NETWORKS:
        raise InputError(
            f"the configuration's network is the module {configuration.network.network!r}, which no command line can "
            "give. Train it in Python: srgdqn.train(…, network=…)."
        )
    care = _care(asked)
    # Before anything is written that others write to the same folder.
    with contextlib.nullcontext() if care is None else care.occupied():
        return _train(asked, configuration, care)


def _train(asked: _Asked, configuration: Configuration, care: Care | None) -> int:
    from srgdqn.integrations import listening
    from srgdqn.integrations.json_lines import live_rows
    from srgdqn.integrations.progress import reporting

    loggers, by = [LOGGERS[name](value) for name, value in asked.loggers.items()], asked.engine or ENGINES[0]
    failure: Exception | None = None
    # What watches the run goes on until it is saved.
    with live_rows(asked.out) as live:
        with (
            reporting(configuration, False if asked.quiet else None, lines=True) as bar,
            listening(configuration, [*loggers, *live], bar, curves=bool(loggers)) as listener,
            ready(by, asked.address),  # before jax is imported, as Ray starts processes
        ):
            # Below the bar, which is to be seen while jax is imported.
            from srgdqn.adapters.failures import EnvironmentFailedError
            from srgdqn.api import train_configured, what_decides
            from srgdqn.kernel.program_cache import enable_program_cache
            from srgdqn.runs.session import begin, finished_already

            enable_program_cache()
            run, result = None, None
            if care is not None:
                configuration, about = what_decides(configuration)
                result = finished_already(configuration, about, care)
                run = None if result is not None else begin(configuration, about, care)
            if result is None:
                engine = for_training(by, compiled=is_compiled(configuration.task.task))
                if not is_compiled(configuration.task.task):  # only these can measure their gradients on the way
                    engine["measure_noise"] = bool(loggers)
                engine["keeping"] = None if run is None else run.keeping
                if run is not None and not (asked.quiet or asked.json):
                    _tell_from_where(configuration, run.reached())
                try:
                    result = train_configured(configuration, progress=False, listener=listener, **engine)
                except EnvironmentFailedError as error:
                    result, failure = error.result, error
        if care is not None and run is None and not asked.quiet:
            print(f"{care.out} is finished already.", file=sys.stderr)
        code = _finish(asked, result, run)
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return code


def _tell_from_where(configuration: Configuration, reached: Sequence[int]) -> None:
    """Says from where a run goes on whose strands have lived so many blocks; nothing of one that begins."""
    from srgdqn.training.clock import budget_of

    if not reached:
        return
    budget, block = budget_of(configuration.training), configuration.training.learning_frequency
    most, whole = math.inf, ""
    if budget.unit == "steps":
        most, whole = budget.amount, f" of {budget.amount:,}"  # which the last block may exceed
    steps = sorted({min(blocks * block, most) for blocks in reached})
    told = f"step {steps[0]:,}" if len(steps) == 1 else f"steps {steps[0]:,} to {steps[-1]:,}, as rounds differ,"
    print(f"going on from {told}{whole}", file=sys.stderr, flush=True)


def _care(asked: _Asked) -> Care | None:
    if asked.out is not None:
        kept = (asked.resume, asked.overwrite, asked.checkpoint_every, asked.keep_checkpoints)
        return Care(asked.out, *kept).checked()
    for name in ("resume", *care_options.OF_A_RUN):
        if getattr(asked, name) is not (False if name == "resume" else None):
            raise InputError(f"--{name.replace('_', '-')} is for runs that are saved. Give --out DIR as well.")
    return None


def help_form(configuration: Configuration, *, choices: bool = False) -> type:
    """The dataclass whose help is the command's, with the values of a configuration as defaults."""
    top: list[tuple[str, Any, Any]] = [
        ("task", positional("TASK", PRESETS, _TASK, choices), None),
        ("algorithm", positional("ALGORITHM", ALGORITHMS, "srg-dqn by default", choices), None),
        ("readings", readings_option(), configuration.readings),
        ("config", path_option("FILE", _CONFIG, "(default: none)"), None),
        ("out", path_option("DIR", _OUT, "(default: nothing is saved)"), None),
        *((name, logger_option(logger.metavar, logger.help), None) for name, logger in LOGGERS.items()),
        *((name, kind, None) for name, kind in care_options.OF_A_RUN.items()),
        *((name, kind, default) for name, (kind, default) in where.OPTIONS.items()),
        *((name, flag(text), False) for name, text in _FLAGS.items()),
    ]
    return command_form("Train", _DESCRIPTION, top, configuration, lambda option: annotated(option, choices=choices))


_TASK = "one of the paper's compiled tasks, or a Gymnasium id such as LunarLander-v3"
_CONFIG = (
    "TOML file of names and options, such as a saved run's configuration.toml. The command line is above the file, "
    "and the file above the names' defaults; of a saved run's file, another name here replaces what its own stood for."
)
_OUT = "New or empty folder that the run is saved in. While it is under way, 'srgdqn watch DIR' shows how it goes."
_FLAGS = {
    "overwrite": "Replace the run that is in the folder.",
    "resume": care_options.RESUME,
    "json": "Print the summary as JSON, and nothing else, on standard output.",
    "quiet": "Show neither progress nor a summary.",
}

_FILE_OF_NOTHING = UserOptions(None, None, None, {})


def _parsed_form() -> Any:
    """What the words are read as: a dictionary of what was given, and nothing that was not."""
    given: dict[str, Any] = {
        "names": tyro.conf.Positional[tuple[str, ...]],
        "readings": str,
        "config": Path,
        "out": Path,
        **dict.fromkeys(LOGGERS, str),
        **care_options.OF_A_RUN,
        **{name: kind for name, (kind, _) in where.OPTIONS.items()},
        **dict.fromkeys(_FLAGS, bool),
        **{option.name: annotated(option, choices=False) for option in options()},
    }
    return TypedDict("Train", given, total=False)  # type: ignore[operator]


def _read(words: Sequence[str]) -> _Asked:
    parsed, stray = parse_with_stray(_parsed_form(), words, command="train")
    given = dict(parsed)
    task, algorithm = task_and_algorithm([*given.pop("names", ()), *stray])
    config = given.pop("config", None)
    if config is None and task is None and given.get("resume") and "out" in given:
        config = _what_is_under_way(given["out"])
    file = _FILE_OF_NOTHING if config is None else _read_file(config)
    own = {name: given.pop(name, False) for name in _FLAGS}
    loggers = {name: given.pop(name) for name in LOGGERS if name in given}
    told = ("out", *care_options.OF_A_RUN, *where.OPTIONS)
    others = {name: given.pop(name, None) for name in told}
    readings = given.pop("readings", None) or file.readings or "corrected"
    task = file.task if task is None else task
    algorithm = (file.algorithm or "srg-dqn") if algorithm is None else algorithm
    _check_names(task, algorithm, readings)
    kept = _what_the_file_adds(file, task, algorithm, readings)
    return _Asked(task, algorithm, readings, layered(kept, given), file, loggers=loggers, **others, **own)


def _what_is_under_way(out: Path) -> Path:
    """The configuration of what is to go on, or of what is finished already."""
    from srgdqn.runs.run_folder import configuration_file

    for file in (configuration_file(out), out / "configuration.toml"):
        if file.is_file():
            return file
    raise InputError(f"there is no run in {out} to go on with. Name a task and an algorithm to begin one.")


def _what_the_file_adds(file: UserOptions, task: str | None, algorithm: str, readings: str) -> dict[str, Any]:
    """The file's options. A run's own file has them all: where the command line gives another name than such a file,
    only those whose values are not just what the file's names stand for.
    """
    own = (file.task or task or "", file.algorithm or algorithm, file.readings or readings)
    complete = {*file.options, "task"} >= option_names().keys()
    if own == (task, algorithm, readings) or not complete:
        return dict(file.options)
    named = named_options(*own)
    return {name: value for name, value in file.options.items() if named[name] != value}


def _check_names(task: str | None, algorithm: str, readings: str) -> None:
    if task in ALGORITHMS:
        tasks = ", ".join(sorted(PRESETS))
        raise InputError(f"{task!r} is an algorithm, but the task comes first. Give one of {tasks} before it.")
    if task is not None:
        _check_task(task)
    algorithm_named(algorithm)
    readings_named(readings)


def _check_task(task: str) -> None:
    if is_compiled(task) or (resembles_compiled(task) and not is_identifier(task)):
        preset(task)  # which tells of a misspelt one without having Gymnasium imported
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


def _finish(asked: _Asked, result: Result, under_way: UnderWay | None) -> int:
    """Saves the run where that is wished, and says what it came to, in any case."""
    from srgdqn.cli import INTERRUPTED

    saved, problem = asked.out, None
    try:
        if under_way is not None:
            saved = under_way.save(result)
    except InputError as error:
        saved, problem = None, error
    if asked.json or not asked.quiet:
        _tell(result, saved, as_json=asked.json, failed=problem is not None)
    if problem is not None:
        raise problem
    if result.run.provenance.get("interrupted"):
        kept = "nothing was saved." if saved is None else f"what was reached is saved in {saved}, and --resume goes on."
        if not asked.quiet:
            print(f"interrupted: {kept}", file=sys.stderr)
        return INTERRUPTED
    return 0


def _tell(result: Result, saved: Path | None, *, as_json: bool, failed: bool) -> None:
    """Says what the run came to, and where it is saved, or that this `failed`."""
    from srgdqn.cli.presentation import phase_seconds, print_json, print_summary
    from srgdqn.runs.comparison import summarise

    summary = summarise(result)
    if as_json:
        place = None if saved is None else str(saved)
        print_json({**summary.as_dict(), "phase_seconds": phase_seconds(result), "saved": place})
    else:
        nowhere = "not saved: see below" if failed else "not saved: give --out DIR to keep a run"
        print_summary(result, summary, nowhere if saved is None else str(saved))


def _show_help(asked: _Asked) -> None:
    defaults = Configuration(asked.algorithm, asked.readings).with_options(
        composed(
            {} if asked.task is None else defaults_of(asked.task),
            asked.algorithm,
            asked.readings,
            asked.file.options,
            asked.task,
        )
    )
    shown = "The defaults below are those of no task in particular: name one to see its own."
    if asked.task is not None:
        shown = f"The defaults below are those of {asked.task} with {asked.algorithm} ({asked.readings} readings)."
    print_help(help_form(defaults), command="train", description=_DESCRIPTION.format(shown=shown))
