"""`Sweep`: one table over all cells, every cell's result, saving and loading."""

from __future__ import annotations

import functools
import itertools
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from srgdqn.errors import InputError
from srgdqn.results.result import Result, load_result
from srgdqn.results.scores import diverged_rounds, worst_finished
from srgdqn.runs.destination import write_file
from srgdqn.runs.tables import encode_any
from srgdqn.sweeps.folder import CELLS, TABLE, About, begin, cell_folder, check_folder, read_about, write_about
from srgdqn.sweeps.grid import SweepCell, Values, written
from srgdqn.sweeps.scores import NEED_WORST, row_of

if TYPE_CHECKING:
    import equinox as eqx

    from srgdqn.learner.networks import NetworkFactory


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(About):
    """A finished (or interrupted) sweep: the cells that were trained, in their order."""

    results: tuple[Result, ...] = ()
    """The result of each finished cell."""

    @functools.cached_property
    def cells(self) -> tuple[SweepCell, ...]:
        """The finished cells."""
        # Configurations come from the runs, so that a sweep can be read without its environment.
        pairs = zip(self.finished, self.results, strict=True)
        return tuple(SweepCell(values, result.configuration) for values, result in pairs)

    def __repr__(self) -> str:
        state = f", {len(self.failed)} failed" if self.failed else ""
        state += ", interrupted" if self.interrupted else ""
        return f"<Sweep of {self.base.algorithm} on {self.base.task}: {len(self.cells)} cells{state}>"

    @functools.cached_property
    def table(self) -> pl.DataFrame:
        """One row per cell: its number, its values, its rounds, how many diverged, and whether these are more than
        a twentieth (`often_diverged`); its score, its final reward per action (of the rounds that got there), its
        greedy return (of all rounds) and its area under the evaluations' curve (of the rounds that did not diverge),
        each with the 95 % bootstrap interval of the mean. Cells that failed come last, with their values and the reason
        (`failure`) alone.
        """
        tried = self._tried
        values = {name: _column([cell.get(name) for cell in tried]) for name in self.names}
        rows = [row_of(result, self.score, self.diverged_score, self.threshold) for result in self.results]
        kinds = dict.fromkeys(("rounds", "diverged", "final_reward_rounds"), pl.Int64) | {"often_diverged": pl.Boolean}
        columns = rows[0] if rows else {}
        rows += [dict.fromkeys(columns)] * len(self.failed)
        reasons = [*[None] * len(self.results), *(failure.reason for failure in self.failed)]
        return pl.DataFrame(
            [
                pl.Series("cell", range(len(rows)), pl.Int64),
                *(pl.Series(name, column) for name, column in values.items()),
                *(pl.Series(name, [row[name] for row in rows], kinds.get(name, pl.Float64)) for name in columns),
                pl.Series("failure", reasons, pl.String),
            ]
        )

    @property
    def names(self) -> list[str]:
        """The options that cells differ in. A cell lacks the numbers that its estimator has not."""
        return list(dict.fromkeys(itertools.chain(*self._tried)))

    @functools.cached_property
    def diverged_score(self) -> float | None:
        """What a diverged round scores: as the worst round that finished in any cell; None where no score needs it, or
        none finished.
        """
        if self.score not in NEED_WORST or not any(map(diverged_rounds, self.results)):
            return None
        return worst_finished(self.results, self.score)

    @property
    def best(self) -> int:
        """The number of the cell with the highest score; an `InputError` where several are `tied`, as none is best."""
        first, *others = self.tied
        if others:
            raise InputError(
                f"the cells {', '.join(map(str, self.tied))} tie by their {self.score}, so that none is the best. Take "
                "one of sweep.tied, or sweep with another score."
            )
        return first

    @property
    def tied(self) -> tuple[int, ...]:
        """The numbers of all cells that have the highest score (but for rounding): more than one where there is a tie,
        which nothing else breaks. Cells of which more than a twentieth of the rounds diverged do not count; if there
        are no others, those that lost the smallest share do.
        """
        rows = self.table.select("cell", "score", "diverged", "rounds", "often_diverged").rows() if self.cells else []
        scored = [
            (cell, score, diverged / rounds if often else 0.0)
            for cell, score, diverged, rounds, often in rows
            if score is not None and math.isfinite(score)
        ]
        if not scored:
            raise InputError("no cell of this sweep has a score, so that none is the best. Let some rounds finish.")
        least = min(share for _, _, share in scored)
        highest = max(score for _, score, share in scored if share == least)
        return tuple(
            cell for cell, score, share in scored if share == least and math.isclose(score, highest, rel_tol=1e-12)
        )

    def result(self, cell: int) -> Result:
        """The result of the cell with that number."""
        self._check(cell)
        if cell >= len(self.results):
            raise InputError(
                f"cell {cell} has no result, because it failed: {self.failed[cell - len(self.results)].reason} Give "
                "one that was finished."
            )
        return self.results[cell]

    def values(self, cell: int) -> dict[str, Any]:
        """The values of the cell with that number: options to train with, such as `srgdqn.train(…, **values)`."""
        self._check(cell)
        return dict(self._tried[cell])

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Saves every cell's run, the table and `sweep.json` in a folder, which may hold some of them already."""
        path = begin(check_folder(folder, self.base, self.plan), self)
        for cell, result in zip(self.cells, self.results, strict=True):
            result.save(path / CELLS / cell.name, overwrite=True)
        return self.save_table(path)

    def save_table(self, path: Path) -> Path:
        """Writes the table and `sweep.json` beside stored cells."""
        write_file(path / TABLE, encode_any(self.table))
        write_about(path, self)
        return path

    def heat_map(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Draws the scores to an image whose ending (.png, .pdf or .svg) decides the format: a line for one option, a
        heat map for two, and one for every combination of the others where there are more. A search, whose cells form
        no grid, is drawn as points against each option. Cells of which rounds diverged are marked with their number.
        """
        from srgdqn.figures.images import save_figure
        from srgdqn.sweeps.heat_maps import sweep_figure

        return save_figure(sweep_figure(self), path, overwrite=overwrite)

    @property
    def _tried(self) -> list[Values]:
        """The values of every row of the table."""
        return [*self.finished, *(failure.values for failure in self.failed)]

    def _check(self, cell: int) -> None:
        if not 0 <= cell < len(self._tried):
            raise InputError(f"there is no cell {cell!r} in this sweep. Give one of 0 to {len(self._tried) - 1}.")


def load_sweep(folder: str | os.PathLike[str], *, network: eqx.Module | NetworkFactory | None = None) -> Sweep:
    """Loads the sweep in a folder; `network` is the user's own module, where its cells were trained with one."""
    path = Path(folder)
    about = read_about(path)
    results = (load_result(cell_folder(path, values), network=network) for values in about.finished)
    return Sweep(**vars(about), results=tuple(results))


def _column(values: list[Any]) -> list[Any]:
    """Tuples of widths are written as words."""
    return [written(value) for value in values] if any(isinstance(value, tuple) for value in values) else values
