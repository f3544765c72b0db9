"""What is asked now beside what was asked then: where the two differ, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LONGEST = 60  # letters of a value, of which there may be many in one line


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Every name with its value then and now, where these differ; of what has parts, the parts.

    >>> changes({"seed": 0, "options": {"rounds": "8"}}, {"seed": 0, "options": {"rounds": "9", "eta": "0.1"}})
    ['rounds was 8, and now is 9', 'eta was not given, and now is 0.1']
    """
    told = []
    for name in {**then, **now}:
        old, new = ((_word(each[name]) if name in each else "not given") for each in (then, now))
        if isinstance(then.get(name), Mapping) and isinstance(now.get(name), Mapping):
            told += changes(then[name], now[name])
        elif name not in then or name not in now or then[name] != now[name]:
            told.append(f"{name} was {old}, and now is {new}")
    return told


def _word(value: Any) -> str:
    text = (" ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
