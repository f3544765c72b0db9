"""The tables of a run: their columns, what they mean, and how a frame is built, checked and stored."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from srgdqn.config import TrainingSettings
from srgdqn.errors import InputError, unknown
from srgdqn.runs.untrusted_parquet import decode_any

Schema = dict[str, pl.DataType]

CURVES: Schema = {
    "round": pl.Int32(),  # from 0
    "step": pl.Int64(),  # environment steps at the end of the window
    "reward": pl.Float64(),  # mean per action in the window
    "reward_cumulative": pl.Float64(),  # mean per action since the start
    "episodes": pl.Int32(),  # ended so far
    # The next four are means over the window's outer iterations whose value is finite, null where there is none.
    "loss": pl.Float64(),  # mean over D
    "max_q": pl.Float64(),  # mean over D of the largest Q-value
    "delta_norm": pl.Float64(),  # norm of the last direction
    "theta_norm": pl.Float64(),  # norm of the parameters
    "queries": pl.Int64(),  # gradient queries so far, by the estimator's formula, with those of a diverged iteration
    "gradient_evaluations": pl.Int64(),  # gradient evaluations really done so far, likewise
    # What the estimator logs follows, as means over outer iterations like those above.
}

EPISODES: Schema = {
    "round": pl.Int32(),  # from 0
    "episode": pl.Int32(),  # from 0 in each round
    "step": pl.Int64(),  # environment steps at its end
    "return": pl.Float64(),  # sum of its rewards, unscaled
    "length": pl.Int32(),  # environment steps in it
    "ending": pl.String(),  # one of ENDINGS
    "success": pl.Boolean(),  # null where the task has no such notion
}

EVALUATIONS: Schema = {
    "round": pl.Int32(),  # from 0
    "step": pl.Int64(),  # environment steps trained before it
    "episode": pl.Int32(),  # from 0 in each evaluation
    "return": pl.Float64(),  # sum of its raw rewards
    "length": pl.Int32(),  # environment steps in it
    "success": pl.Boolean(),  # null where the task has no such notion
}

ROUNDS: Schema = {
    "round": pl.Int32(),  # from 0
    "steps": pl.Int64(),  # environment steps made
    "episodes": pl.Int32(),  # ended
    "outer_iterations": pl.Int64(),  # made, with the one that diverged and was discarded
    "queries": pl.Int64(),  # gradient queries, by the estimator's formula
    "gradient_evaluations": pl.Int64(),  # gradient evaluations really done
    "censored": pl.Int32(),  # episodes cut at the cap
    "diverged_at": pl.Int64(),  # environment step at which it went non-finite and was frozen; null if it did not
    "completed": pl.Boolean(),  # whether the whole budget was used
}

TIMINGS: Schema = {
    "first_round": pl.Int32(),  # of those that ran side by side
    "rounds": pl.Int32(),  # how many these are
    "phase": pl.String(),  # one of PHASES
    "step": pl.Int64(),  # environment steps of each round at its end
    "seconds": pl.Float64(),  # by the wall clock
}

DIRECTIONS: Schema = {
    "round": pl.Int32(),  # from 0
    "step": pl.Int64(),  # environment steps trained before the measurement
    # Δ is the estimator's last direction, Δ_M, and G the gradient over the whole replay where Δ was computed. All are
    # means over draws of D and picks, estimated without bias, so that what is near 0 may come out below; null where one
    # of the draws led to numbers that are not finite.
    "squared_norm": pl.Float64(),  # ‖G‖²
    "squared_error": pl.Float64(),  # ‖Δ - G‖²
    "squared_bias": pl.Float64(),  # ‖E(Δ - G)‖²
    "cosine": pl.Float64(),  # between Δ and G; null also where the estimate of ‖G‖² is not positive
    # The same of the gradient on D in place of Δ.
    "plain_squared_error": pl.Float64(),
    "plain_squared_bias": pl.Float64(),
    "plain_cosine": pl.Float64(),
}

POLICIES: Schema = {
    "round": pl.Int32(),  # from 0
    "policy": pl.String(),  # one of POLICIES_KEPT
    "step": pl.Int64(),  # environment steps trained before it
    "chosen_by": pl.Float64(),  # mean return of the evaluation that it was chosen by; null where none chose it
    # What it came to on fresh starts, after training; null in a round that was interrupted, or could not be evaluated.
    "fresh_episodes": pl.Int32(),  # 0 there
    "fresh_return": pl.Float64(),  # mean sum of raw rewards
    "fresh_length": pl.Float64(),  # mean environment steps
    "fresh_success": pl.Float64(),  # share of them; null also where the task has no such notion
}

SCHEMAS: dict[str, Schema] = {
    "curves": CURVES,
    "episodes": EPISODES,
    "evaluations": EVALUATIONS,
    "rounds": ROUNDS,
    "timings": TIMINGS,
    "directions": DIRECTIONS,
    "policies": POLICIES,
}

_ASKED_FOR_BY = {"directions": "direction_errors", "policies": "keep_best"}
"""The options of training that must be on for a run to have these tables."""

ENDINGS = ("terminated", "truncated", "censored")
PHASES = ("compile", "train", "evaluate", "checkpoint", "measure")
POLICIES_KEPT = ("last", "best", "acting")
"""The policies of a round. The last is the one that is evaluated; where that is not of θ itself, but of an average of
it, say, `acting` is of the last θ."""

_VALUES = {"ending": ENDINGS, "phase": PHASES, "policy": POLICIES_KEPT}
_NULLABLE = frozenset(
    {
        *("loss", "max_q", "delta_norm", "theta_norm", "success", "diverged_at"),
        *(name for name in DIRECTIONS if name not in ("round", "step")),
        *("chosen_by", "fresh_return", "fresh_length", "fresh_success"),
    }
)


def names_for(settings: TrainingSettings) -> list[str]:
    """The tables that a run with these settings has."""
    return [name for name in SCHEMAS if getattr(settings, _ASKED_FOR_BY.get(name, ""), True)]


def frame(name: str, columns: Mapping[str, Any]) -> pl.DataFrame:
    """The table of that name from its columns: arrays or lists, in any order; None and masked entries are null.

    >>> frame("timings", dict(first_round=[0], rounds=[25], phase=["train"], step=[16], seconds=[0.5])).height
    1
    """
    _check_names(name, list(columns))
    series = [_series(name, column, columns[column], dtype) for column, dtype in _schema(name, columns).items()]
    lengths = {column.name: len(column) for column in series}
    if len(set(lengths.values())) != 1:
        raise InputError(f"the columns of {name} have different lengths, {lengths}. Give one value per row in each.")
    return conforming(name, pl.DataFrame(series))


def conforming(name: str, table: pl.DataFrame) -> pl.DataFrame:
    """The table, if it has the columns, the types and only the values that a table of that name may have."""
    _check_names(name, table.columns)
    schema = _schema(name, table.columns)
    for column, dtype in schema.items():
        if table.schema[column] != dtype:
            raise InputError(f"{name}.{column} has type {table.schema[column]}. Make it {dtype}.")
        if column in SCHEMAS[name] and column not in _NULLABLE and table[column].null_count():
            raise InputError(f"{name}.{column} has {table[column].null_count()} nulls. Give every row a value.")
        if dtype.is_integer() and (table[column] < 0).any():
            raise InputError(f"{name}.{column} has negative values, though it counts. Give 0 or more.")
        if column in _VALUES:
            for value in table[column].unique():
                if value not in _VALUES[column]:
                    raise unknown(f"{name}.{column}", value, _VALUES[column])
    if name == "rounds" and table["round"].is_duplicated().any():
        raise InputError("rounds.round has a round twice. Give each of them one row.")
    if name == "policies" and table.select("round", "policy").is_duplicated().any():
        raise InputError("policies has a policy of a round twice. Give each of them one row.")
    return in_order(table.select(list(schema)))


def in_order(table: pl.DataFrame) -> pl.DataFrame:
    """The table, marked as sorted by round if it is.

    Rounds of a marked table are slices, and their means sums from the first row to the last. Of another one, Polars'
    threads sum what they happen to get of a round, and the last digits of its mean differ from time to time.
    """
    if "round" in table.columns and table["round"].is_sorted():
        return table.with_columns(pl.col("round").set_sorted())
    return table


def encode(name: str, table: pl.DataFrame) -> bytes:
    """The bytes of a Parquet file with the table of that name."""
    return encode_any(conforming(name, table))


def encode_any(table: pl.DataFrame) -> bytes:
    """The bytes of a Parquet file with any table."""
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


def decode(name: str, data: bytes) -> pl.DataFrame:
    """The table of that name in the bytes of a Parquet file."""
    return conforming(name, decode_any(data))


def _check_names(name: str, given: list[str]) -> None:
    if name not in SCHEMAS:
        raise unknown("table", name, SCHEMAS)
    for column in given:
        if column not in SCHEMAS[name] and not (name == "curves" and column.isidentifier()):
            raise unknown(f"column of {name}", column, SCHEMAS[name])
    missing = [column for column in SCHEMAS[name] if column not in given]
    if missing:
        raise InputError(f"the table {name} lacks {', '.join(missing)}. Give every column of its schema.")


def _schema(name: str, given: Iterable[str]) -> Schema:
    """The columns of a table and their types: those of its name, and in `curves` what the estimator logged."""
    return SCHEMAS[name] | {column: pl.Float64() for column in given if column not in SCHEMAS[name]}


def _series(table: str, column: str, values: Any, dtype: pl.DataType) -> pl.Series:
    try:
        series = pl.Series(column, values)
        if not _widens(series.dtype, dtype):
            raise TypeError(f"{series.dtype} values")
        return series.cast(dtype, strict=True)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{table}.{column} cannot be made of what was given: {error}. Give {dtype} values.") from error


def _widens(given: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether a cast keeps every value or fails: numbers may become wider numbers, nothing else changes its kind."""
    if given == wanted or given == pl.Null():
        return True
    if wanted.is_integer():
        return given.is_integer()
    return wanted.is_float() and given.is_numeric()
