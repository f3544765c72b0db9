import io
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.runs.parquet_pages import pages


def columns(data: bytes) -> Any:
    """What the footer tells of every column: where its pages lie, its values, and their bytes with all headers."""
    told = pq.read_metadata(pa.BufferReader(data))
    for group in range(told.num_row_groups):
        for index in range(told.num_columns):
            column = told.row_group(group).column(index)
            starts = [column.data_page_offset, column.dictionary_page_offset]
            start = min(each for each in starts if each)
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
def test_pages_add_up_to_what_the_footer_tells(
    rows: int, codec: str, version: str, dictionary: bool, page: int
) -> None:
    out = io.BytesIO()
    pq.write_table(
        table(rows),
        out,
        compression=codec,
        data_page_version=version,
        use_dictionary=dictionary,
        data_page_size=page,
        write_batch_size=64,
        row_group_size=8_000,
    )
    for start, stop, column in columns(out.getvalue()):
        found = list(pages(out.getvalue(), start, stop))
        assert sum(each.values for each in found if each.is_data) == column.num_values
        headers = column.total_uncompressed_size - sum(each.size for each in found)
        assert 0 <= headers <= 200 * len(found)


def test_pages_of_polars_add_up_too() -> None:
    out = io.BytesIO()
    pl.DataFrame({"a": range(5_000), "b": ["x"] * 5_000, "c": [[1.0, 2.0]] * 5_000}).write_parquet(out)
    for start, stop, column in columns(out.getvalue()):
        assert sum(each.values for each in pages(out.getvalue(), start, stop) if each.is_data) == column.num_values


@given(st.binary(max_size=200))
def test_anything_else_is_no_page(data: bytes) -> None:
    try:
        found = list(pages(data, 0, len(data)))
    except ValueError:
        return
    assert len(found) <= len(data)
    assert all(0 <= each.size < 2**31 and 0 <= each.values < 2**31 for each in found)


@pytest.mark.parametrize(
    "data", [b"\x1c" * 100, b"\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x15", b"\x18\xff\x7f"]
)
def test_headers_that_have_no_end_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="header"):
        list(pages(data, 0, len(data)))
