"""`srgdqn sweep`: any option with several values, or searched by Optuna."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from srgdqn.cli.options import Algorithm, CellCheckpoints, EngineOptions, Readings, Task, UserModules
from srgdqn.cli.parsing import Arg, parse, wants_help
from srgdqn.config import option_names
from srgdqn.config.coercion import annotation_of
from srgdqn.config.configure import composed
from srgdqn.config.presets import PRESETS
from srgdqn.engines.choice import ready
from srgdqn.errors import InputError
from srgdqn.sweeps.folder import ABOUT, check_folder
from srgdqn.sweeps.grid import SCORES, Base, GridPlan, Score, check_threshold, name_of, read_value, written
from srgdqn.sweeps.space import SearchPlan, space_from_words

if TYPE_CHECKING:
    from srgdqn.sweeps.sweep import Sweep as Swept

_OF_SEARCH = ("trials", "at_once", "sampler_seed")


@dataclass(frozen=True)
class Sweep:
    """Trains an algorithm on a task with every combination of the values that options are given.

      srgdqn sweep CartPole srg-dqn --eta 1e-3 1e-2 --alpha 1e-4 1e-3 --rounds 16 --out grid
      srgdqn sweep CartPole dqn-adam --hidden 20 20+20 --loss squared huber --steps 50000 --out shapes
      srgdqn sweep CartPole srg-dqn --search eta=1e-4..1e-1 alpha=1e-5..1e-2 --trials 40 --out found

    An option with one value has it in every cell. Widths are joined by +, and switches are true or false. {shown} Cells
    that differ in mere numbers, such as step sizes, run side by side as lanes of one program.

    --search lets Optuna choose instead (pip install 'srgdqn[optuna]'): low..high is a range, log-uniform if it spans a
    decade or more (log: or lin: before it decides), and a,b,c are choices.

    The best cell has the highest score. greedy-return: the last greedy evaluation, on the raw reward, over all
    rounds; one that diverged is scored by its last finite parameters. final-reward: the reward per action in the last
    fifth of the budget. area: the area under the curve of greedy evaluations, per step. By both, a round that diverged
    scores the worst that finished in any cell. solved: the share of rounds whose last greedy return is --threshold or
    more. A cell of which more than a twentieth of the rounds diverged is marked, and is the best only if there is no
    other. Where cells tie, none is the best.

    Finished cells are ordinary runs in DIR/cells. After Ctrl-C or a kill the same command trains only the others, from
    their last checkpoints (--resume says so, and is not needed). A cell whose environment misbehaves is shown as
    failed, the rest continue, and the same command tries it again.
    """

    task: Task = None
    algorithm: Algorithm = None
    readings: Readings = "corrected"
    """What is done where the paper is silent or contradicts itself: repaired, followed to the letter, or repaired with
    the target network and clipped errors of Mnih et al. (2015)."""
    out: Annotated[Path | None, Arg("DIR", "nothing is saved")] = None
    """Folder of the sweep: new, or begun by the same command."""
    figure: Annotated[Path | None, Arg("FILE", "heat-map.png in DIR")] = None
    """Image of the scores, replaced if it is there; its ending (.png, .pdf or .svg) decides the format."""
    score: Score = SCORES[0]
    """What the best cell is chosen by."""
    threshold: Annotated[float | None, Arg("RETURN", "Gymnasium's for the task, if any", least=-math.inf)] = None
    """Greedy return from which on a round counts as solved, for --score solved."""
    search: Annotated[tuple[str, ...] | None, Arg("OPTION=RANGE ...", "a grid")] = None
    """What Optuna searches, such as eta=1e-4..1e-1 gamma=lin:0.9..0.99 hidden=20,20+20."""
    trials: Annotated[int | None, Arg(default="40", least=1)] = None
    """Trials of a search, with those that DIR has already."""
    at_once: Annotated[int | None, Arg(default="8, or 1 if shapes differ", least=1)] = None
    """Trials that Optuna chooses before it knows the score of any of them."""
    sampler_seed: Annotated[int | None, Arg(default="0")] = None
    """Seed of Optuna's sampler."""
    import_: UserModules = ()
    json: bool = False
    """Print the table as JSON, and nothing else, on standard output."""
    quiet: bool = False
    """Show neither progress nor a table."""
    checkpoints: CellCheckpoints = field(default_factory=CellCheckpoints)
    engine: EngineOptions = field(default_factory=EngineOptions)
    options: dict[str, Any] = field(default_factory=dict)


def run(words: Sequence[str]) -> int:
    """Sweeps as the words ask. Everything that can be wrong with them is found before anything is compiled."""
    asked = parse(Sweep, [word for word in words if not wants_help([word])], several=True)
    asked = replace(asked, algorithm=asked.algorithm or "srg-dqn")
    values = {name: _read(name, texts) for name, texts in asked.options.items()}
    fixed = {name: several[0] for name, several in values.items() if len(several) == 1}
    base = Base(asked.task or "", str(asked.algorithm), asked.readings, fixed)
    if wants_help(words):
        named = composed({} if asked.task is None else base.defaults, base.algorithm, base.readings, {}, asked.task)
        from srgdqn.cli.help import print_options_help

        print_options_help(Sweep, asked, named, values.get("estimator", (named["estimator"],)), several=True)
        return 0
    if asked.task is None:
        raise InputError(
            f"no task was given. Give one of {', '.join(sorted(PRESETS))}, such as: srgdqn sweep CartPole srg-dqn "
            "--eta 1e-3 1e-2."
        )
    typed = [word.partition("=")[0].strip("-").replace("-", "_") for word in words]
    tried = {name: values[name] for name in sorted(values.keys() - fixed, key=typed.index)}  # as tables show them
    plan = _plan(asked, base, tried)
    threshold = check_threshold(asked.score, asked.threshold, base.task)
    folder = None if asked.out is None else check_folder(asked.out, base, plan.as_words())
    from srgdqn.figures import check_figure

    figure = None if folder is None else folder / "heat-map.png"
    if asked.figure is not None:
        figure = check_figure(asked.figure, overwrite=True)
    try:
        swept = _train(asked, plan, folder, threshold)
    except KeyboardInterrupt:  # before anything was trained, or for a second time
        if folder is None or not (folder / ABOUT).exists():
            raise
        raise KeyboardInterrupt(f"what was reached is in {folder}, and the same command resumes it.") from None
    return _end(asked, swept, folder, figure)


def _read(name: str, texts: Sequence[str]) -> tuple[Any, ...]:
    """The values of an option, each of them a word."""
    if not texts:
        raise InputError(f"--{name.replace('_', '-')} has no values. Give {_what(name)} after it.")
    return tuple(read_value(name, text) for text in texts)


def _what(name: str) -> str:
    return "true or false" if name in option_names() and annotation_of(name) is bool else "one or more"


def _plan(asked: Sweep, base: Base, tried: dict[str, tuple[Any, ...]]) -> GridPlan | SearchPlan:
    how = {name: getattr(asked, name) for name in _OF_SEARCH if getattr(asked, name) is not None}
    if asked.search is None:
        for name in how:
            raise InputError(f"--{name.replace('_', '-')} is for --search alone. Leave it out, or give --search.")
        return GridPlan(base, tried)
    for name, values in tried.items():
        flag = name.replace("_", "-")
        raise InputError(
            f"--{flag} has several values, and --search is given too. Search it as well, such as --search "
            f"{flag}={','.join(map(written, values))}, or give it one value."
        )
    return SearchPlan(base, space_from_words(list(asked.search)), **how)


def _train(asked: Sweep, plan: GridPlan | SearchPlan, folder: Path | None, threshold: float | None) -> Swept:
    from srgdqn.integrations.progress import reporting

    def say(text: str) -> None:
        if not asked.quiet:
            print(text, file=sys.stderr)

    title = f"{plan.base.task} · {plan.base.algorithm} · {plan.amount}"
    shown = reporting(plan.first.configuration, False if asked.quiet else None, title=title, lines=True)
    with shown as listener, ready(asked.engine.engine, asked.engine.address):
        # Below the bar, which is to be seen while jax is imported.
        from srgdqn.kernel.program_cache import enable_program_cache
        from srgdqn.sweeps.run import run_sweep

        enable_program_cache()
        how = (asked.checkpoints.pace, asked.engine.engine, threshold)
        return run_sweep(plan, folder, asked.score, listener, say, *how)


def _end(asked: Sweep, swept: Swept, folder: Path | None, figure: Path | None) -> int:
    """Draws and shows what the sweep came to, and returns the exit code."""
    from srgdqn.cli import INTERRUPTED
    from srgdqn.cli.sweep_tables import print_sweep, print_sweep_as_json

    drawn = swept.heat_map(figure, overwrite=True) if figure is not None and swept.cells else None
    if asked.json:
        print_sweep_as_json(swept, folder, drawn)
    elif not asked.quiet:
        print_sweep(swept, folder, drawn)
    for failure in swept.failed:
        print(f"error: the cell {name_of(failure.values)} failed: {failure.reason}", file=sys.stderr)
    if not swept.interrupted:
        return 1 if swept.failed else 0
    if not asked.quiet:
        saved = "nothing was saved" if folder is None else "the finished ones are saved, and the same command resumes"
        print(f"interrupted: {len(swept.cells)} of {swept.planned} cells are finished; {saved}.", file=sys.stderr)
    return INTERRUPTED
