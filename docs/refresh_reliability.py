"""Puts what a fault drill found into `docs/reliability.md`: `python docs/refresh_reliability.py`.

The drill itself writes `docs/reliability.json`: `python tests/faults/drill.py --report docs/reliability.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from marked import replace

DOCS = Path(__file__).parent


def refresh(report: Path = DOCS / "reliability.json", page: Path = DOCS / "reliability.md") -> None:
    """Refreshes the page's counts."""
    replace(page, "counts", told(json.loads(report.read_text(encoding="utf-8"))))


def told(report: dict[str, Any]) -> str:
    """A report in words and tables."""
    minutes = sum(report["minutes"].values())
    parts = [
        f"{minutes:.0f} minutes on {report['machine']['cores']} cores that others used, too; seed {report['seed']}."
    ]
    drills = report["drills"]
    if kills := drills.get("kills"):
        lines = [
            f"**{kills['kills']} kills**, {kills['files half written']} of them while a file was being written; "
            f"{kills['runs with the same bits']} of {kills['runs']} runs ended with the same bits.",
            "",
            "| command | kills | while a file was written | runs | same bits |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {name} | {each['kills']} | {each['half']} | {each['runs']} | {each['same']} |"
            for name, each in kills["commands"].items()
        ]
        parts.append("\n".join(lines))
    if damages := drills.get("damages"):
        kinds = ("damages", "refused", "told, and made good", "of no consequence", "WRONG")
        lines = [
            f"**{damages['damages']} damaged bytes**, {damages['WRONG']} of which were loaded as something else.",
            "",
            f"| folder | {' | '.join(kind.lower() for kind in kinds)} |",
            "|---|" + "---|" * len(kinds),
        ]
        lines += [
            f"| {name} | {' | '.join(str(each.get(kind, 0)) for kind in kinds)} |"
            for name, each in sorted(damages["folders"].items())
        ]
        parts.append("\n".join(lines))
    for name, title in (
        ("disks", "Disks that are full or read-only"),
        ("rivals", "Rivals"),
        ("clocks", "Clocks that jump"),
        ("interrupts", "Ctrl-C and SIGTERM"),
    ):
        if found := drills.get(name):
            counted = ", ".join(f"{what.replace('_', '-')} {count}" for what, count in found.items())
            parts.append(f"**{title}**: {counted}.")
    problems = report["problems"]
    listed = "".join(f"\n- {problem['drill']}: {problem['what']}" for problem in problems)
    parts.append(f"Found wrong: {len(problems) or 'nothing'}.{listed}")
    return "\n\n".join(parts)


if __name__ == "__main__":
    refresh()
