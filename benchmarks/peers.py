"""How fast contenders do the same job: DQN, and SRG-DQN beside the obvious way to write it in PyTorch.

    python benchmarks/peers.py [--quick] [--only NAME …] [--turns N] [--out FILE]

Aggregate environment steps per second once learning has started: of one round alone on one core, and of 50 rounds on
all cores in each contender's best arrangement. All are measured in turns, because a shared machine's speed drifts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from job.settings import TASKS
from lineup import COMPARISONS, CONTENDERS
from measuring import circumstances
from reporting import Bar, Panel, between, multiple, place_for, print_table, write_report
from standings import Entry, Row, standings
from turns import Budget, absences, asked, measure_in_turns, print_absences

FULL = Budget(turns=3, steps=100_000, seconds=3.0, limit=300.0, tasks=tuple(TASKS))
QUICK = Budget(turns=1, steps=2_000, seconds=0.3, limit=120.0, tasks=("MountainCar",))


def main() -> None:
    names = [contender.name for contender in CONTENDERS]
    budget, only, out = asked(__doc__, names, full=FULL, quick=QUICK, out=place_for(__file__))

    entries = list(_entries(budget.tasks, only))
    turns, failures = measure_in_turns(entries, budget)
    rows = standings(turns, COMPARISONS)
    absent = absences(failures)
    for task, rounds in _tables(rows):
        shown = [row for row in rows if (row["task"], row["rounds"]) == (task, rounds)]
        print_table(_title(task, rounds), COLUMNS, [_cells(row) for row in shown], names=3)
    print_absences(absent)
    report = {"circumstances": circumstances(), "budget": budget._asdict(), "rows": rows, "absent": absent}
    write_report(out, report, _panels(rows))


def _entries(tasks: Sequence[str], only: Sequence[str]) -> Iterator[Entry]:
    for task in tasks:
        for contender in CONTENDERS:
            if contender.name in only:
                for arrangement in contender.arrangements:
                    yield Entry(task, contender, arrangement)


COLUMNS = (
    "job",
    "contender",
    "arrangement",
    "steps/s",
    "worst to best turn",
    "× Stable-Baselines3",
    "× plain PyTorch",
    "warm-up",
    "peak memory",
)


def _cells(row: Row) -> list[str]:
    rate = row["steps_per_second"]
    return [
        row["job"],
        row["label"],
        row["arrangement"],
        f"{rate['median']:,.0f}",
        between(rate),
        multiple(row["to_stable_baselines3"]),
        multiple(row["to_plain_pytorch"]),
        f"{row['warm_up_seconds']:.1f} s",
        f"{row['peak_mib']:,.0f} MiB",
    ]


def _tables(rows: Sequence[Row]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((row["task"], row["rounds"]) for row in rows))


def _title(task: str, rounds: int) -> str:
    return f"{task}, one round on one core" if rounds == 1 else f"{task}, {rounds} rounds on all cores"


def _panels(rows: Sequence[Row]) -> list[Panel]:
    return [
        Panel(
            _title(task, rounds),
            "environment steps per second",
            [
                Bar(f"{row['label']} · {row['job']}", row["steps_per_second"], row["ours"])
                for row in rows
                if (row["task"], row["rounds"]) == (task, rounds) and row["best_arrangement"]
            ],
        )
        for task, rounds in _tables(rows)
    ]


if __name__ == "__main__":
    main()
