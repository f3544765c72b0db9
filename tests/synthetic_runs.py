"""Runs made of random numbers instead of training, for whatever only reads results."""

from typing import Any

import numpy as np
import polars as pl

from srgdqn.config.configure import configure
from srgdqn.results.result import Result
from srgdqn.runs.run import Run
from srgdqn.runs.tables import frame


def synthetic(
    task: str = "MountainCar",
    algorithm: str = "srg-dqn",
    *,
    diverged: dict[int, int] | None = None,
    ends: int | None = None,
    interrupted: bool = False,
    noise: int = 0,
    level: float = 0.0,
    **options: Any,
) -> Result:
    """A run with windows, episodes of 100 to 299 steps, evaluations at the end, and segments of 4,096 steps.

    `diverged` gives the step of every round that diverged; `ends` is where the others stopped, if before the budget.
    """
    configuration = configure(task, algorithm, **options)
    training, generator = configuration.training, np.random.default_rng(noise)
    stops: dict[int, int] = diverged or {}
    curves: list[dict] = []
    episodes: list[dict] = []
    evaluations: list[dict] = []
    rounds: list[dict] = []
    for number in range(training.rounds):
        lengths = generator.integers(100, 300, size=4_000)
        last = np.cumsum(lengths)
        budget = training.steps if training.steps is not None else int(last[training.episodes - 1])
        steps = stops.get(number, budget if ends is None else ends)
        count = int((last <= steps).sum())
        for index in range(count):
            ended = {"round": number, "episode": index, "step": int(last[index]), "length": int(lengths[index])}
            episodes.append({**ended, "return": generator.normal(), "ending": "terminated", "success": True})
        edges = [*range(training.window, steps, training.window), steps]
        for edge in edges:
            curves.append(
                dict(
                    round=number,
                    step=edge,
                    reward=level + generator.normal(),
                    reward_cumulative=0.0,
                    episodes=int((last <= edge).sum()),
                    loss=None,
                    max_q=None,
                    delta_norm=None,
                    theta_norm=None,
                    queries=edge // 16 * 96,
                    gradient_evaluations=edge // 16 * 97,
                )
            )
        for index in range(3):
            played = {"round": number, "step": steps, "episode": index, "length": int(generator.integers(100, 200))}
            evaluations.append({**played, "return": -generator.uniform(100, 200), "success": bool(index % 2)})
        rounds.append(
            dict(
                round=number,
                steps=steps,
                episodes=count,
                outer_iterations=steps // 16,
                queries=steps // 16 * 96,
                gradient_evaluations=steps // 16 * 97,
                censored=number,
                diverged_at=stops.get(number),
                completed=number not in stops and ends is None,
            )
        )
    timings = []
    for start in range(0, training.rounds, training.lanes):
        mine = rounds[start : start + training.lanes]
        chunk = dict(first_round=start, rounds=len(mine))
        if not start:
            timings.append(dict(chunk, phase="compile", step=0, seconds=5.0))
        longest = max(row["steps"] for row in mine)
        for edge in [*range(4_096, longest, 4_096), longest]:
            timings.append(dict(chunk, phase="train", step=edge, seconds=float(generator.uniform(0.1, 0.2))))
        timings.append(dict(chunk, phase="evaluate", step=longest, seconds=1.0))
    rows = dict(curves=curves, episodes=episodes, evaluations=evaluations, rounds=rounds, timings=timings)
    tables = {
        name: frame(name, pl.DataFrame(given, infer_schema_length=None).to_dict()) for name, given in rows.items()
    }
    parameters = {"network.layers.0.weight": np.zeros((training.rounds, 2, 2), np.float32)}
    provenance = {"versions": {"jax": "0.1"}, "processor": "abacus", "instruction_sets": ["beads"]}
    return Result(Run(configuration, tables, parameters, {**provenance, "interrupted": interrupted}))
