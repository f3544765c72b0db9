"""How the limit is shown: its tables' columns and cells, and the bars of its image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from measuring import spread
from reporting import Bar, Panel, between, print_table

Row = Mapping[str, Any]

_COUNTS = (
    *("task", "hidden", "algorithm", "passes", "weight gradients", "element-wise", "formula", "compiler"),
    *("formula/compiler", "acting"),
)
_MACHINE = ("product", "XLA, one core", "NumPy, one core", "XLA, all cores", "NumPy, all cores")
_TRAINING = (
    *("task", "hidden", "algorithm", "kernel", "steps/s", "worst to best turn", "operations per block", "GFLOP/s"),
    *("of small products' rate", "of the peak"),
)
_PARTS = (
    *("task", "hidden", "algorithm", "kernel", "part", "µs per block", "share", "operations", "GFLOP/s"),
    "of small products' rate",
)


def print_counts(rows: Sequence[Row]) -> None:
    def cells(row: Row) -> list[str]:
        counts = ("passes", "weight_gradients", "elementwise", "formula", "compiler")
        ratio = row["formula"] / row["compiler"]
        numbers = [f"{row[name]:,}" for name in counts]
        return [row["task"], _layers(row), row["algorithm"], *numbers, f"{ratio:.2f}", f"{row['acting']:,}"]

    print_table("Operations of an outer iteration", _COUNTS, [cells(row) for row in rows], names=3)


def print_machine(rows: Sequence[Row]) -> None:
    def cells(row: Row) -> list[str]:
        rates = [row[cores][library]["median"] for cores in ("one_core", "all_cores") for library in ("XLA", "NumPy")]
        return [row["product"], *map(_giga, rates)]

    print_table("The machine's rates, GFLOP/s", _MACHINE, [cells(row) for row in rows])


def print_training(rows: Sequence[Row]) -> None:
    def cells(row: Row) -> list[str]:
        return [
            *_names(row),
            f"{row['steps_per_second']['median']:,.0f}",
            between(row["steps_per_second"]),
            f"{row['operations_per_block']:,}",
            _giga(row["operations_per_second"]["median"]),
            f"{row['share_of_small_products']:.1%}",
            f"{row['share_of_peak']:.1%}",
        ]

    print_table("Training on one core", _TRAINING, [cells(row) for row in rows], names=4)


def print_parts(rows: Sequence[Row]) -> None:
    def cells(row: Row) -> list[str]:
        rate, share = row["operations_per_second"], row["share_of_small_products"]
        return [
            *_names(row),
            row["part"],
            f"{row['seconds'] * 1e6:,.2f}",
            f"{row['share']:.1%}",
            f"{row['operations']:,}",
            "" if rate is None else _giga(rate),
            "" if share is None else f"{share:.1%}",
        ]

    print_table("Where a block's time goes", _PARTS, [cells(row) for row in rows], names=5)


def panels(machine: Sequence[Row], training: Sequence[Row], peak: float) -> list[Panel]:
    """Bars of shares of the peak: of matrix products, and of training."""

    def bar(label: str, rates: Row, *, ours: bool) -> Bar:
        return Bar(label, spread([100 * rate / peak for rate in rates["turns"]]), ours)

    products = [
        bar(f"{row['product']}, {library}", rates, ours=False)
        for row in machine
        for library, rates in row["one_core"].items()
    ]
    runs = [bar(" · ".join(_names(row)), row["operations_per_second"], ours=True) for row in training]
    axis = "% of the peak, the rate of a large matrix product"
    return [Panel("matrix products, one core", axis, products), Panel("training, one core", axis, runs)]


def _names(row: Row) -> list[str]:
    return [row["task"], _layers(row), row["algorithm"], row["kernel"]]


def _layers(row: Row) -> str:
    return "+".join(map(str, row["hidden"]))


def _giga(rate: float) -> str:
    return f"{rate / 1e9:,.2f}"
