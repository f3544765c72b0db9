"""Table 2: the standard deviation of the first layer's gradient, SVR-DQN against SRG-DQN, by three definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from srgdqn.figures.charts import GREEN, ORANGE, Chart, Panel, Series, Style
from srgdqn.paper.cells import MeasurementCell, StudyCell
from srgdqn.paper.experiment import Experiment, Outcomes, diverged_note, measured_arm, rounds_used
from srgdqn.paper.measurements import gradient_spread
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale

ALGORITHMS = ("svr-dqn", "srg-dqn")
_ESTIMATORS = {"svr-dqn": "svrg", "srg-dqn": "srg"}
DEFINITIONS = {
    "across": "across rounds",
    "window": "within each 1,000-step window, averaged over rounds",
    "frozen": "at a frozen θ, over redraws of D and picks",
}
_TITLES = {"across": "across rounds", "window": "within 1,000-step windows", "frozen": "at a frozen θ"}
_STYLES = {"svr-dqn": Style(GREEN), "srg-dqn": Style(ORANGE)}

# What the paper prints, first and last 10,000 steps.
PRINTED = {
    "svr-dqn": (
        (0.229, 0.790, 0.430, 0.474, 0.626, 1.176, 0.500, 0.388, 0.638, 0.739),
        (0.306, 0.286, 0.293, 0.212, 0.188, 0.318, 0.443, 0.271, 0.193, 0.205),
    ),
    "srg-dqn": (
        (0.122, 0.395, 0.389, 0.520, 0.625, 0.632, 0.966, 0.966, 0.394, 0.562),
        (0.225, 0.334, 0.254, 0.353, 0.154, 0.247, 0.182, 0.229, 0.188, 0.203),
    ),
}


def cell_name(readings: str, algorithm: str) -> str:
    """The name of the cell of an algorithm."""
    return f"spread-{algorithm}-{readings}"


def steps(scale: Scale) -> tuple[int, ...]:
    """Every 1,000 steps of the first and of the last 10,000."""
    first = range(1_000, 10_001, 1_000)
    last = range(scale.spread_steps - 9_000, scale.spread_steps + 1, 1_000)
    return (*first, *last)


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """A cell per algorithm."""
    listed = []
    for algorithm in ALGORITHMS:
        configuration = measured_arm(scale, algorithm, readings, scale.spread_rounds, scale.spread_steps)
        plan = gradient_spread.Plan(configuration, steps(scale))
        listed.append(MeasurementCell(cell_name(readings, algorithm), gradient_spread.measure, plan))
    return listed


class Spreads:
    """The spreads of one set of readings, ready to be resampled by round."""

    def __init__(
        self,
        outcomes: Outcomes,
        readings: str,
        quantity: str = "delta",
        biases: bool = False,
        planned: Sequence[int] = (),
    ) -> None:
        """`planned` are the steps where every round of both runs diverged, so that no table has any."""
        tables = {name: outcomes[cell_name(readings, name)].tables for name in ALGORITHMS}
        self.rounds = sorted(set.intersection(*(set(table["windows"]["round"].to_list()) for table in tables.values())))
        measured = {step for table in tables.values() for step in table["windows"]["step"].unique().to_list()}
        self.steps = sorted(measured or planned)
        self._weights = int(tables["srg-dqn"]["rounds"]["weights"][0])
        column = "spread_with_biases" if biases else "spread"
        self.vectors: Mapping[str, np.ndarray] = {
            name: self._vector_stack(table["vectors"], quantity, biases) for name, table in tables.items()
        }
        self.windows = {name: self._matrix(table["windows"], quantity, column) for name, table in tables.items()}
        # At a frozen θ both estimators are measured at the same θ: those of both algorithms' runs.
        self.frozen = (
            {}
            if any("redraws" not in table for table in tables.values())
            else {
                name: np.stack(
                    [
                        self._matrix(
                            table["redraws"].filter(pl.col("estimator") == _ESTIMATORS[name]), quantity, column
                        )
                        for table in tables.values()
                    ]
                )
                for name in ALGORITHMS
            }
        )

    def of(self, definition: str, picks: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """The spread at every step for each algorithm, of the rounds at `picks` (with repetitions) or of all."""
        chosen = np.arange(len(self.rounds)) if picks is None else picks
        if not len(chosen):
            return {name: np.full(len(self.steps), np.nan) for name in ALGORITHMS}
        if definition == "across":
            return {name: stack[chosen].std(0, ddof=1).sum(-1) for name, stack in self.vectors.items()}
        if definition == "window":
            return {name: matrix[chosen].mean(0) for name, matrix in self.windows.items()}
        return {name: stack[:, chosen].mean((0, 1)) for name, stack in self.frozen.items()}

    def resampled(self, definition: str, picks: np.ndarray) -> np.ndarray:
        """What `of` has for each row of `picks` (resamples, rounds), across rounds or within windows; much faster.

        Its axes are resamples, algorithms and steps.
        """
        drawn = picks.shape[1]
        counts = np.array([np.bincount(row, minlength=len(self.rounds)) for row in picks], float)
        if definition == "window":
            return np.stack([counts @ self.windows[name] / drawn for name in ALGORITHMS], 1)
        found = []
        for name in ALGORITHMS:
            stack = self.vectors[name]
            # About its median, so that a single huge vector costs those resamples no digits that lack it.
            centred = (stack - np.median(stack, 0)).reshape(len(stack), -1)
            squares, sums = counts @ centred**2, counts @ centred
            variances = np.maximum(squares - sums**2 / drawn, 0) / (drawn - 1)
            found.append(np.sqrt(variances).reshape(len(picks), *stack.shape[1:]).sum(-1))
        return np.stack(found, 1)

    def log_ratio(self, definition: str, picks: np.ndarray | None = None) -> float:
        """The mean over steps of log(S_SRG / S_SVR); steps at which there is no spread are left out."""
        found = self.of(definition, picks)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(found["srg-dqn"] / found["svr-dqn"])
        finite = logs[np.isfinite(logs)]
        return float(finite.mean()) if len(finite) else float("nan")

    def _matrix(self, table: pl.DataFrame, quantity: str, column: str) -> np.ndarray:
        """(rounds, steps)."""
        mine = table.filter((pl.col("quantity") == quantity) & pl.col("round").is_in(self.rounds))
        return mine.sort("round", "step")[column].to_numpy().reshape(len(self.rounds), len(self.steps))

    def _vector_stack(self, table: pl.DataFrame, quantity: str, biases: bool) -> np.ndarray:
        """(rounds, steps, elements)."""
        mine = table.filter((pl.col("quantity") == quantity) & pl.col("round").is_in(self.rounds))
        elements = len(table["vector"][0]) if table.height else self._weights
        stack = np.array(mine.sort("round", "step")["vector"].to_list(), float)
        stack = stack.reshape(len(self.rounds), len(self.steps), elements)
        return stack if biases else stack[..., : self._weights]


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """The table by each definition beside the paper's numbers, and the split of the variance."""
    cells_by = {each: [cell_name(each, name) for name in ALGORITHMS] for each in readings}
    lost = diverged_note(outcomes, readings, cells_by)
    tables, panels = [], []
    for definition, meaning in DEFINITIONS.items():
        series = []
        rows = []
        for each in readings:
            spreads = Spreads(outcomes, each, planned=steps(scale))
            found = spreads.of(definition)
            for name in ALGORITHMS:
                rows.append({"readings": each, "algorithm": name, **_by_step(spreads.steps, found[name])})
                position = np.arange(len(spreads.steps))
                series.append(Series(name, _STYLES[name], {"position": position}, found[name], kind="line", group=each))
        if definition == "across":
            for name, (first, last) in PRINTED.items():
                rows.append(
                    {
                        "readings": "as printed in the paper",
                        "algorithm": name,
                        **_by_step(steps(scale), [*first, *last]),
                    }
                )
                series.append(
                    Series(
                        f"{name}, as the paper prints",
                        Style(_STYLES[name].color, ":"),
                        {"position": np.arange(20)},
                        np.array([*first, *last]),
                        group="paper",
                    )
                )
        categories = tuple(f"{step // 1000}k" for step in steps(scale))
        panels.append(
            Panel(
                _TITLES[definition],
                "sum of standard deviations",
                {"position": "environment steps"},
                tuple(series),
                categories=categories,
            )
        )
        tables.append(Table(f"table-2-{definition}", f"Standard deviation {meaning}", pl.DataFrame(rows), lost))
    tables.append(_ratio_table(outcomes, readings))
    tables.append(_split_table(outcomes, readings, lost))
    spreads = Spreads(outcomes, readings[0], planned=steps(scale))
    lower = {
        definition: int(np.sum(found["srg-dqn"] < found["svr-dqn"]))
        for definition in DEFINITIONS
        for found in [spreads.of(definition)]
    }
    return EXPERIMENT.section(
        found=f"SRG-DQN's standard deviation is the lower one in {_counts(lower)} of 20 cells (readings "
        f"{readings[0]}).\n\n{falls_text({name: late_ratio(spreads.of(name)) for name in DEFINITIONS})}\n\n"
        "Learning starts at step 1,000, so that the first cell is nearly untrained; a single outer iteration has no "
        "spread within its window.",
        charts=(
            Chart(
                "table-2",
                "Standard deviation of the first layer's gradient",
                f"Sum over the first layer's weights of the standard deviation of Δ_M, {scale.spread_rounds} rounds; "
                f"every 1,000 steps of the first and of the last 10,000. {lost}",
                tuple(panels),
            ),
        ),
        tables=tuple(tables),
    )


def _counts(lower: Mapping[str, int]) -> str:
    return ", ".join(f"{count} ({_TITLES[name]})" for name, count in lower.items())


def late_ratio(spreads: Mapping[str, np.ndarray]) -> float:
    """What the standard deviations of the last ten steps are of those of steps 2,000 to 10,000: the ratio of geometric
    means over both algorithms, without steps at which there is no spread.
    """
    logs = [np.log(np.where(values > 0, values, np.nan)) for values in spreads.values()]
    early, late = (np.concatenate([each[part] for each in logs]) for part in (slice(1, 10), slice(10, None)))
    if np.isnan(early).all() or np.isnan(late).all():
        return float("nan")
    return float(np.exp(np.nanmean(late) - np.nanmean(early)))


def falls_text(ratios: Mapping[str, float]) -> str:
    """Whether ours fall over training as the paper's do, given the `late_ratio` of each definition."""
    printed = late_ratio({name: np.concatenate(PRINTED[name]) for name in ALGORITHMS})
    told = {name: ratio for name, ratio in ratios.items() if np.isfinite(ratio)}
    if not told:
        return "Whether ours fall over training as the paper's do cannot be told: there is no spread."
    listed = ", ".join(f"{ratio:.2f} times {_TITLES[name]}" for name, ratio in told.items())
    falling = sum(ratio < 1 for ratio in told.values())
    as_much = sum(ratio <= printed for ratio in told.values())
    if not falling:
        verdict = "ours do not fall"
    elif falling < len(told):
        verdict = f"ours fall by {falling} of {len(told)} definitions"
    elif as_much == len(told):
        verdict = "ours fall as much or more"
    else:
        verdict = f"ours fall as well, but by {len(told) - as_much} of {len(told)} definitions less"
    return (
        f"The paper's standard deviations fall over training: those of the last 10,000 steps are {printed:.2f} times "
        f"those of steps 2,000 to 10,000 (geometric means, both algorithms). By the same measure {verdict}: {listed}."
    )


def _by_step(at: Sequence[int], values: Sequence[float] | np.ndarray) -> dict[str, str]:
    return {
        f"{step:,}": "no spread" if not np.isfinite(value) else f"{value:.3f}"
        for step, value in zip(at, values, strict=True)
    }


def _ratio_table(outcomes: Outcomes, readings: Sequence[str]) -> Table:
    rows = []
    for each in readings:
        for quantity in gradient_spread.QUANTITIES:
            for biases in (False, True):
                spreads = Spreads(outcomes, each, quantity, biases)
                rows.append(
                    {
                        "readings": each,
                        "vector": {"delta": "Δ_M", "gradient": "g_M"}[quantity],
                        "elements": "weights and biases" if biases else "weights",
                        "rounds": rounds_used(
                            outcomes, [cell_name(each, name) for name in ALGORITHMS], len(spreads.rounds)
                        ),
                        **{DEFINITIONS[name]: _ratio_text(spreads, name) for name in DEFINITIONS},
                    }
                )
    title = "S_SRG / S_SVR, geometric mean over the 20 steps"
    return Table("table-2-ratios", title, pl.DataFrame(rows), "Over the rounds that diverged in neither run.")


def _ratio_text(spreads: Spreads, definition: str) -> str:
    ratio = np.exp(spreads.log_ratio(definition))
    return f"{ratio:.3f}" if np.isfinite(ratio) else "no spread" if spreads.rounds else "no round left"


def _split_table(outcomes: Outcomes, readings: Sequence[str], lost: str) -> Table:
    rows = []
    for each in readings:
        redraws = pl.concat([outcomes[cell_name(each, name)].tables["redraws"] for name in ALGORITHMS])
        for estimator, name in (("svrg", "SVRG"), ("srg", "SRG")):
            mine = redraws.filter((pl.col("estimator") == estimator) & (pl.col("quantity") == "delta"))
            within, between = float(mine["within"].sum()), float(mine["between"].sum())
            total, shown = within + between, ("no round left",) * 3
            if total:
                shown = f"{within / total:.1%}", f"{between / total:.1%}", f"{total / mine.height:.4g}"
            columns = dict(zip(("within D (picks)", "between Ds", "variance"), shown, strict=True))
            rows.append({"readings": each, "estimator": name, **columns})
    note = "At frozen θ of both algorithms' runs; sums over the first layer's weights, means over rounds and steps."
    return Table("table-2-split", "Variance of Δ_M within and between batches", pl.DataFrame(rows), f"{note} {lost}")


EXPERIMENT = Experiment(
    name="table-2",
    place=60,
    title="Table 2: standard deviation of the gradient",
    paper_says=(
        "SRG-DQN significantly reduces the standard deviation of the first layer's gradient and is almost completely "
        "superior to SVR-DQN at most steps (its numbers have SRG-DQN lower in 15 of 20 cells)."
    ),
    cells=cells,
    show=show,
    budget_seconds=60,
)
