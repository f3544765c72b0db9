"""The table in a Parquet file from a stranger: what it would take in memory is known before anything is decoded.

A file's footer may announce little while its pages ask for much: a page's header says how many bytes to make room for,
and a few bytes stand for any number of equal values. So the headers of all pages are read first. They are in Thrift's
compact protocol, of which `_Header` reads as much as it takes to find three numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from srgdqn.errors import InputError
from srgdqn.runs.untrusted import check_room, most_decoded

# The types that numbers, truth values and texts are written in, and the bytes that one takes in memory.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 16}

# What a footer may have of each: the names of columns, and lists of columns or of groups of rows.
_LONGEST_TEXT, _LONGEST_LIST = 2**20, 10_000

# A page takes time however small it is.
_FEWEST_PAGES, _BYTES_PER_PAGE = 10_000, 256


def decode_any(data: bytes) -> pl.DataFrame:
    """The table in the bytes of a Parquet file: columns of numbers, truth values, texts, or lists of numbers."""
    # Here, as training reads no file and need not wait for it.
    import pyarrow
    import pyarrow.parquet

    limits = {"thrift_string_size_limit": _LONGEST_TEXT, "thrift_container_size_limit": _LONGEST_LIST}
    try:
        opened = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), **limits)
        footer, most = opened.metadata, most_decoded(len(data))
        check_room(_asked_for(footer, data) + _asked_for_lists(opened.schema_arrow, footer.num_rows), "the table", most)
        # Arrow's reader, as it raises where polars' own may end the process on bytes that are no Parquet. Texts are
        # read as indices into those that differ: one long text may stand for a million rows.
        columns = range(footer.num_columns)
        texts = [footer.schema.column(i).name for i in columns if _physical(footer, i) == "BYTE_ARRAY"]
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), read_dictionary=texts, **limits)
        read = file.read(use_threads=False)
        read.validate(full=True)
        # Columns are put in a table of their own, which leaves behind whatever else the file carries.
        return pl.DataFrame([_series(name, read.column(name), most) for name in read.column_names])
    except InputError:  # which says what is wrong with it
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        raise InputError(f"it cannot be read as a Parquet file ({error})") from error


def _physical(footer: Any, index: int) -> str:
    """The type that a column is written in, if tables of ours have such columns."""
    column = footer.schema.column(index)
    kind, lists = str(column.physical_type), column.max_repetition_level
    if kind not in _WIDTHS or lists > (kind != "BYTE_ARRAY") or (not lists and column.path != column.name):
        raise _unknown_column(column.path)
    return kind


def _unknown_column(name: str) -> InputError:
    return InputError(f"its column {name!r} has neither numbers nor texts, as tables of this package have")


def _asked_for(footer: Any, data: bytes) -> int:
    """The bytes that reading the table takes: those of its rows, and of its pages once they are decompressed."""
    wanted = count = 0
    for group in (footer.row_group(i) for i in range(footer.num_row_groups)):
        for index in range(footer.num_columns):
            chunk, width = group.column(index), _WIDTHS[_physical(footer, index)]
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
            raise _unknown_column(field.name)
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


# Headers of pages


class Page(NamedTuple):
    """What one page says."""

    is_data: bool
    size: int  # bytes, once decompressed
    values: int


_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_HEADERS = {_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}  # the field with a page's own header, whose first one is its values


def pages(data: bytes, start: int, stop: int) -> Iterator[Page]:
    """The pages between two places; a `ValueError` where there are no such pages."""
    while start < stop:
        header = _Header(data, start, stop)
        kind, size, stored = (header.fields.get(field, -1) for field in (1, 2, 3))
        if kind not in (0, 1, 2, 3) or not _is_count(size) or not _is_count(stored):
            raise ValueError("a page's header is damaged")
        own = header.fields.get(_HEADERS.get(kind, -1), {})
        values = own.get(1, 0) if isinstance(own, dict) else -1
        if not _is_count(values):
            raise ValueError("a page has no number of values")
        yield Page(kind in (_DATA, _DATA_2), size, values)
        start = header.place + stored
    if start > stop:
        raise ValueError("a page ends beyond its column")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < 2**31


class _Header:
    """The fields of a page's header by number, and the place where it ends."""

    _DEEPEST = 8

    def __init__(self, data: bytes, place: int, stop: int) -> None:
        self._data, self.place, self._stop = data, place, stop
        self.fields = self._struct(self._DEEPEST)

    def _struct(self, deeper: int) -> dict[int, Any]:
        if not deeper:
            raise ValueError("a page's header is nested too deep")
        fields: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self._signed()
            fields[field] = self._value(kind, deeper)
        return fields

    def _value(self, kind: int, deeper: int) -> Any:
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:  # integers of 16, 32 and 64 bits
                return self._signed()
            case 7:  # a real number
                return self._skip(8)
            case 8:  # a text
                return self._skip(self._unsigned())
            case 12:
                return self._struct(deeper - 1)
        raise ValueError("a page's header has a field of an unknown kind")  # no header has lists, sets or maps

    def _byte(self) -> int:
        self._skip(1)
        return self._data[self.place - 1]

    def _skip(self, count: int) -> None:
        self.place += count
        if self.place > self._stop:
            raise ValueError("a page's header ends beyond its column")

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a number in a page's header is too long")

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
