import io
import random

import polars as pl
import pytest

from srgdqn.errors import InputError
from srgdqn.runs.parquet import decode, encode
from srgdqn.runs.tables import SCHEMAS, frame

TIMINGS = frame(
    "timings",
    dict(first_round=[0, 25], rounds=[25, 5], phase=["compile", "train"], step=[0, 2**40], seconds=[float("nan"), 0.1]),
)


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_empty_table_is_read_as_it_was_written(name: str) -> None:
    table = frame(name, {column: [] for column in SCHEMAS[name]})
    read = decode(name, encode(name, table))
    assert read.schema == table.schema
    assert read.equals(table)


def test_what_was_written_is_read() -> None:
    read = decode("timings", encode("timings", TIMINGS))
    assert read.schema == TIMINGS.schema
    assert read.equals(TIMINGS)


def test_a_long_table_is_read_as_it_was_written() -> None:
    table = pl.concat([TIMINGS] * 300_000)
    assert decode("timings", encode("timings", table)).equals(table)


def test_others_can_read_the_file() -> None:
    assert pl.read_parquet(io.BytesIO(encode("timings", TIMINGS))).equals(TIMINGS)


def test_a_table_that_does_not_conform_is_neither_written_nor_read() -> None:
    wrong = TIMINGS.with_columns(phase=pl.lit("sleep"))
    with pytest.raises(InputError, match=r"unknown timings\.phase 'sleep'"):
        encode("timings", wrong)
    buffer = io.BytesIO()
    wrong.write_parquet(buffer)
    with pytest.raises(InputError, match=r"unknown timings\.phase 'sleep'"):
        decode("timings", buffer.getvalue())


def test_damaged_bytes_are_refused_or_give_a_table_that_conforms() -> None:
    data, dice, refused = encode("timings", TIMINGS), random.Random(0), 0
    for _ in range(2_000):
        damaged = bytearray(data)
        for _ in range(dice.choice([1, 2, 5])):
            damaged[dice.randrange(len(data))] = dice.randrange(256)
        try:
            assert dict(decode("timings", bytes(damaged)).schema) == SCHEMAS["timings"]
        except InputError:
            refused += 1
    assert refused > 1_000
