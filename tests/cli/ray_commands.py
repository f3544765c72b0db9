"""The long commands on a Ray cluster whose workers, nodes and drivers are killed, beside the same without Ray, as
programs that run behind the fence and print what they saw as JSON: `python ray_commands.py NAME FOLDER`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ray_nodes import ADDRESS, Cluster, Gate, kill_worker_and_node
from srgdqn.cli import main
from srgdqn.runs.tensors import decode_parameters
from tiny import bits

Seen = dict[str, Any]
ON_RAY = ("--engine", "ray", "--address", ADDRESS)


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "srgdqn", *map(str, words)]


def done(words: Sequence[str]) -> Seen:
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    return {"code": ended.returncode, "out": ended.stdout, "errors": ended.stderr}


def started(words: Sequence[str | Path], gate: Gate) -> subprocess.Popen[str]:
    """The same command, its calls on Ray held at a gate."""
    held = [sys.executable, __file__, "held", gate.folder, gate.free, *words]
    return subprocess.Popen([str(word) for word in held], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def signalled(words: Sequence[str | Path], gate: Gate, number: int, saved: tuple[Path, str]) -> int:
    """Starts a command and sends it a signal while two calls are held and two files of a pattern are in a folder; the
    code that it ends with.
    """
    process = started(words, gate)
    gate.wait_for(2)
    folder, pattern = saved
    end = time.monotonic() + 120
    while len(list(folder.glob(pattern))) < 2:
        assert time.monotonic() < end, f"{folder} has not two of {pattern}"
        time.sleep(0.02)
    process.send_signal(number)
    process.communicate(timeout=120)
    return process.returncode


def contents(folder: Path) -> dict[str, Any]:
    """Every table and every parameter below a folder, by path, but for the timings."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith("."):  # what was being written, beside its place, when its writer was killed
            continue
        if path.suffix == ".parquet" and path.stem != "timings":
            found[name] = pl.read_parquet(path).to_dict(as_series=False)
        elif path.suffix == ".safetensors":
            found[name] = bits(decode_parameters(path.read_bytes()))
    return found


def same(one: Path, other: Path) -> Seen:
    here, there = contents(one), contents(other)
    differing = [name for name in here if repr(here[name]) != repr(there.get(name))]
    return {"files": len(here), "missing": sorted(here.keys() ^ there.keys()), "differing": differing}


def reproduced(folder: Path) -> Seen:
    """A part of the paper, with a driver, a worker and a node killed."""
    here, there = folder / "here", folder / "there"
    words = ("reproduce", "figure-2", "figure-3-left", "--quick", "--json")
    seen: Seen = {"here": done(command(*words, "--out", here))}
    cluster = Cluster()
    cells = there / "quick" / "cells"
    on_ray = (*words, "--out", there, *ON_RAY)
    seen["driver"] = signalled(on_ray, Gate(folder / "driver", free=2), signal.SIGKILL, (cells, "*/manifest.json"))
    gate = Gate(folder / "workers", free=2)
    process = started(on_ray, gate)
    seen["deaths"] = kill_worker_and_node(cluster, gate)
    out, errors = process.communicate(timeout=300)
    seen["there"] = {"code": process.returncode, "out": out, "errors": errors}
    seen["same"] = same(here / "quick" / "cells", cells)
    return seen


def trained(folder: Path) -> Seen:
    """A run whose driver is killed and that goes on; one on the host; a sweep."""
    Cluster()
    seen: Seen = {}
    runs = {
        "train": ("train", "MountainCar", "srg-dqn", "--rounds", "32", "--lanes", "8", "--steps", "200000"),
        "host": ("train", "CartPole-v1", "dqn-adam", "--rounds", "2", "--steps", "6000"),
        "sweep": ("sweep", "CartPole", "srg-dqn", "--eta", "1e-3", "1e-2", "--hidden", "8", "8+8", "--steps", "20000"),
    }
    for name, words in runs.items():
        here, there = folder / f"{name}-here", folder / f"{name}-there"
        seen[name] = {"here": done(command(*words, "--quiet", "--out", here))["code"]}
        on_ray = [*words, "--quiet", "--out", there, *ON_RAY]
        if name == "train":
            on_ray += ["--checkpoint-every", "0.5"]
            checkpoints = folder / f"{there.name}.unfinished" / "jobs", "*/*.checkpoint"
            seen[name]["killed"] = signalled(on_ray, Gate(folder / "killed"), signal.SIGKILL, checkpoints)
            on_ray.append("--resume")
            for how, number in (("interrupted", signal.SIGINT), ("terminated", signal.SIGTERM)):
                seen[name][how] = signalled(on_ray, Gate(folder / how), number, checkpoints)
        seen[name]["there"] = done(command(*on_ray))
        seen[name]["same"] = same(here, there)
        manifest = json.loads(next(there.rglob("manifest.json")).read_text())
        seen[name]["engine"] = manifest["provenance"].get("engine")
    return seen


ESTIMATOR = """
import gymnasium, jax, srgdqn
from gymnasium.envs.classic_control import CartPoleEnv
from srgdqn.estimators import Direction, Estimator
import a_scale

class Pole(CartPoleEnv):
    pass

def direction(state, theta, previous, query):
    gradient = query.dense(query.on_present(theta))
    return Direction(jax.tree.map(lambda g: a_scale.SCALE * g, gradient), gradient, state)

srgdqn.register_estimator("scaled", Estimator(direction, lambda work: 1, lambda work: 1))
gymnasium.register("Pole-v0", "an_estimator:Pole", max_episode_steps=100)
"""


def own(folder: Path) -> Seen:
    """An estimator and an environment of a module that no node finds by itself."""
    Cluster()
    (folder / "lib").mkdir()
    (folder / "lib" / "a_scale.py").write_text("SCALE = 0.5\n")
    (folder / "lib" / "an_estimator.py").write_text(ESTIMATOR)
    mine = ("--estimator", "scaled", "--import", folder / "lib" / "an_estimator.py", "--quiet", "--hidden", "4")
    mine += ("--learning-starts", "64", "--steps", "400", "--rounds", "2", "--lanes", "1")
    seen: Seen = {}
    for name, words in {
        "compiled": ("sweep", "CartPole", "svr-dqn", "--eta", "1e-3", "1e-2"),
        "host": ("train", "Pole-v0", "svr-dqn"),
    }.items():
        here, there = folder / f"{name}-here", folder / f"{name}-there"
        seen[name] = {"here": done(command(*words, *mine, "--out", here))}
        seen[name]["there"] = done(command(*words, *mine, "--out", there, *ON_RAY))
        seen[name]["same"] = same(here, there)
    return seen


if __name__ == "__main__":
    _, name, place, *more = sys.argv
    if name == "held":
        with Gate(Path(place), int(more[0])).shut():
            sys.exit(main(more[1:]))
    print(json.dumps({each.__name__: each for each in (reproduced, trained, own)}[name](Path(place))))
