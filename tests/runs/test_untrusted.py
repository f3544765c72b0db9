"""The door for files from strangers: regular files, memory limits, strict JSON, Parquet without surprises."""

import io
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.errors import InputError
from srgdqn.runs.tables import SCHEMAS, decode, encode, frame
from srgdqn.runs.untrusted import DEEPEST, check_room, most_bytes, most_decoded, parse_json, read_file
from srgdqn.runs.untrusted_parquet import pages

# Files


def test_only_regular_files_are_read_and_the_reason_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"four")
    assert read_file(tmp_path / "file", 4) == b"four"
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, why in (
        ("link", r"it is a link, and links are refused on purpose.*\. Replace it with the file itself\."),
        ("pipe", "it is not a regular file"),
        ("folder", "it is not a regular file"),
        ("missing", r"it is missing\. Restore the folder from a copy"),
    ):
        with pytest.raises(InputError, match=f"{name} cannot be used: {why}"):
            read_file(tmp_path / name)
    with pytest.raises(InputError, match="it has 4 bytes where at most 3 are expected"):
        read_file(tmp_path / "file", 3)


def test_what_takes_too_much_memory_is_refused() -> None:
    assert most_bytes() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 3
    assert (most_decoded(0), most_decoded(10**5), most_decoded(2**60)) == (2**26, 2**26 + 10**7, most_bytes())
    check_room(100, "this", 100)
    with pytest.raises(InputError, match="this would take 2,048 MiB of memory, and 1 MiB is the most"):
        check_room(2**31, "this", 2**20)
    for much in (10**30, float("nan")):
        with pytest.raises(InputError):
            check_room(much, "this")


# JSON

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**127), 2**127)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_json_that_is_written_is_read(value: object) -> None:
    assert parse_json(json.dumps(value)) == parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("NaN", "NaN is not a number"),
        ("[1e999]", "not finite"),
        ("1" * 41, "too many digits"),
        ('{"b": {"a": 1, "a": 1}}', "twice"),
        ('{"\\udfff": 1}', "half a character"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "deep"),
        ("[" * 100_000, "not JSON"),
        (b"\xff", "not JSON"),
        ("[1]".encode("utf-16"), "not JSON"),
    ],
)
def test_json_that_this_package_never_writes_is_refused(text: str | bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_json(text)


def test_json_as_deep_as_may_be_and_the_state_of_training() -> None:
    assert parse_json("[" * DEEPEST + "]" * DEEPEST) is not None
    assert repr(parse_json("[NaN, -Infinity]", finite=False)) == "[nan, -inf]"


# Parquet

TIMINGS = frame(
    "timings",
    dict(first_round=[0, 25], rounds=[25, 5], phase=["compile", "train"], step=[0, 2**40], seconds=[float("nan"), 0.1]),
)


def test_damaged_parquet_is_refused_or_gives_a_table_that_conforms() -> None:
    data, dice, refused = encode("timings", TIMINGS), random.Random(0), 0
    for _ in range(600):
        damaged = bytearray(data)
        for _ in range(dice.choice([1, 2, 5])):
            damaged[dice.randrange(len(data))] = dice.randrange(256)
        try:
            assert dict(decode("timings", bytes(damaged)).schema) == SCHEMAS["timings"]
        except InputError:
            refused += 1
    assert refused > 300


def test_a_long_table_is_read_as_it_was_written() -> None:
    table = pl.concat([TIMINGS] * 30_000)
    assert decode("timings", encode("timings", table)).equals(table)


def columns(data: bytes) -> Any:
    """What the footer says of every column: where its pages lie, its values, and their bytes with all headers."""
    footer = pq.read_metadata(pa.BufferReader(data))
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            column = footer.row_group(group).column(index)
            start = min(each for each in (column.data_page_offset, column.dictionary_page_offset) if each)
            yield start, start + column.total_compressed_size, column


def table(rows: int) -> pa.Table:
    generator = np.random.default_rng(rows)
    return pa.table(
        {
            "number": generator.normal(size=rows),
            "count": generator.integers(0, 5, rows),
            "text": pa.array([f"word {i % 7}" for i in range(rows)]),
            "gaps": pa.array([None if i % 3 else i for i in range(rows)], pa.int32()),
        }
    )


@given(
    st.sampled_from([1, 100, 20_000]),
    st.sampled_from(["none", "zstd", "snappy", "gzip"]),
    st.sampled_from(["1.0", "2.0"]),
    st.booleans(),
    st.sampled_from([1_000, 10**6]),
)
def test_pages_add_up_to_what_the_footer_says(rows: int, codec: str, version: str, dictionary: bool, page: int) -> None:
    out = io.BytesIO()
    how: dict[str, Any] = dict(compression=codec, data_page_version=version, use_dictionary=dictionary)
    pq.write_table(table(rows), out, data_page_size=page, write_batch_size=64, row_group_size=8_000, **how)
    for start, stop, column in columns(out.getvalue()):
        found = list(pages(out.getvalue(), start, stop))
        assert sum(each.values for each in found if each.is_data) == column.num_values
        headers = column.total_uncompressed_size - sum(each.size for each in found)
        assert 0 <= headers <= 200 * len(found)


@given(st.binary(max_size=200))
def test_any_other_bytes_are_no_pages(data: bytes) -> None:
    try:
        found = list(pages(data, 0, len(data)))
    except ValueError:
        return
    assert len(found) <= len(data)
    assert all(0 <= each.size < 2**31 and 0 <= each.values < 2**31 for each in found)


@pytest.mark.parametrize("data", [b"\x1c" * 100, b"\x15" + b"\xff" * 11, b"\x15", b"\x18\xff\x7f"])
def test_headers_without_an_end_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="header"):
        list(pages(data, 0, len(data)))
