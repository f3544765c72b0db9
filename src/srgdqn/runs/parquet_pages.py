"""What the pages of a Parquet file say they hold, read from their headers before anything is decoded.

A file's footer may tell of little while its pages ask for much: a page's header says how many bytes to make room for,
and a few bytes stand for any number of equal values. Headers are in Thrift's compact protocol, of which this knows as
much as it takes to find three numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_HEADERS = {_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}  # the field with a page's own header, whose first one is its values
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_DEEPEST = 8


class Page(NamedTuple):
    """What one page says."""

    is_data: bool
    size: int  # bytes, once decompressed
    values: int


def pages(data: bytes, start: int, stop: int) -> Iterator[Page]:
    """The pages between two places; a `ValueError` where there are no such pages."""
    while start < stop:
        reader = _Reader(data, start, stop)
        header = reader.struct(_DEEPEST)
        kind, size, stored = (header.get(field, -1) for field in (1, 2, 3))
        if kind not in (0, 1, 2, 3) or not _is_count(size) or not _is_count(stored):
            raise ValueError("a page's header is none")
        own = header.get(_HEADERS.get(kind, -1), {})
        values = own.get(1, 0) if isinstance(own, dict) else -1
        if not _is_count(values):
            raise ValueError("a page has no number of values")
        yield Page(kind in (_DATA, _DATA_2), size, values)
        start = reader.place + stored
    if start > stop:
        raise ValueError("a page ends beyond its column")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < 2**31


class _Reader:
    """Reads values one after the other."""

    def __init__(self, data: bytes, place: int, stop: int) -> None:
        self._data, self.place, self._stop = data, place, stop

    def struct(self, deeper: int) -> dict[int, Any]:
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
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _DOUBLE:
            return self._skip(8)
        if kind == _BINARY:
            return self._skip(self._unsigned())
        if kind == _STRUCT:
            return self.struct(deeper - 1)
        # Lists, sets and maps are in no page's header.
        raise ValueError("a page's header has a field of an unknown kind")

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
