"""`srgdqn reproduce`: everything the paper shows, at its own scale, with a verdict on every claim."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from srgdqn.cli.options import CellCheckpoints, EngineOptions
from srgdqn.cli.parsing import Arg, parse
from srgdqn.config.algorithms import READINGS
from srgdqn.engines.choice import ready
from srgdqn.errors import InputError, unknown
from srgdqn.paper.studies import NAMES

if TYPE_CHECKING:
    from srgdqn.paper.cells import Console
    from srgdqn.paper.report.contents import ClaimCard, Report
    from srgdqn.paper.scale import Scale
    from srgdqn.runs.checkpoint_manager import Pace

NOISE = "noise"
"""The study that is named like an experiment, and is in no other run."""


@dataclass(frozen=True)
class Reproduce:
    """Reproduces the paper: every figure and table at its own scale, and a report with a verdict on every claim.

    Verdicts are taken on fresh seeds, by an option of its own (--confirm). Until that is run again, the report shows
    those that the package was released with, and likewise for the other long studies (--adam-steps, --tuned,
    --readings, --fingerprint), each of which says first how long it takes. Whatever is interrupted resumes where it
    stopped: a finished cell is never computed again unless what it depends on has changed.

    `noise` is a study apart, with a page of its own: where gradient noise limits learning, and what estimators do to it
    (hours).
    """

    experiments: Annotated[
        tuple[str, ...], Arg("[EXPERIMENT ...]", "all by default", positional=True, names=(*NAMES, NOISE))
    ] = ()
    out: Annotated[Path, Arg("DIR")] = Path("results")
    """Folder of the report, its figures and tables, and the cells."""
    quick: bool = False
    """A preview of every figure in a minute or so: few rounds, short budgets."""
    confirm: bool = False
    """Judge every claim on fresh seeds, for every set of readings (about an hour)."""
    adam_steps: bool = False
    """Compare Adam at every inner step along SRG's, SVRG's and plain gradients, step sizes tuned (half an hour)."""
    tuned: bool = False
    """Tune every algorithm's step sizes by the same procedure, and compare them so (three quarters of an hour)."""
    readings: bool = False
    """Run the paper's algorithms under all 512 combinations of what the paper leaves open (about an hour)."""
    fingerprint: bool = False
    """Find the readings that could have printed the paper's Table 2 (half an hour)."""
    task: Annotated[tuple[str, ...], Arg("NAME", "all", repeated=True)] = ()
    """The tasks of the noise map, which is computed task by task."""
    exact_rounds: Annotated[int, Arg(least=2)] = 10
    """Rounds of Figure 1, which the paper does not give."""
    exact_steps: Annotated[int, Arg(least=2_000)] = 20_000
    """Steps of Figure 1, which the paper does not give; time grows with their square."""
    json: bool = False
    """Print the verdicts as JSON, and nothing else, on standard output."""
    quiet: bool = False
    """Show neither progress nor tables."""
    checkpoints: CellCheckpoints = field(default_factory=CellCheckpoints)
    engine: EngineOptions = field(default_factory=EngineOptions)


def run(words: Sequence[str]) -> int:
    """Reproduces the paper."""
    asked = parse(Reproduce, words)

    from srgdqn.cli import INTERRUPTED
    from srgdqn.kernel.program_cache import enable_program_cache
    from srgdqn.runs.destination import make_folder
    from srgdqn.runs.locks import locked

    names = tuple(dict.fromkeys(asked.experiments))
    if NOISE in names:
        return _run_noise(asked, names)
    if asked.task:
        raise InputError(f"--task is of the noise map. Give it with srgdqn reproduce {NOISE}, or leave it out.")
    for name in names:
        if name not in NAMES:
            if name in READINGS:
                raise InputError(f"{name} is a set of readings, and --readings is a switch here. Leave {name} out.")
            raise unknown("experiment", name, NAMES)
    if asked.quick and _long_kinds(asked):
        raise InputError(
            "--quick is a preview and decides nothing. Leave it out, or leave out what else was asked for."
        )
    if asked.quick and (asked.exact_rounds, asked.exact_steps) != (Reproduce.exact_rounds, Reproduce.exact_steps):
        raise InputError(
            "--exact-rounds and --exact-steps are Figure 1's own scale, which --quick replaces. Leave one out."
        )
    folder = make_folder(asked.out)
    try:
        with locked(folder, what="the folder of a reproduction"), ready(asked.engine.engine, asked.engine.address):
            enable_program_cache()  # which imports jax: Ray is better started before
            report = _reproduce(asked, names, folder)
    except KeyboardInterrupt:
        _say_interrupted(folder)
        return INTERRUPTED
    _show(asked, report, folder)
    return 0


def _run_noise(asked: Reproduce, names: Sequence[str]) -> int:
    """The noise map, with a page of its own; it is not among what the paper shows."""
    from srgdqn.cli import INTERRUPTED
    from srgdqn.kernel.program_cache import enable_program_cache
    from srgdqn.paper import noise
    from srgdqn.runs.destination import make_folder
    from srgdqn.runs.locks import locked

    if len(names) > 1 or _long_kinds(asked):
        raise InputError(f"{NOISE} is a study by itself, and takes hours. Leave out what else was asked for.")
    plan = noise.QUICK if asked.quick else noise.PLAN
    tasks = noise.tasks_of(plan, asked.task)
    folder = make_folder(asked.out)
    if not (asked.quiet or asked.json):
        print("\n".join(noise.time_lines(plan, tasks)), file=sys.stderr)
    try:
        with locked(folder, what="the folder of a reproduction"), ready(asked.engine.engine, asked.engine.address):
            enable_program_cache()
            page, found = _noise(asked, folder, tasks)
    except KeyboardInterrupt:
        _say_interrupted(folder)
        return INTERRUPTED
    if asked.json:
        from srgdqn.cli.presentation import print_json

        print_json({"found": found, "report": str(page)})
    elif not asked.quiet:
        print(f"{found}\n{page}")
    return 0


def _say_interrupted(folder: Path) -> None:
    print(f"interrupted: finished cells are saved in {folder}, and the same command resumes there.", file=sys.stderr)


def _noise(asked: Reproduce, folder: Path, tasks: Sequence[str]) -> tuple[Path, str]:
    """The page, and what it says first."""
    from srgdqn.paper import noise
    from srgdqn.paper.claims.evidence import write_evidence
    from srgdqn.paper.report.files import write_report
    from srgdqn.paper.reproduce import noise_report

    plan = noise.QUICK if asked.quick else noise.PLAN
    start = time.perf_counter()
    with _console([], asked.checkpoints.pace, asked.engine.engine, shown=not (asked.quiet or asked.json)) as console:
        evidence = noise.run(folder, console, plan, tasks)
    place = noise.folder_of(folder, plan)
    write_evidence(evidence, place if asked.quick else folder)  # a preview is no evidence
    report = noise_report(evidence, time.perf_counter() - start, preview=asked.quick)
    return write_report(report, place)[0], report.sections[0].found


def _reproduce(asked: Reproduce, names: Sequence[str], folder: Path) -> Report:
    from srgdqn.paper.claims.evidence import write_evidence
    from srgdqn.paper.report.files import write_report
    from srgdqn.paper.reproduce import LONG, check_evidence, make_report, run_experiments
    from srgdqn.paper.studies import EXPERIMENTS

    check_evidence(folder)
    names = names or tuple(EXPERIMENTS)
    start = time.perf_counter()
    said: list[str] = []
    with _console(said, asked.checkpoints.pace, asked.engine.engine, shown=not (asked.quiet or asked.json)) as console:
        for kind in _long_kinds(asked):
            if not asked.quiet:
                print(_takes(kind, LONG[kind].minutes), file=sys.stderr)
            write_evidence(LONG[kind].run(folder, console), folder)
        scale = _scale(asked)
        outcomes = run_experiments(names, scale, folder, console)
        report = make_report(names, scale, outcomes, folder, time.perf_counter() - start, said)
        write_report(report, folder)
    return report


def _long_kinds(asked: Reproduce) -> list[str]:
    """The kinds of evidence that are to be made anew."""
    wanted = {
        "confirmation": asked.confirm,
        "adam-steps": asked.adam_steps,
        "tuned": asked.tuned,
        "factorial": asked.readings,
        "fingerprint": asked.fingerprint,
    }
    return [kind for kind, yes in wanted.items() if yes]


def _takes(kind: str, minutes: int) -> str:
    return f"{kind}: about {minutes} minutes on two cores, unless a part is done. Ctrl-C keeps what is finished."


def _scale(asked: Reproduce) -> Scale:
    from srgdqn.paper.scale import PAPER_SCALE, QUICK

    if asked.quick:
        return QUICK
    return dataclasses.replace(PAPER_SCALE, exact_rounds=asked.exact_rounds, exact_steps=asked.exact_steps)


def _show(asked: Reproduce, report: Report, folder: Path) -> None:
    from srgdqn.cli.presentation import print_json, print_table
    from srgdqn.paper.report.contents import readings_of

    if asked.json:
        claims = [dataclasses.asdict(card) for card in report.cards]
        answer = list(report.first.answer) if report.first else []
        print_json({"answer": answer, "claims": claims, "report": str(folder / "report.html")})
        return
    if asked.quiet:
        return
    readings = readings_of(report.cards)
    print_table(
        "Verdicts of the confirmatory run",
        ("claim", *readings, "what the paper says"),
        [(card.name, *(_marked(card, each) for each in readings), card.claim) for card in report.cards],
        numeric=False,
    )
    if report.first:
        print(f"{report.first.question} {' '.join(report.first.answer)}\n")
    print(report.rules)
    print_table(
        "What it took",
        ("experiment", "seconds of one core", "budget"),
        [
            (section.name, f"{section.seconds:.0f}", f"{section.budget_seconds:.0f}")
            for section in report.sections
            if section.seconds is not None and section.budget_seconds is not None
        ],
    )
    print(folder / "report.html")


def _marked(card: ClaimCard, readings: str) -> str:
    """The verdict with its marks."""
    return ", ".join((card.verdicts.get(readings, "–"), *card.marks.get(readings, ())))


@contextmanager
def _console(said: list[str], pace: Pace, engine: str, *, shown: bool) -> Iterator[Console]:
    """One bar over the unfinished cells on standard error, where that is a terminal; what is said is printed there."""
    from rich.console import Console as Terminal
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from srgdqn.paper.cells import Console

    terminal = Terminal(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    bar = Progress(
        *columns,
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=terminal,
        disable=not (shown and terminal.is_terminal),
    )
    shares: dict[str, float] = {}
    lock = threading.Lock()
    task = bar.add_task("", total=None)

    def begin(title: str, names: Sequence[str]) -> None:
        with lock:
            shares.clear()
            shares.update(dict.fromkeys(names, 0.0))
            bar.reset(task, total=len(names), description=title)

    def update(name: str, share: float) -> None:
        with lock:
            shares[name] = share
            bar.update(task, completed=sum(shares.values()), description=name)

    def say(text: str) -> None:
        said.append(text)
        terminal.print(text)

    with bar:
        yield Console(begin, update, say, pace, engine)
