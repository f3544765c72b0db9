"""Named sets of readings: what is done where the paper is silent or contradicts itself.

`corrected`, the default, is the smallest set of repairs that makes the paper coherent: it is every option's own default
and a task's preset. `printed` follows the letter of the paper where that can be done: bootstrapping is never masked
(lines 5, 9 and 11), the Adam process receives the raw gradient g_M (line 16), steps from θ_M and divides by the root of
a norm (line 21).
"""

from __future__ import annotations

from typing import Any

from srgdqn.errors import unknown

READINGS: dict[str, dict[str, Any]] = {
    "corrected": dict(mask_terminal=True, adam_input="delta", adam_from="last", adam_denominator="elementwise"),
    "printed": dict(mask_terminal=False, adam_input="gradient", adam_from="previous", adam_denominator="norm"),
}


def readings(name: str) -> dict[str, Any]:
    """The options of the set of that name."""
    if name not in READINGS:
        raise unknown("set of readings", name, READINGS)
    return dict(READINGS[name])
