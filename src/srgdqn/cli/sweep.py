"""`srgdqn sweep`: any option with several values, or searched by Optuna."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.cli import checkpoint_options as care_options
from srgdqn.cli import engine_options as where
from srgdqn.cli.forms import command_form, flag, help_text, path_option, positional, readings_option
from srgdqn.cli.help import print_help, wants_help
from srgdqn.cli.options import Option, RefusedError, options
from srgdqn.cli.parsing import one_of, parse_with_stray, task_and_algorithm, whole
from srgdqn.config import Configuration
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.configure import composed
from srgdqn.config.presets import PRESETS
from srgdqn.engines.choice import ENGINES, ready
from srgdqn.errors import InputError
from srgdqn.sweeps.folder import ABOUT, check_folder
from srgdqn.sweeps.grid import SCORES, Base, Score, SweepCell, cells_of, checked_values, name_of, read_value, written
from srgdqn.sweeps.space import SearchPlan, search_plan, space_from_words

if TYPE_CHECKING:
    from srgdqn.sweeps.sweep import Sweep

_DESCRIPTION = """Trains an algorithm on a task with every combination of the values that options are given.

  srgdqn sweep CartPole srg-dqn --eta 1e-3 1e-2 --alpha 1e-4 1e-3 --rounds 16 --out grid
  srgdqn sweep CartPole dqn-adam --hidden 20 20+20 --loss squared huber --steps 50000 --out shapes
  srgdqn sweep CartPole srg-dqn --search eta=1e-4..1e-1 alpha=1e-5..1e-2 --trials 40 --out found

An option with one value has it in every cell. Widths are joined by +, and switches are true or false. {shown} Cells
that differ in mere numbers, such as step sizes, run side by side as lanes of one program.

--search lets Optuna choose instead (pip install 'srgdqn[optuna]'): low..high is a range, log-uniform if it spans a
decade or more (log: or lin: before it decides), and a,b,c are choices.

The best cell has the highest score. greedy-return: the last greedy evaluation, on the raw reward, over all rounds; one
that diverged is judged by its last finite parameters. final-reward: the reward per action in the last fifth of the
budget; a round that diverged scores as the random policy. How many diverged is told beside every score.

Finished cells are ordinary runs in DIR/cells. Ctrl-C keeps them, and the same command again trains only the others,
those under way from their last checkpoint, also after a kill (--resume says so, and is not needed). So
it does with cells whose environment misbehaved, which are told as failed while the rest goes on."""


class _Asked(NamedTuple):
    """What a command line asks for."""

    base: Base
    tried: dict[str, tuple[Any, ...]]
    search: list[str] | None
    own: dict[str, Any]  # what is the command's own, as far as it was given

    def flag(self, name: str) -> bool:
        return bool(self.own.get(name, False))


def run(words: Sequence[str]) -> int:
    """Sweeps as the words ask. Everything that can be wrong with them is found before anything is compiled."""
    task, asked = _read([word for word in words if not wants_help([word])])
    if wants_help(words):
        _show_help(task, asked)
        return 0
    if task is None:
        raise InputError(
            f"no task was given. Give one of {', '.join(sorted(PRESETS))}, such as: srgdqn sweep CartPole srg-dqn "
            "--eta 1e-3 1e-2."
        )
    plan: SearchPlan | None = None
    cells: list[SweepCell] = []
    if asked.search is None:
        for name in ("trials", "at_once", "sampler_seed"):
            if name in asked.own:
                raise InputError(f"--{name.replace('_', '-')} is for --search alone. Leave it out, or give --search.")
        cells = cells_of(asked.base, checked_values(asked.tried))
    else:
        plan = _plan(asked, asked.search)
    folder = _folder(asked, plan)
    figure = _figure(asked, folder)
    from srgdqn.cli import INTERRUPTED

    try:
        swept = _train(asked, cells, plan, folder)
    except EnvironmentFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before anything was trained, or for a second time
        if folder is None or not (folder / ABOUT).exists():
            raise
        print(f"interrupted: what was reached is in {folder}, and the same command goes on.", file=sys.stderr)
        return INTERRUPTED
    return _finish(asked, swept, folder, figure)


def help_form(configuration: Configuration, *, choices: bool = False) -> type:
    """The dataclass whose help is the command's, with the values of a configuration as defaults."""
    score = Annotated[Score, one_of("score", SCORES), help_text(_OWN["score"])]
    top: list[tuple[str, Any, Any]] = [
        ("task", positional("TASK", PRESETS, "one of the paper's compiled tasks", choices), None),
        ("algorithm", positional("ALGORITHM", ALGORITHMS, "srg-dqn by default", choices), None),
        ("readings", readings_option(), configuration.readings),
        ("out", path_option("DIR", _OWN["out"], "(default: nothing is saved)"), None),
        ("figure", path_option("FILE", _OWN["figure"], "(default: heat-map.png in DIR)"), None),
        ("score", score, SCORES[0]),
        ("search", Annotated[tuple[str, ...], _words("OPTION=RANGE"), _hinted("search", "(default: a grid)")], ()),
        ("trials", Annotated[int, help_text(_OWN["trials"])], 40),
        ("at_once", Annotated[int | None, _hinted("at_once", "(default: 8, or 1 if shapes differ)", "INT")], None),
        ("sampler_seed", Annotated[int, help_text(_OWN["sampler_seed"])], 0),
        *((name, kind, None) for name, kind in care_options.OF_CELLS.items()),
        *((name, kind, default) for name, (kind, default) in where.OPTIONS.items()),
        *((name, flag(_OWN[name]), False) for name in _FLAGS),
    ]
    return command_form("Sweep", _DESCRIPTION, top, configuration, lambda option: _several(option, choices=choices))


_OWN = {
    "out": "Folder of the sweep: new, or begun by the same command.",
    "figure": "Image of the scores, replaced if it is there; its ending (.png, .pdf or .svg) decides the format.",
    "score": "What the best cell is chosen by.",
    "search": "What Optuna searches, such as eta=1e-4..1e-1 gamma=lin:0.9..0.99 hidden=20,20+20.",
    "trials": "Trials of a search, with those that DIR has already.",
    "at_once": "Trials that Optuna chooses before it is told how any of them went.",
    "sampler_seed": "Seed of Optuna's sampler.",
    "json": "Print the table as JSON, and nothing else, on standard output.",
    "quiet": "Show neither progress nor a table.",
    "resume": care_options.GOES_ON,
}
_FLAGS = ("json", "quiet", "resume")


def _parsed_form() -> Any:
    """What the words are read as: a dictionary of what was given, and nothing that was not."""
    given: dict[str, Any] = {
        "names": tyro.conf.Positional[tuple[str, ...]],
        "readings": str,
        "out": Path,
        "figure": Path,
        "score": Annotated[str, one_of("score", SCORES)],
        "search": Annotated[tuple[str, ...], _words("OPTION=RANGE")],
        "trials": Annotated[int, whole("trials", 1)],
        "at_once": Annotated[int, whole("at-once", 1)],
        "sampler_seed": Annotated[int, whole("sampler-seed", 0)],
        **care_options.OF_CELLS,
        **{name: kind for name, (kind, _) in where.OPTIONS.items()},
        **dict.fromkeys(_FLAGS, bool),
        **{option.name: _several(option, choices=False) for option in options()},
    }
    return TypedDict("Sweep", given, total=False)  # type: ignore[operator]


def _read(words: Sequence[str]) -> tuple[str | None, _Asked]:
    """The task, if one was named, and what is asked of it."""
    parsed, stray = parse_with_stray(_parsed_form(), words, command="sweep")
    given = dict(parsed)
    task, algorithm = task_and_algorithm([*given.pop("names", ()), *stray])
    own = {name: given.pop(name) for name in (*_OWN, *care_options.OF_CELLS, *where.OPTIONS) if name in given}
    readings = given.pop("readings", "corrected")
    fixed = {name: values[0] for name, values in given.items() if len(values) == 1}
    typed = [word.partition("=")[0].strip("-").replace("-", "_") for word in words]
    several = [name for name, values in given.items() if len(values) > 1]
    tried = {name: given[name] for name in sorted(several, key=typed.index)}  # tables and figures keep their order
    base = Base(task or "", "srg-dqn" if algorithm is None else algorithm, readings, fixed)
    search = own.pop("search", None)
    return task, _Asked(base, tried, None if search is None else list(search), own)


def _plan(asked: _Asked, words: list[str]) -> SearchPlan:
    if asked.tried:
        name = next(iter(asked.tried)).replace("_", "-")
        raise InputError(
            f"--{name} has several values, and --search is given too. Search it as well, such as --search "
            f"{name}={','.join(map(written, asked.tried[name.replace('-', '_')]))}, or give it one value."
        )
    how = {name: asked.own[name] for name in ("trials", "at_once", "sampler_seed") if name in asked.own}
    return search_plan(asked.base, space_from_words(words), **how)


def _folder(asked: _Asked, plan: SearchPlan | None) -> Path | None:
    out = asked.own.get("out")
    if out is None:
        return None
    return check_folder(out, asked.base, {} if plan is None else plan.as_words())


def _figure(asked: _Asked, folder: Path | None) -> Path | None:
    from srgdqn.figures import check_figure

    if "figure" in asked.own:
        return check_figure(asked.own["figure"], overwrite=True)
    return None if folder is None else folder / "heat-map.png"


def _train(asked: _Asked, cells: list[SweepCell], plan: SearchPlan | None, folder: Path | None) -> Sweep:
    from srgdqn.integrations.progress import reporting

    base, quiet = asked.base, asked.flag("quiet")
    ends = {} if plan is None else {name: part.ends()[0] for name, part in plan.space.items()}
    first = cells[0].configuration if cells else base.configured(ends)
    amount = f"{len(cells)} cells" if plan is None else f"{plan.trials} trials"
    score: Score = asked.own.get("score", SCORES[0])

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr)

    title = f"{base.task} · {base.algorithm} · {amount}"
    engine = asked.own.get("engine", ENGINES[0])
    shown = reporting(first, False if quiet else None, title=title, lines=True)
    with shown as listener, ready(engine, asked.own.get("address")):
        # Below the bar, which is to be seen while jax is imported.
        from srgdqn.kernel.program_cache import enable_program_cache

        enable_program_cache()
        pace = care_options.pace(asked.own)
        if plan is None:
            from srgdqn.sweeps.run_grid import run_grid

            return run_grid(base, checked_values(asked.tried), cells, folder, score, listener, say, pace, engine)
        from srgdqn.sweeps.run_search import run_search

        return run_search(base, plan, folder, score, listener, say, pace, engine)


def _finish(asked: _Asked, swept: Sweep, folder: Path | None, figure: Path | None) -> int:
    """Draws and says what the sweep came to."""
    from srgdqn.cli import INTERRUPTED
    from srgdqn.cli.sweep_tables import print_sweep, print_sweep_as_json

    drawn = swept.heat_map(figure, overwrite=True) if figure is not None and swept.cells else None
    if asked.flag("json"):
        print_sweep_as_json(swept, folder, drawn)
    elif not asked.flag("quiet"):
        print_sweep(swept, folder, drawn)
    for failure in swept.failed:
        print(f"error: the cell {name_of(failure.values)} failed: {failure.reason}", file=sys.stderr)
    if not swept.interrupted:
        return 1 if swept.failed else 0
    if not asked.flag("quiet"):
        kept = "nothing was saved" if folder is None else "the finished ones are saved, and the same command goes on"
        print(f"interrupted: {len(swept.cells)} of {swept.planned} cells are finished; {kept}.", file=sys.stderr)
    return INTERRUPTED


def _show_help(task: str | None, asked: _Asked) -> None:
    base = asked.base
    defaults = Configuration(base.algorithm, base.readings).with_options(
        composed({} if task is None else base.defaults, base.algorithm, base.readings, {}, task)
    )
    shown = "The defaults below are those of no task in particular: name one to see its own."
    if task is not None:
        shown = f"The defaults below are those of {task} with {base.algorithm} ({base.readings} readings)."
    print_help(help_form(defaults), command="sweep", description=_DESCRIPTION.format(shown=shown))


def _several(option: Option, *, choices: bool) -> Any:
    """The annotation of an option that takes several values, each of them a word."""

    def read(texts: list[str]) -> tuple[Any, ...]:
        if not texts:
            raise RefusedError(f"--{option.name.replace('_', '-')} has no values. Give one or more after it.")
        try:
            return tuple(read_value(option.name, text) for text in texts)
        except InputError as error:
            raise RefusedError(str(error)) from error

    known = ("true", "false") if option.is_flag else option.choices
    metavar = "{true,false}" if option.is_flag else option.metavar.strip("[] .")
    if option.is_list:
        metavar = "INT[+INT ...]"
    specification: PrimitiveConstructorSpec[Any] = PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"{metavar} ...",
        instance_from_str=read,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [written(value)],
        choices=known if choices else None,
    )
    return Annotated[Any, specification, help_text(option.sentence)]


def _words(metavar: str) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"{metavar} ...",
        instance_from_str=tuple,
        is_instance=lambda value: True,
        str_from_instance=list,
    )


def _hinted(name: str, hint: str, metavar: str | None = None) -> Any:
    return tyro.conf.arg(metavar=metavar, help=_OWN[name], help_behavior_hint=hint)
