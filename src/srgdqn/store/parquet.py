"""Tables as Parquet, each checked against its schema on the way out and on the way in."""

from __future__ import annotations

import io

import polars as pl
import pyarrow
import pyarrow.parquet

from srgdqn.errors import InputError
from srgdqn.store.tables import conforming


def encode(name: str, table: pl.DataFrame) -> bytes:
    """The bytes of a Parquet file with the table of that name."""
    buffer = io.BytesIO()
    conforming(name, table).write_parquet(buffer)
    return buffer.getvalue()


def decode(name: str, data: bytes) -> pl.DataFrame:
    """The table of that name in the bytes of a Parquet file."""
    try:
        # Arrow's reader, as it raises where polars' own may end the process on bytes that are no Parquet. Columns are
        # put in a table of their own, which leaves behind whatever else the file carries.
        read = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data)).read()
        read.validate(full=True)
        table = pl.DataFrame(pyarrow.table({column: read.column(column) for column in read.column_names}))
    except (Exception, pl.exceptions.PanicException) as error:
        raise InputError(f"not a Parquet file ({error})") from error
    return conforming(name, table)
