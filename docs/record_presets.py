"""Trains with every tuned preset on seeds that no tuning has seen, and writes down what came of it.

    python docs/record_presets.py [--only ID …] [--algorithms NAME …]  # trains (make presets), then writes
    python docs/record_presets.py --page  # writes the page anew from what is recorded

Records lie in `docs/presets.json`, from which the tables between the marks of `docs/presets.md` are made. Every run is
written as soon as it is done; what is not trained anew keeps its records, as long as the preset is the same.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import polars as pl
from marked import replace

import srgdqn
from srgdqn.adapters.environments import close, source_of
from srgdqn.config.configure import configure
from srgdqn.config.presets import HOST_DEFAULTS, HOST_PRESETS
from srgdqn.results.comparison import option_text, summarise
from srgdqn.runs.destination import write_file
from srgdqn.runs.provenance import provenance
from srgdqn.training.host.task import host_task

DOCS = Path(__file__).parent
RECORDS = DOCS / "presets.json"
PAGE = DOCS / "presets.md"

ALGORITHMS = ("srg-dqn", "svr-dqn", "dqn-adam")
# CartPole's preset was tuned further once what it came to with seed 50,000 had been seen.
SEEDS = {**dict.fromkeys(HOST_PRESETS, 50_000), "CartPole-v1": 60_000}
ROUNDS = 5
EPISODES = 20
RANDOM_EPISODES = 100


def main() -> None:
    """Trains what was asked for, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="train nothing")
    parser.add_argument("--only", nargs="+", choices=HOST_PRESETS, default=list(HOST_PRESETS), metavar="ID")
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS), metavar="NAME")
    options = parser.parse_args()
    if not options.page:
        for environment in options.only:
            about = describe(environment)
            for algorithm in options.algorithms:
                keep(environment, about, algorithm, train(environment, algorithm))
    write_page(json.loads(RECORDS.read_text(encoding="utf-8")))


def describe(environment: str) -> dict[str, Any]:
    """What is the same for every algorithm."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "circumstances": {name: provenance()[name] for name in ("versions", "processor", "cores")},
        "seed": SEEDS[environment],
        "rounds": ROUNDS,
        "evaluation_episodes": EPISODES,
        "preset": HOST_PRESETS[environment],
        "threshold": gym.spec(environment).reward_threshold,
        "random": random_return(environment),
    }


def train(environment: str, algorithm: str) -> dict[str, Any]:
    """What one algorithm came to: returns are those of greedy episodes after the last step."""
    result = srgdqn.train(
        environment,
        algorithm,
        seed=SEEDS[environment],
        rounds=ROUNDS,
        evaluation_episodes=EPISODES,
        evaluation_interval=None,
        progress=False,
    )
    summary = summarise(result)
    whole = result.evaluations.filter(~pl.col("round").is_in(list(summary.diverged)))
    rounds = whole.group_by("round").agg(pl.col("return").mean()).sort("round")
    assert summary.seconds is not None
    told = {
        "steps": result.configuration.training.steps,
        "diverged": len(summary.diverged),
        "returns": rounds["return"].to_list(),
        "greedy_return": {name: getattr(summary.greedy_return, name) for name in ("rounds", "mean", "low", "high")},
        "steps_per_second": summary.steps / summary.rounds / summary.seconds,
    }
    print(f"{environment} {algorithm}: {told}", flush=True)
    return told


def random_return(environment: str) -> float:
    """The mean return of actions drawn uniformly from those that a policy chooses among."""
    task = host_task(configure(environment), source_of(environment))
    seed, copy, returns = SEEDS[environment], task.source.fresh(), []
    generator = np.random.default_rng(seed)
    for episode in range(RANDOM_EPISODES):
        copy.reset(seed=seed + episode)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = copy.step(task.actions.table[generator.integers(task.actions.count)])
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    close(copy, environment)
    return float(np.mean(returns))


def keep(environment: str, about: dict[str, Any], algorithm: str, told: dict[str, Any]) -> None:
    """Writes what an algorithm came to beside what others did under the same conditions, and other environments."""
    records = json.loads(RECORDS.read_text(encoding="utf-8")) if RECORDS.exists() else {}
    old = records.get(environment, {})
    about = json.loads(json.dumps(about))  # as it is read again
    same = all(old.get(name) == about[name] for name in ("seed", "rounds", "evaluation_episodes", "preset"))
    algorithms = {**(old["algorithms"] if same else {}), algorithm: told}
    records[environment] = {
        **about,
        "algorithms": {name: algorithms[name] for name in ALGORITHMS if name in algorithms},
    }
    known = {name: records[name] for name in HOST_PRESETS if name in records}
    write_file(RECORDS, (json.dumps(known, indent=2) + "\n").encode())


def write_page(records: dict[str, Any]) -> None:
    """Puts the tables into the page."""
    for what, text in texts(records).items():
        replace(PAGE, what, text)


def texts(records: dict[str, Any]) -> dict[str, str]:
    """What stands between the page's marks."""
    return {"presets": preset_table(records), "results": result_table(records), "circumstances": circumstances(records)}


def preset_table(records: dict[str, Any]) -> str:
    """The settings, of the defaults and of every preset that was recorded."""
    lines = ["| environment | settings: the defaults, and what differs from them |", "|---|---|"]
    rows = [("*defaults*", HOST_DEFAULTS), *((f"`{name}`", each["preset"]) for name, each in records.items())]
    for name, options in rows:
        lines.append(f"| {name} | {', '.join(f'`{option} = {_shown(value)}`' for option, value in options.items())} |")
    return "\n".join(lines)


def result_table(records: dict[str, Any]) -> str:
    """A row for every environment and algorithm."""
    lines = [
        "| environment | solved at | random | algorithm | steps | greedy return | 95 % interval | rounds solved | "
        "diverged | steps/s |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, each in records.items():
        threshold = "none" if each["threshold"] is None else f"{each['threshold']:g}"
        for algorithm, told in each["algorithms"].items():
            cells = [
                f"`{name}`",
                threshold,
                _number(each["random"]),
                f"`{algorithm}`",
                f"{told['steps']:,}",
                f"**{_number(told['greedy_return']['mean'])}**",
                _interval(told["greedy_return"]),
                _solved(each["threshold"], told["returns"], each["rounds"]),
                f"{told['diverged']}",
                f"{told['steps_per_second']:,.0f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def circumstances(records: dict[str, Any]) -> str:
    """When and with what the records were made: a sentence for each of the circumstances there were."""
    told: dict[str, list[str]] = {}
    for name, each in records.items():
        about = each["circumstances"]
        versions = ", ".join(f"{package} {version}" for package, version in about["versions"].items() if version)
        seen = f"{each['rounds']} rounds of seed {each['seed']:,}, recorded on {each['date']}"
        when = f"{seen} on {about['cores']} cores of {about['processor']}: {versions}."
        told.setdefault(when, []).append(f"`{name}`")
    return "\n\n".join(f"{', '.join(names)}: {when}" for when, names in told.items())


def _shown(value: Any) -> str:
    return option_text(tuple(value) if isinstance(value, list) else value)  # JSON has lists alone


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,.1f}"


def _interval(spread: dict[str, float | None]) -> str:
    if spread["low"] is None:
        return "none"
    return f"{_number(spread['low'])} to {_number(spread['high'])}"


def _solved(threshold: float | None, returns: Iterable[float], rounds: int) -> str:
    if threshold is None:
        return "–"
    return f"{sum(each >= threshold for each in returns)} of {rounds}"


if __name__ == "__main__":
    main()
