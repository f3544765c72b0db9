"""Small valid instances of every format that is read, made by the project itself."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path
from typing import Any

FORMATS = (
    "run",
    "host-run",
    "agent",
    "measurement",
    "sweep",
    "live",
    "evidence",
    "configuration",
    "options",
    "checkpoint",
    "host-checkpoint",
    "unfinished",
)
"""What is fuzzed; each has a folder of its own in the corpus."""

SMALL: dict[str, Any] = dict(
    hidden=(4,),
    lanes=4,
    batch_size=4,
    inner_iterations=2,
    replay_capacity=48,
    learning_frequency=16,
    learning_starts=48,
    window=50,
    evaluation_interval=64,
    evaluation_episodes=2,
    keep_best=True,
    steps=200,
    kernel="xla",
)


def make_corpus(folder: Path) -> Path:
    """Writes one instance of each format."""
    import numpy as np
    import polars as pl

    import srgdqn
    from srgdqn.integrations import JsonLines
    from srgdqn.runs.configurations import dumps
    from srgdqn.runs.measurement import Measured, save
    from srgdqn.runs.provenance import provenance
    from srgdqn.runs.unfinished import Request, write_request

    for name in FORMATS:
        (folder / name).mkdir(parents=True)
    rows = JsonLines(folder / "live" / "rows.jsonl")
    small = dict(SMALL, rounds=2, normalise_observations=True)
    result = srgdqn.train("CartPole", "srg-dqn", progress=False, loggers=[rows], **small)
    result.save(folder / "run" / "run")
    asked = Request(dumps(result.configuration), {"source": "0" * 16}, {"every": 60.0, "keep": 2, "overwrite": False})
    (folder / "unfinished" / "run.unfinished" / "jobs" / "rounds-0-1").mkdir(parents=True)
    write_request(folder / "unfinished" / "run.unfinished", asked)
    _store_checkpoints(folder / "checkpoint", "CartPole", "srg-dqn", **dict(small, steps=30_000))

    agent = srgdqn.Agent("dqn-adam", "CartPole-v1", seed=0, **SMALL)
    agent.learn(128)
    agent.save(folder / "agent" / "agent.safetensors", include_replay=True)
    hosted = srgdqn.train("CartPole-v1", "dqn-adam", progress=False, rounds=2, **SMALL)
    hosted.save(folder / "host-run" / "run")
    _store_checkpoints(folder / "host-checkpoint", "CartPole-v1", "dqn-adam", **SMALL)

    swept = srgdqn.sweep("CartPole", "srg-dqn", {"eta": [0.01, 0.02]}, progress=False, **SMALL)
    swept.save(folder / "sweep" / "sweep")
    tables = {
        "distances": pl.DataFrame(
            {"estimator": ["srg", "svrg"], "m": [1, 2], "own": [0.5, None], "kept": [True, False]}
        ),
        "vectors": pl.DataFrame({"round": [0, 1], "vector": np.arange(6.0).reshape(2, 3)}),
    }
    save(Measured(tables, {"plan": {"steps": [16]}, **provenance()}), folder / "measurement" / "measurement")
    released = resources.files("srgdqn.paper.evidence").joinpath("confirmation.json")
    (folder / "evidence" / "confirmation.json").write_bytes(released.read_bytes())
    own = result.configuration.with_options({"estimator": "storm_inner", "a": 0.25})
    (folder / "configuration" / "configuration.toml").write_text(dumps(own))
    lines = ('algorithm = "svr-dqn"', "steps = 2000", "[task]", 'task = "CartPole"', "[network]", "hidden = [8, 8]")
    lines += ("[estimator]", 'estimator = "alpha_svrg"', "svrg_start = 0.75", "[estimator.own]", "svrg_end = 0.25")
    (folder / "options" / "options.toml").write_text("\n".join((*lines, "[optimiser]", "eta = 0.1")))
    return folder


def _store_checkpoints(folder: Path, task: str, algorithm: str, **options: Any) -> None:
    """The checkpoints of a run, before its end and at it."""
    import srgdqn
    from srgdqn.runs.configurations import dumps

    often = dict(checkpoint_every=0, keep_checkpoints=2)
    run = srgdqn.train(task, algorithm, progress=False, out=folder / "run", **often, **options)
    shutil.move(folder / "run" / "checkpoints", folder / "checkpoints")
    (folder / "configuration.toml").write_text(dumps(run.configuration))
    shutil.rmtree(folder / "run")
