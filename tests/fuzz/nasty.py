"""Values that are none, or more than anybody would write."""

from __future__ import annotations

import random
from typing import Any

# Stands for text that no JSON library writes, and is replaced by it afterwards.
RAW = "\u2603raw"

RAW_TEXTS = (
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 30,
    "9" * 5000,
    "[" * 900 + "]" * 900,
    "[" * 50_000,
    '{"a":' * 400 + "1" + "}" * 400,
    '"\\ud800"',
    '{"a": 1, "a": 2}',
    "0x10",
    "'",
    "",
)

TEXTS = (
    "",
    "..",
    "../../outside",
    "/etc/passwd",
    "a\x00b",
    "\x1b[2J",
    "__import__('os').system('id')",
    '"""\nimport os\n"""',
    "x" * 5_000,
    "os:Evil-v0",
    "CartPole-v1",
    "object",
    "U1000000000",
    "float32",
    "none",
    "\u202e\u0000",
    "image",
    "one-hot",
    "1e-3",
    "20+20",
)

NUMBERS = (0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), 10**9, 10**6)
REALS = (0.0, -0.0, 0.5, -1.5, 1e-300, 1e300, 1.7e308, 3.5e38, 1e100)


def value(chance: random.Random) -> Any:
    """Any value of JSON's, most of them wrong wherever they are put."""
    kind = chance.randrange(9)
    if kind == 0:
        return chance.choice(TEXTS)
    if kind <= 2:
        return chance.choice(NUMBERS)
    if kind == 3:
        return chance.choice(REALS)
    if kind == 4:
        return chance.choice((None, True, False))
    if kind == 5:
        return [value(chance) for _ in range(chance.randrange(4))]
    if kind == 6:
        return {chance.choice(TEXTS): value(chance) for _ in range(chance.randrange(3))}
    if kind == 7:
        return chance.choice(([], {}, [0] * 3000, [[]], [[0.0] * 2] * 2, "x" * 100_000))
    return RAW


def edited(document: Any, chance: random.Random) -> Any:
    """The document with one place in it changed, removed, doubled or moved."""
    places = list(_places(document))
    if not places:
        return value(chance)
    holder, key = chance.choice(places)
    kind = chance.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif kind == 1:
        holder[chance.choice(TEXTS)] = holder[key]
    elif kind == 2:
        other, elsewhere = chance.choice(places)
        holder[key], other[elsewhere] = other[elsewhere], holder[key]
    elif kind == 3 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] += chance.choice((-1, 1, 0.5, 2**31, -(2**40)))
    elif kind == 4 and isinstance(holder[key], list):
        holder[key] = holder[key] * chance.choice((2, 50))
    else:
        holder[key] = value(chance)
    return document


def _places(document: Any) -> Any:
    if isinstance(document, dict | list):
        for key, inner in document.items() if isinstance(document, dict) else enumerate(document):
            yield document, key
            yield from _places(inner)
