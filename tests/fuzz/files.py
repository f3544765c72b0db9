"""Changes to the bytes of one file: blind ones, and ones that know its format and end in a file that is whole again."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy

from fuzz import nasty
from srgdqn.runs.tensors import digest_of
from srgdqn.runs.untrusted_parquet import decode_any

Change = Callable[[bytes, random.Random], bytes]


def blind(data: bytes, chance: random.Random) -> bytes:
    """A few bytes flipped, cut, inserted, repeated or moved, whatever they are."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        place = chance.randrange(len(changed) + 1)
        kind = chance.randrange(6)
        if kind == 0 and place < len(changed):
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 1 and place < len(changed):
            changed[place] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        elif kind == 2:
            del changed[place : place + chance.choice((1, 4, 64, 10_000))]
        elif kind == 3:
            changed[place:place] = chance.randbytes(chance.choice((1, 4, 64)))
        elif kind == 4:
            start = chance.randrange(len(changed) + 1)
            changed[place:place] = changed[start : start + chance.choice((8, 64, 512))]
        else:
            word = chance.choice((b"\0" * 8, b"\xff" * 8, struct.pack("<q", 2**62), struct.pack("<i", -1)))
            changed[place : place + len(word)] = word
    return bytes(changed)


def in_json(data: bytes, chance: random.Random) -> bytes:
    """Values edited, then written again."""
    document = nasty.edited(json.loads(data), chance)
    while chance.random() < 0.3:
        document = nasty.edited(document, chance)
    return written(document, chance).encode("utf-8", "surrogatepass")


def written(document: Any, chance: random.Random) -> str:
    text = json.dumps(document, ensure_ascii=True)
    return text.replace(json.dumps(nasty.RAW), chance.choice(nasty.RAW_TEXTS))


def in_json_lines(data: bytes, chance: random.Random) -> bytes:
    """Lines edited, moved, repeated or joined."""
    lines = data.splitlines()
    for _ in range(chance.choice((1, 2, 5))):
        place = chance.randrange(len(lines))
        kind = chance.randrange(5)
        if kind == 0:
            lines.insert(chance.randrange(len(lines)), lines[place])
        elif kind == 1:
            lines[place] = chance.choice((b"", b"[]", b"3", b'{"ended": 1}', b"{" * 3000, b"\xff\xfe", b"[" * 100_000))
        else:
            try:
                lines[place] = in_json(lines[place], chance)
            except ValueError:
                lines[place] = blind(lines[place], chance)
    return b"\n".join(lines) + b"\n"


def in_toml(data: bytes, chance: random.Random) -> bytes:
    """Values of a line replaced, lines repeated, removed or made up."""
    lines = data.decode().splitlines()
    for _ in range(chance.choice((1, 1, 2, 4))):
        place = chance.randrange(len(lines))
        name, equals, _ = lines[place].partition("=")
        kind = chance.randrange(6)
        if kind == 0:
            lines.insert(chance.randrange(len(lines)), lines[place])
        elif kind == 1:
            del lines[place]
            lines = lines or [""]
        elif kind == 2:
            lines.insert(place, chance.choice(_TOML_LINES))
        elif equals:
            lines[place] = f"{name}= {_toml_value(chance)}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


_TOML_LINES = (
    "[" * 3000,
    "x = " + "[" * 30_000,
    "a" + ".a" * 20_000 + " = 1",
    "[task.task]",
    "[[training]]",
    "[estimator.own]",
    "estimator.own = 3",
    "alpha = 1",
    '"a b" = 1',
    "steps = 1",
    'estimator = "../../x"',
    "#" * 70_000,
    "outer_iterations = 5",
    "\x00",
)


def _toml_value(chance: random.Random) -> str:
    return chance.choice(
        (
            json.dumps(chance.choice(nasty.TEXTS)),
            str(chance.choice(nasty.NUMBERS)),
            repr(chance.choice(nasty.REALS)),
            "0x" + "f" * chance.choice((4, 40, 4000)),
            "9" * 5000,
            "nan",
            "inf",
            "-inf",
            "1979-05-27T07:32:00Z",
            "[1, 2]",
            "[" + "9, " * 2000 + "]",
            f"[{2**31 - 1}]",
            "[1000000000, 1000000000]",
            "{a = 1}",
            "true",
            "''",
            "'none'",
        )
    )


def in_safetensors(data: bytes, chance: random.Random) -> bytes:
    """The header, the arrays or the texts beside them edited; whole again, with a right digest, where that can be."""
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    kind = chance.randrange(8)
    if kind == 0:
        return struct.pack("<Q", chance.choice((0, 1, 7, size + 1, 2**31, 2**40, 2**63, 2**64 - 1))) + data[8:]
    if kind <= 2:  # whatever is in the header
        return _safetensors(in_json(json.dumps(header).encode(), chance), body)
    tensors = safetensors.numpy.load(data)
    texts = header.get("__metadata__", {})
    text = next((name for name in texts if name != "sha256"), None)
    if kind == 3 or (kind <= 6 and text is None):
        tensors = arrays(tensors, chance)
    elif text is not None:
        texts[text] = in_json(texts[text].encode(), chance).decode("utf-8", "replace")
    else:
        texts = {"sha256": chance.choice(nasty.TEXTS)}
    return sealed(tensors, texts)


def sealed(tensors: dict[str, np.ndarray], texts: dict[str, str]) -> bytes:
    """A file with the digest that its kind has."""
    text = next((name for name in texts if name != "sha256"), None)
    digest = digest_of(tensors)
    if text is not None:
        digest = hashlib.sha256(f"{texts[text]}\0{digest}".encode()).hexdigest()
    return bytes(safetensors.numpy.save(tensors, metadata={**texts, "sha256": digest}))


def arrays(tensors: dict[str, np.ndarray], chance: random.Random) -> dict[str, np.ndarray]:
    """Other names, types, shapes and values."""
    name = chance.choice(sorted(tensors))
    array = tensors[name]
    kind = chance.randrange(9)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[chance.choice(nasty.TEXTS[:7]).replace("\0", "0") or "x"] = tensors.pop(name)
    elif kind == 2:
        tensors[name] = array.astype(chance.choice(("f2", "f4", "f8", "i1", "i8", "u1", "u4", "?")))
    elif kind == 3:
        tensors[name] = np.zeros(chance.choice(((0,), (0, 10**6), (1,), (3, 1), (2, 2, 2), ())), array.dtype)
    elif kind == 4:
        tensors[name] = array.reshape(-1)
    elif kind == 5:
        tensors[name] = np.concatenate([np.atleast_1d(array)] * 2)
    elif kind == 6:
        other = chance.choice(sorted(tensors))
        tensors[name], tensors[other] = tensors[other], tensors[name]
    else:
        values = np.array(array)
        with np.errstate(all="ignore"):
            values.reshape(-1)[chance.randrange(max(values.size, 1)) : :][:1] = np.array(
                chance.choice((np.nan, np.inf, -1.0, 1e30, 2.0**31, 0.5))
            ).astype(array.dtype)
        tensors[name] = values
    return {key: np.ascontiguousarray(value) if value.ndim else value for key, value in tensors.items()}


def in_parquet(data: bytes, chance: random.Random) -> bytes:
    """Other columns and rows; a footer or page headers that say other things; or a file that is much from little."""
    kind = chance.randrange(6)
    if kind == 0:
        return chance.choice(BOMBS)()
    if kind == 1:  # the footer, which tells where everything is
        length = int.from_bytes(data[-8:-4], "little")
        start = len(data) - 8 - length
        return data[:start] + blind(data[start:-8], chance)[:length].ljust(length, b"\0") + data[-8:]
    if kind == 2:  # the first pages' headers
        place = 4 + chance.randrange(max(1, min(len(data) - 12, 200)))
        word = chance.choice((b"\xff\xff\xff\xff\x0f", b"\x00", b"\xfe\xff\xff\xff\x07", b"\x80\x01"))
        return data[:place] + word + data[place + len(word) :]
    return _rows(data, chance)


def _rows(data: bytes, chance: random.Random) -> bytes:
    table = decode_any(data)  # which may be a bomb by now
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice(table.columns)
        column = table[name]
        kind = chance.randrange(9)
        if kind == 0:
            table = table.drop(name)
        elif kind == 1:
            table = table.rename({name: chance.choice(("x", "round", "a/b", "..", "\x1b[2J", "return"))}, strict=False)
        elif kind == 2:
            table = table.with_columns(column.cast(chance.choice((pl.Float64, pl.String, pl.Int8)), strict=False))
        elif kind == 3:
            table = table.clear()
        elif kind == 4:
            table = pl.concat([table] * chance.choice((2, 100)))
        elif kind == 5:
            table = table.with_columns(pl.Series(name, [None] * table.height, column.dtype))
        elif column.dtype.is_numeric():
            extremes: list[float] = [float("nan"), float("inf"), 1e308, -1e308]
            if column.dtype.is_integer():
                extremes = [-1, 2**31 - 1, 0, 127, *([2**63 - 1, 2**62] if column.dtype == pl.Int64 else [])]
            drawn = [chance.choice(extremes) if chance.random() < 0.4 else old for old in column.to_list()]
            table = table.with_columns(pl.Series(name, drawn, column.dtype))
        elif column.dtype == pl.String:
            table = table.with_columns(pl.Series(name, [chance.choice(nasty.TEXTS)] * table.height))
        if not table.columns:
            break
    out = io.BytesIO()
    table.write_parquet(out)
    return out.getvalue()


def _arrow(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def _equal_rows() -> bytes:
    """Twelve million rows in a few kilobytes."""
    return _arrow(pa.table({"round": pa.array(np.ones(12_000_000, np.int64))}), compression="zstd")


def _one_long_text() -> bytes:
    """A text that stands in many rows and is written once."""
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200_000, np.int32)), pa.array(["x" * 1_000_000]))
    return _arrow(pa.table({"phase": texts, "ending": texts}), store_schema=False)


def _compressed() -> bytes:
    """A page of two hundred megabytes, of which all bytes are equal."""
    table = pa.table({"phase": pa.array(["x" * 100_000_000] * 2)})
    return _arrow(table, compression="zstd", use_dictionary=False, write_statistics=False)


def _fixed_lists() -> bytes:
    """A schema that says that lists are as long as can be."""
    table = pa.table({"vector": pa.array([None, [1.0, 2.0]], pa.list_(pa.float64()))})
    schema = pa.schema([pa.field("vector", pa.list_(pa.float64(), 2**31 - 1))])
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({b"ARROW:schema": base64.b64encode(schema.serialize().to_pybytes())})
    return out.getvalue()


def _deep() -> bytes:
    nested: Any = pa.array([1])
    for _ in range(60):
        nested = pa.ListArray.from_arrays([0, 1], nested)
    return _arrow(pa.table({"round": nested}))


def _wide() -> bytes:
    return _arrow(pa.table({f"c{i}": pa.array([1]) for i in range(3_000)}))


def _extension() -> bytes:
    """What an older Arrow would have unpickled."""
    named = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": "\x80\x04N."}
    field = pa.field("round", pa.binary(), metadata=named)
    return _arrow(pa.table([pa.array([b"x"])], schema=pa.schema([field])))


# They take longer to make than to be refused: each is made once.
BOMBS = tuple(
    functools.cache(make) for make in (_equal_rows, _one_long_text, _compressed, _fixed_lists, _deep, _wide, _extension)
)


def _safetensors(header: bytes, body: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + body


BY_SUFFIX: dict[str, Change] = {
    ".json": in_json,
    ".jsonl": in_json_lines,
    ".toml": in_toml,
    ".safetensors": in_safetensors,
    ".parquet": in_parquet,
    ".checkpoint": in_safetensors,
    ".piece": in_safetensors,
}
