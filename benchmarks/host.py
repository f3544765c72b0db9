"""How fast DQN is where Gymnasium's own environment is stepped on the host, beside others who step it, too.

    python benchmarks/host.py [--quick] [--only NAME …] [--turns N] [--out FILE]

Environment steps per second of one round on CartPole-v1 on one core, once learning has started, with the same steps
and updates by everyone; and where the time of a step goes (`host_parts.py`). All of it is measured once in every turn,
because a shared machine's speed drifts.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from arrangements import ALONE, ContenderError
from host_lineup import AIMS, HOST_COMPARISONS, HOST_CONTENDERS, TO_BASELINE, TO_ENVIRONMENT, TO_PLAIN
from host_parts import measure_parts
from job.settings import TASKS
from measuring import circumstances, spread
from reporting import Bar, Panel, console, multiple, place_for, print_table, write_report
from standings import Entry, Row, standings
from turns import Budget, absences, asked, measure_in_turns, print_absences

TASK = "CartPole"
TITLE = f"{TASKS[TASK].identifier} stepped on the host, one round on one core"
TAKEN_APART = ("dqn-adam", "srg-dqn")

FULL = Budget(turns=5, steps=50_000, seconds=None, limit=600.0, tasks=(TASK,))
QUICK = Budget(turns=1, steps=4_000, seconds=None, limit=120.0, tasks=(TASK,))

Parts = dict[str, float]  # microseconds per step, by part


def main() -> None:
    names = [contender.name for contender in HOST_CONTENDERS]
    budget, only, out = asked(__doc__, names, full=FULL, quick=QUICK, out=place_for(__file__))

    chosen = [contender for contender in HOST_CONTENDERS if contender.name in only]
    taken: dict[str, list[Parts]] = {}
    wholes: dict[str, str] = {}  # what could not be taken apart, and why
    if any(contender.ours for contender in chosen):
        taken = {algorithm: [] for algorithm in TAKEN_APART}
    turns, failures = measure_in_turns(
        [Entry(TASK, contender, ALONE) for contender in chosen],
        budget,
        also=lambda: take_apart(taken, wholes, budget),
    )
    rows = standings(turns, HOST_COMPARISONS)
    aims, parts = aim_rows(rows), part_rows(taken)
    absent = absences(failures) + [
        {"task": TASK, "contender": f"parts of {algorithm}", "arrangement": ALONE.name, "reason": reason}
        for algorithm, reason in wholes.items()
    ]
    print_table(TITLE, COLUMNS, [_cells(row) for row in rows])
    if aims:
        print_table("What was aimed at", AIM_COLUMNS, [_aim_cells(row) for row in aims])
    if parts:
        print_table("Where the time of a step goes", PART_COLUMNS, [_part_cells(row) for row in parts], names=2)
    print_absences(absent)
    report = {
        "circumstances": circumstances(),
        "budget": budget._asdict(),
        "rows": rows,
        "aims": aims,
        "parts": parts,
        "absent": absent,
    }
    write_report(out, report, _panels(rows, parts))


def take_apart(taken: dict[str, list[Parts]], wholes: dict[str, str], budget: Budget) -> None:
    """Adds a turn to every algorithm's parts, or the reason why it has none, or no more."""
    for algorithm, turns in taken.items():
        if algorithm in wholes:
            continue
        try:
            turns.append(measure_parts(algorithm, budget.steps, budget.limit))
        except ContenderError as failure:
            wholes[algorithm] = str(failure)
        else:
            shown = ", ".join(f"{part} {microseconds:.1f}" for part, microseconds in turns[-1].items())
            console.print(f"parts of {algorithm}, µs per step: {shown}", highlight=False)


def aim_rows(rows: Sequence[Row]) -> list[Row]:
    """What was reached of every aim whose contenders were measured."""
    measured = {row["contender"]: row for row in rows}
    ratios = [(aim, measured[aim.contender][aim.comparison]) for aim in AIMS if aim.contender in measured]
    return [
        {"aim": aim.words, "at_least": aim.at_least, "reached": ratio, "met": ratio["median"] >= aim.at_least}
        for aim, ratio in ratios
        if ratio is not None
    ]


def part_rows(taken: Mapping[str, Sequence[Parts]]) -> list[Row]:
    """A row per algorithm and part. Shares are of the sum of medians; a part may be lost in noise."""
    rows = []
    for algorithm, turns in taken.items():
        if turns:
            medians = {part: statistics.median(turn[part] for turn in turns) for part in turns[0]}
            rows += [
                {
                    "algorithm": algorithm,
                    "part": part,
                    "microseconds": spread([turn[part] for turn in turns]),
                    "share": median / sum(medians.values()),
                }
                for part, median in medians.items()
            ]
    return rows


COLUMNS = (
    *("contender", "steps/s", "each turn", "× Stable-Baselines3", "× plain PyTorch", "of the environment's speed"),
    *("warm-up", "peak memory"),
)
AIM_COLUMNS = ("aim", "at least", "reached", "each turn", "")
PART_COLUMNS = ("algorithm", "part", "µs per step", "each turn", "share")


def _cells(row: Row) -> list[str]:
    rate, share = row["steps_per_second"], row[TO_ENVIRONMENT]
    return [
        row["label"],
        f"{rate['median']:,.0f}",
        _each(rate["turns"], ",.0f"),
        multiple(row[TO_BASELINE]),
        multiple(row[TO_PLAIN]),
        "" if share is None else f"{share['median']:.0%}",
        f"{row['warm_up_seconds']:.1f} s",
        f"{row['peak_mib']:,.0f} MiB",
    ]


def _aim_cells(row: Row) -> list[str]:
    ratio = row["reached"]
    verdict = "reached" if row["met"] else "missed"
    return [row["aim"], f"{row['at_least']:.0f} ×", f"{ratio['median']:.1f} ×", _each(ratio["turns"], ".1f"), verdict]


def _part_cells(row: Row) -> list[str]:
    time = row["microseconds"]
    return [
        row["algorithm"],
        row["part"],
        f"{time['median']:.1f}",
        _each(time["turns"], ".1f"),
        f"{row['share']:.0%}",
    ]


def _each(turns: Sequence[float], form: str) -> str:
    # Thousands have commas, too.
    return " · ".join(f"{turn:{form}}" for turn in turns)


def _panels(rows: Sequence[Row], parts: Sequence[Row]) -> list[Panel]:
    speeds = [Bar(row["label"], row["steps_per_second"], row["ours"]) for row in rows]
    # A logarithm has no place for what was lost in noise.
    times = [
        Bar(f"{row['part']} · {row['algorithm']}", row["microseconds"], ours=True)
        for row in parts
        if row["microseconds"]["lowest"] > 0
    ]
    panels = (
        Panel(TITLE, "environment steps per second", speeds),
        Panel("where the time of a step goes", "µs per step", times),
    )
    return [panel for panel in panels if panel.bars]


if __name__ == "__main__":
    main()
