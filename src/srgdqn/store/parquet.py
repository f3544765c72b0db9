"""Tables as Parquet; those of a run are checked against their schemas on the way out and on the way in."""

from __future__ import annotations

import io

import polars as pl

from srgdqn.errors import InputError
from srgdqn.store.tables import conforming


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
    """The table in the bytes of a Parquet file, whatever its columns."""
    # Here, as training reads no file and need not wait for it.
    import pyarrow
    import pyarrow.parquet

    try:
        # Arrow's reader, as it raises where polars' own may end the process on bytes that are no Parquet. Columns are
        # put in a table of their own, which leaves behind whatever else the file carries.
        read = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data)).read()
        read.validate(full=True)
        return pl.DataFrame(pyarrow.table({column: read.column(column) for column in read.column_names}))
    except (Exception, pl.exceptions.PanicException) as error:
        raise InputError(f"not a Parquet file ({error})") from error
