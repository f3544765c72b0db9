"""Trains on Atari games for as many steps as an hour of two cores allows, and writes down what came of it.

    python docs/record_atari.py  # trains (make atari), one run on each core at a time, then writes
    python docs/record_atari.py --page  # writes the page anew from what is recorded

Records lie in `docs/atari.json`, from which the table between the marks of `docs/atari.md` and its picture are made.
Every run is written as soon as it is done; one that is recorded under the same settings is not trained again.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from marked import replace

from srgdqn.runs.destination import write_file

DOCS = Path(__file__).parent
RECORDS = DOCS / "atari.json"
PAGE = DOCS / "atari.md"
PICTURE = DOCS / "atari.png"

GAMES = ("ALE/Boxing-v5", "ALE/Breakout-v5")
ALGORITHMS = ("svr-dqn", "srg-dqn", "dqn-adam")  # the longest first, so that the cores end together
SEED = 70_000
# The defaults for images are meant for a million steps. Of an hour's few, fewer go by before learning begins, ε falls
# over more, the target is renewed after fewer, and Adam's step is larger.
SETTINGS: dict[str, Any] = dict(
    steps=120_000,
    rounds=1,
    seed=SEED,
    environments=8,
    learning_frequency=16,
    learning_starts=3_200,
    target_period=200,
    alpha=2.5e-4,
    epsilon_end=0.05,
    epsilon_fraction=0.25,
    evaluation_interval=24_000,
    evaluation_episodes=3,
    evaluation_limit=3_000,
)
WINDOW = 10_000


def main() -> None:
    """Trains what is not recorded yet, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="train nothing")
    parser.add_argument("--one", nargs=2, metavar=("GAME", "ALGORITHM"), help="train one run, and print its record")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(train(*options.one)))
        return
    if not options.page:
        train_all()
    write_page(recorded())


def train_all() -> None:
    """Every run in a process of its own, bound to one core, as their bits depend on how many there are."""
    cores: SimpleQueue[int] = SimpleQueue()
    for core in sorted(os.sched_getaffinity(0))[:2]:
        cores.put(core)
    missing = [
        (game, algorithm)
        for game in GAMES
        for algorithm in ALGORITHMS
        if recorded().get(game, {}).get(algorithm, {}).get("settings") != SETTINGS
    ]

    def run(name: tuple[str, str]) -> tuple[tuple[str, str], dict[str, Any]]:
        core = cores.get()
        try:
            done = subprocess.run(
                [sys.executable, __file__, "--one", *name],
                env={**os.environ, "NPROC": "1"},
                preexec_fn=lambda: os.sched_setaffinity(0, [core]),
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        finally:
            cores.put(core)
        return name, json.loads(done.stdout.splitlines()[-1])

    with ThreadPoolExecutor(cores.qsize()) as pool:
        for run_done in as_completed([pool.submit(run, name) for name in missing]):
            (game, algorithm), told = run_done.result()
            records = recorded()
            records.setdefault(game, {})[algorithm] = told
            write_file(RECORDS, (json.dumps(in_order(records)) + "\n").encode())
            print(f"{game} {algorithm}: {told['evaluations']}", flush=True)


def in_order(records: dict[str, Any]) -> dict[str, Any]:
    """The same records, whichever was done first."""
    return {
        game: {name: records[game][name] for name in sorted(ALGORITHMS, reverse=True) if name in records[game]}
        for game in GAMES
        if game in records
    }


def train(game: str, algorithm: str) -> dict[str, Any]:
    """What one run came to, and what it took."""
    import srgdqn
    from srgdqn.runs.provenance import provenance

    begun = time.perf_counter()
    result = srgdqn.train(game, algorithm, progress=False, **SETTINGS)
    seconds = time.perf_counter() - begun
    spent = resource.getrusage(resource.RUSAGE_SELF)
    episodes, judged = result.episodes, result.evaluations.group_by("step", maintain_order=True).mean()
    return {
        "settings": SETTINGS,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "circumstances": {name: provenance()[name] for name in ("versions", "processor")},
        "diverged": int(result.rounds["diverged_at"].is_not_null().sum()),
        "seconds": seconds,
        "cpu_seconds": spent.ru_utime + spent.ru_stime,
        "peak_gib": spent.ru_maxrss / 2**20,
        "evaluations": [[int(row["step"]), float(row["return"])] for row in judged.iter_rows(named=True)],
        "episodes": [[int(step), float(total)] for step, total in episodes.select("step", "return").iter_rows()],
    }


def recorded() -> dict[str, Any]:
    """What there is."""
    return json.loads(RECORDS.read_text(encoding="utf-8")) if RECORDS.exists() else {}


def write_page(records: dict[str, Any]) -> None:
    """Puts the table and the circumstances into the page, and draws its picture."""
    for what, text in texts(records).items():
        replace(PAGE, what, text)
    draw(records)


def texts(records: dict[str, Any]) -> dict[str, str]:
    """What stands between the page's marks."""
    return {"results": result_table(records), "circumstances": circumstances(records)}


def result_table(records: dict[str, Any]) -> str:
    """A row for every game and algorithm."""
    lines = [
        "| game | algorithm | rounds | training return, first tenth | last tenth | greedy return | diverged | "
        "steps/s | peak memory |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for game, algorithms in records.items():
        for algorithm, told in algorithms.items():
            steps = told["settings"]["steps"]
            first, last = _mean_return(told, 0, steps // 10), _mean_return(told, steps - steps // 10, steps)
            cells = [
                f"`{game}`",
                f"`{algorithm}`",
                f"{told['settings']['rounds']}",
                first,
                last,
                f"{told['evaluations'][-1][1]:.1f}",
                f"{told['diverged']}",
                f"{steps / told['cpu_seconds']:.0f}",
                f"{told['peak_gib']:.2f} GiB",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def circumstances(records: dict[str, Any]) -> str:
    """With what the records were made, and how long it took."""
    runs = [told for algorithms in records.values() for told in algorithms.values()]
    minutes = sum(told["cpu_seconds"] for told in runs) / 60
    about = runs[-1]["circumstances"]
    versions = ", ".join(f"{package} {version}" for package, version in about["versions"].items() if version)
    when = f"Recorded on {runs[-1]['date']}, each run on one core of {about['processor']}"
    return f"{when}, {minutes:.0f} minutes of a core's time in all: {versions}."


def draw(records: dict[str, Any]) -> None:
    """Returns of training over steps, as means over windows, and those of greedy episodes as dots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    panels = figure.subplots(1, len(records), squeeze=False)[0]
    for panel, (game, algorithms) in zip(panels, records.items(), strict=True):
        for colour, (algorithm, told) in enumerate(algorithms.items()):
            steps, returns = np.array(told["episodes"], float).reshape(-1, 2).T
            edges = np.arange(0, told["settings"]["steps"], WINDOW)
            window = np.searchsorted(edges, steps, side="left") - 1
            drawn = np.unique(window)
            means = [returns[window == each].mean() for each in drawn]
            panel.plot(edges[drawn] + WINDOW / 2, means, color=f"C{colour}", label=algorithm)
            panel.plot(*np.array(told["evaluations"]).T, "o", color=f"C{colour}", ms=4, mfc="none")
        panel.set(title=game, xlabel="environment steps", ylabel="return of an episode")
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small")
    figure.savefig(PICTURE, dpi=130)


def _mean_return(told: dict[str, Any], after: int, until: int) -> str:
    """Of the training episodes that ended in a range of steps, with their number."""
    returns = [total for step, total in told["episodes"] if after < step <= until]
    return f"{np.mean(returns):.1f} ({len(returns)} episodes)" if returns else "none ended"


if __name__ == "__main__":
    main()
