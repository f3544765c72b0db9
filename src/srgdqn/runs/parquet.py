"""Tables as Parquet; those of a run are checked against their schemas on the way out and on the way in."""

from __future__ import annotations

import io
from typing import Any

import polars as pl

from srgdqn.errors import InputError
from srgdqn.runs.memory_limit import check_room, most_decoded
from srgdqn.runs.parquet_pages import pages
from srgdqn.runs.tables import conforming

# The types that numbers, truth values and texts are written in, and the bytes that one takes in memory.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 16}

# What a footer may have of each: the names of columns, and lists of columns or of groups of rows.
_LONGEST_TEXT, _LONGEST_LIST = 2**20, 10_000

# A page takes time however small it is.
_FEWEST_PAGES, _BYTES_PER_PAGE = 10_000, 256


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


def decode_any(data: bytes) -> pl.DataFrame:
    """The table in the bytes of a Parquet file, whatever its columns: numbers, truth values and texts, or
    lists of numbers.

    What it would take in memory is found out before any of it is decoded.
    """
    # Here, as training reads no file and need not wait for it.
    import pyarrow
    import pyarrow.parquet

    limits = {"thrift_string_size_limit": _LONGEST_TEXT, "thrift_container_size_limit": _LONGEST_LIST}
    try:
        opened = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), **limits)
        told, most = opened.metadata, most_decoded(len(data))
        check_room(_asked_for(told, data) + _asked_for_lists(opened.schema_arrow, told.num_rows), "the table", most)
        # Arrow's reader, as it raises where polars' own may end the process on bytes that are no Parquet. Texts are
        # read as indices into those that differ: one long text may stand for a million rows.
        texts = [told.schema.column(i).name for i in range(told.num_columns) if _physical(told, i) == "BYTE_ARRAY"]
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), read_dictionary=texts, **limits)
        read = file.read(use_threads=False)
        read.validate(full=True)
        # Columns are put in a table of their own, which leaves behind whatever else the file carries.
        return pl.DataFrame([_series(name, read.column(name), most) for name in read.column_names])
    except (Exception, pl.exceptions.PanicException) as error:
        raise InputError(f"not a Parquet file ({error})") from error


def _physical(told: Any, index: int) -> str:
    """The type that a column is written in, if tables of ours have such columns."""
    column = told.schema.column(index)
    kind, lists = str(column.physical_type), column.max_repetition_level
    if kind not in _WIDTHS or lists > (kind != "BYTE_ARRAY") or (not lists and column.path != column.name):
        raise ValueError(f"the column {column.path!r} has neither numbers nor texts")
    return kind


def _asked_for(told: Any, data: bytes) -> int:
    """The bytes that reading the table takes: those of its rows, and of its pages once they are decompressed."""
    wanted = count = 0
    for group in (told.row_group(i) for i in range(told.num_row_groups)):
        for index in range(told.num_columns):
            chunk, width = group.column(index), _WIDTHS[_physical(told, index)]
            first = chunk.data_page_offset
            if chunk.dictionary_page_offset is not None and 0 < chunk.dictionary_page_offset < first:
                first = chunk.dictionary_page_offset
            stop = first + chunk.total_compressed_size
            if not 4 <= first <= stop <= len(data):
                raise ValueError("a column lies outside of the file")
            values = 0
            for page in pages(data, first, stop):
                count += 1
                wanted += page.size
                values += page.values if page.is_data else 0
                if count > _FEWEST_PAGES + len(data) // _BYTES_PER_PAGE:
                    raise ValueError("it has more pages than bytes could fill")
            wanted += max(group.num_rows, chunk.num_values, values) * width
    return wanted


def _asked_for_lists(schema: Any, rows: int) -> int:
    """The bytes of lists of one length, for which room is made by what the schema says, whatever there is to read."""
    from pyarrow import types

    wanted = 0
    for field in schema:
        kind = field.type
        if types.is_fixed_size_list(kind):
            wanted += rows * kind.list_size * 8
        if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
            kind = kind.value_type
        elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind):
            continue
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise ValueError(f"the column {field.name!r} has neither numbers nor texts")
    return wanted


def _series(name: str, column: Any, most: int) -> pl.Series:
    import pyarrow
    import pyarrow.compute

    if pyarrow.types.is_dictionary(column.type):
        lengths = (
            pyarrow.compute.sum(pyarrow.compute.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
            for chunk in column.chunks
        )
        check_room(sum(lengths), f"the column {name!r}", most)
        return pl.Series(name, column.cast(pyarrow.large_string()))
    return pl.Series(name, column)
