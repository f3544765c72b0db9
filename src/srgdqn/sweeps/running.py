"""Cells filled: read where they are kept, trained and kept there otherwise; and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.runs.cache import Say, finished, why_not_this
from srgdqn.runs.checkpoint_manager import USUAL, Keeping, Pace
from srgdqn.runs.comparison import final_rewards, spread_of
from srgdqn.runs.provenance import LOCAL
from srgdqn.runs.result import Result, load_result
from srgdqn.runs.run_folder import CELLS_UNDER_WAY
from srgdqn.sweeps.folder import CELLS, FAILED
from srgdqn.sweeps.grid import Cell
from srgdqn.sweeps.scores import Score
from srgdqn.sweeps.scoring import needs_chance, random_policy
from srgdqn.sweeps.together import train_each
from srgdqn.training.rounds import Listener

_RANDOM = "random-policy"


class _KeptCell:
    """A cell as `srgdqn.runs.cache` knows such things."""

    def __init__(self, name: str, configuration: Configuration) -> None:
        self.name, self._configuration = name, configuration

    def load(self, folder: Path) -> tuple[Result, str | None]:
        result = load_result(folder)
        return result, why_not_this(result, self._configuration)


class Shelf:
    """Where the cells of a sweep are kept: in a folder, or only in memory. Those that failed have another, as none of
    them may take the place of a finished one.
    """

    def __init__(
        self, folder: Path | None, say: Say, failed: Path | None = None, keeping: Keeping | None = None
    ) -> None:
        """`keeping` is where cells are kept while they are under way."""
        self._folder, self._say, self._failed, self.keeping = folder, say, failed, keeping

    def found(self, name: str, configuration: Configuration) -> Result | None:
        """The result of the configuration, if it is there and still what training would give."""
        if self._folder is None:
            return None
        kept: Result | None = finished(_KeptCell(name, configuration), self._folder, self._say)
        return kept

    def keep(self, name: str, result: Result) -> None:
        """Keeps a result."""
        if self._folder is not None:
            result.save(self._folder / name, overwrite=True)

    def keep_failed(self, name: str, result: Result) -> None:
        """Keeps what a cell had learnt before it failed."""
        if self._failed is not None:
            result.save(self._failed / name, overwrite=True)


def shelves(folder: Path | None, say: Say, pace: Pace = USUAL) -> tuple[Shelf, Shelf]:
    """Where cells are kept, and where the random policy's run is."""
    if folder is None:
        return Shelf(None, say), Shelf(None, say)
    keeping = Keeping(folder / CELLS_UNDER_WAY, *pace)
    return Shelf(folder / CELLS, say, folder / FAILED, keeping), Shelf(folder, say)


def look_up(cells: Sequence[Cell], shelf: Shelf, results: dict[str, Result]) -> None:
    """Puts the result of every cell that is kept among the `results`, by name."""
    for cell in cells:
        if cell.name not in results and (kept := shelf.found(cell.name, cell.configuration)) is not None:
            results[cell.name] = kept


def fill(
    cells: Sequence[Cell],
    shelf: Shelf,
    results: dict[str, Result],
    failures: dict[str, str],
    listener: Listener,
    engine: str = LOCAL,
) -> bool:
    """The same, and trains and keeps the cells that are not there. Why one came to nothing, because its environment
    misbehaved, is put among the `failures`, by name; none of these is tried twice.

    Tells whether that was done: a KeyboardInterrupt ends it early.
    """
    look_up(cells, shelf, results)
    missing = [cell for name, cell in {cell.name: cell for cell in cells}.items() if name not in {*results, *failures}]

    def done(place: int, result: Result) -> None:
        shelf.keep(missing[place].name, result)
        results[missing[place].name] = result

    def failed(place: int, error: EnvironmentFailedError) -> None:
        if error.result is not None:
            shelf.keep_failed(missing[place].name, error.result)
        failures[missing[place].name] = " ".join(str(error).split())

    try:
        configurations = [cell.configuration for cell in missing]
        train_each(configurations, done, failed=failed, listener=listener, keeping=shelf.keeping, engine=engine)
    except KeyboardInterrupt:
        return False
    if shelf.keeping is not None:
        shelf.keeping.forget()
    return True


def check_some_finished(results: Mapping[str, Result], failures: Mapping[str, str]) -> None:
    """An `EnvironmentFailedError` if all that was tried failed."""
    if failures and not results:
        name, reason = next(iter(failures.items()))
        raise EnvironmentFailedError(f"no cell of the sweep was finished, as each one failed. {name}: {reason}")


class Judge:
    """Knows what the random policy's final reward is, once somebody needs to."""

    def __init__(self, score: Score, configuration: Configuration, shelf: Shelf) -> None:
        self._score, self._configuration, self._shelf = score, random_policy(configuration), shelf
        self.chance: float | None = None

    def prepare(self, results: Sequence[Result]) -> None:
        """Finds out what the random policy scores, if one of the results' scores depends on it."""
        if self.chance is not None or not any(needs_chance(result, self._score) for result in results):
            return
        found = self._shelf.found(_RANDOM, self._configuration)
        if found is None:
            found = self._tried()
            self._shelf.keep(_RANDOM, found)
        self.chance = spread_of(final_rewards(found).values()).mean
        if self.chance is None:
            raise InputError("the random policy never reached the end of the budget. Give score = greedy-return.")

    def _tried(self) -> Result:
        trained: list[Result] = []
        try:
            train_each([self._configuration], lambda place, result: trained.append(result))
        except EnvironmentFailedError as error:
            raise InputError(
                f"the random policy, which rounds that diverged score as, could not be tried: {error} Or give "
                "score = greedy-return."
            ) from error
        [found] = trained
        return found
