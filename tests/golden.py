"""Golden results: digests of what small runs compute, recorded once and compared to the bit after a change.

    python tests/golden.py record FOLDER
    python tests/golden.py compare FOLDER

It knows of the package only what is public and documented (`srgdqn.train`, `srgdqn.Agent`, the command line, the files
that runs leave), so that it compares two revisions however far their modules were moved. It tests the `srgdqn` that
Python imports, and says which that is. FOLDER holds one JSON file per configuration: a digest per table and column,
wall-clock values left out.
"""

from __future__ import annotations

import argparse
import faulthandler
import fnmatch
import hashlib
import json
import multiprocessing
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import polars as pl

Table = dict[str, str]
"""The digest of every column of a table, or of every array of a group."""
Digests = dict[str, Table]
"""The tables of a configuration."""

MACHINE = "machine.json"
LONGEST = 400.0  # seconds after which a configuration counts as hanging


# Digests.


def digest_of_array(array: Any) -> str:
    """The digest of an array's type, shape and bytes.

    >>> digest_of_array(np.float32([0.0])) == digest_of_array(np.float32([-0.0]))
    False
    """
    array = np.asarray(array)
    if array.dtype.kind not in "biufU":
        raise TypeError(f"an array of {array.dtype} has no bytes that could be compared. Give numbers or strings.")
    told = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    told.update(np.ascontiguousarray(array).tobytes())
    return told.hexdigest()


def digest_of_column(column: pl.Series) -> str:
    """The digest of a column's type, length, missing values and bytes."""
    told = hashlib.sha256(f"{column.dtype} {len(column)} ".encode())
    told.update(np.packbits(column.is_null().to_numpy()).tobytes())
    if column.dtype in (pl.String, pl.Null):
        told.update(json.dumps(column.to_list()).encode())
    elif column.dtype == pl.Boolean:
        told.update(column.fill_null(value=False).to_numpy().tobytes())
    elif column.dtype == pl.Array:
        told.update(digest_of_column(column.arr.to_list()).encode())
    elif column.dtype == pl.List:
        told.update(column.list.len().fill_null(0).to_numpy().tobytes())
        told.update(digest_of_column(column.drop_nulls().explode()).encode())
    elif column.dtype.is_numeric():
        told.update(column.fill_null(0).to_numpy().tobytes())
    else:
        raise TypeError(f"a column of {column.dtype} has no bytes that could be compared. Teach digest_of_column.")
    return told.hexdigest()


def digests_of_arrays(arrays: Mapping[str, Any]) -> Table:
    """A digest per array."""
    return {name: digest_of_array(array) for name, array in arrays.items()}


def digests_of_frame(frame: pl.DataFrame) -> Table:
    """A digest per column, without the wall clock's."""
    return {column.name: digest_of_column(column) for column in frame if "second" not in column.name}


def digests_of_result(result: Any) -> Digests:
    """The tables and parameters of a run."""
    rounds = result.rounds["round"].to_list()
    parameters = {number: result.parameters_of(number) for number in rounds}
    stacked = {name: np.stack([parameters[number][name] for number in rounds]) for name in parameters[rounds[0]]}
    tables = {name: digests_of_frame(getattr(result, name)) for name in TABLES}
    return {**tables, "parameters": digests_of_arrays(stacked)}


TABLES = ("curves", "episodes", "evaluations", "rounds")


def digests_of_files(folder: Path) -> Digests:
    """The tables and arrays in the files that a command left, without the wall clock's."""
    from safetensors.numpy import load_file

    tables: Digests = {}
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if file.stem == "timings":
            continue
        if file.suffix == ".parquet":
            tables[name] = digests_of_frame(pl.read_parquet(file))
        elif file.suffix == ".csv":
            tables[name] = digests_of_frame(pl.read_csv(file, infer_schema=False))
        elif file.suffix == ".safetensors":
            tables[name] = digests_of_arrays(load_file(file))
    if not tables:
        raise FileNotFoundError(f"there is no table in {folder}")
    return tables


def prefixed(**groups: Digests) -> Digests:
    """The tables of several things, each named after what it is of."""
    return {f"{group}/{name}": table for group, tables in groups.items() for name, table in tables.items()}


# What is run: compiled tasks.

COMPILED: dict[str, Any] = dict(
    rounds=3, lanes=2, steps=4_000, evaluation_interval=2_000, evaluation_episodes=3, progress=False
)


def compiled(task: str, algorithm: str, *, folder: Path, **options: Any) -> Digests:
    """A few rounds of a compiled task."""
    import srgdqn

    return digests_of_result(srgdqn.train(task, algorithm, **{**COMPILED, **options}))


# Options that the kernel runs too.
OPTIONS: dict[str, dict[str, Any]] = {
    "target-hard": dict(target="hard", target_period=20),
    "target-polyak": dict(target="polyak", target_tau=0.05),
    "target-outer": dict(target="outer"),
    "huber": dict(loss="huber", huber_delta=0.5),
    "clip": dict(clip_norm=0.5),
    "schedule-linear": dict(schedule="linear", schedule_end=0.1),
    "schedule-cosine": dict(schedule="cosine"),
    "newest": dict(sampling="newest"),
    "printed": dict(readings="printed"),
    "two-layers": dict(hidden=(20, 20), eta=1e-3),
    "initialisation-normal": dict(initialisation="normal"),
    "coefficient": dict(coefficient=0.5, anchor_step=False, inner_batch=3),
    "episodes": dict(steps=None, episodes=30),
    "outer-iterations": dict(steps=None, outer_iterations=150, learning_frequency=4, learning_starts=100),
    "diverging": dict(eta=10.0),
}
OPTIONS_OF_XLA: dict[str, dict[str, Any]] = {
    "normalised": dict(normalise_observations=True, normalise_rewards=True, eta=1e-4),
    "without-replacement": dict(sampling="without-replacement", inner_sampling="without-replacement", inner_batch=4),
    "autodiff": dict(differentiation="autodiff"),
    "tanh": dict(activation="tanh"),
}
CONTROLS = ("svr-dqn-no-adam", "sgd-inner-adam", "dqn-sgd-17eta", "dqn-sgd-queries", "dqn-gd-adam", "dqn-adam-repeated")


def own_network(*, folder: Path) -> Digests:
    """The user's own network."""
    import equinox as eqx

    import srgdqn

    def network(key: Any) -> eqx.Module:
        return eqx.nn.MLP(in_size=2, out_size=3, width_size=8, depth=2, key=key)

    return digests_of_result(srgdqn.train("MountainCar", "svr-dqn", network=network, **COMPILED))


def own_environment(*, folder: Path) -> Digests:
    """The user's own functional environment."""
    import jax.numpy as jnp
    from gymnasium.experimental.functional import FuncEnv
    from gymnasium.spaces import Box, Discrete

    import srgdqn

    class Corridor(FuncEnv):
        observation_space = Box(0.0, 1.0, (1,))
        action_space = Discrete(2)

        def initial(self, rng: Any, params: Any = None) -> Any:
            return jnp.zeros(1)

        def transition(self, state: Any, action: Any, rng: Any, params: Any = None) -> Any:
            return jnp.clip(state + jnp.where(action == 1, 0.1, -0.1), 0.0, 1.0)

        def observation(self, state: Any, rng: Any, params: Any = None) -> Any:
            return state

        def reward(self, state: Any, action: Any, next_state: Any, rng: Any, params: Any = None) -> Any:
            return jnp.where(next_state[0] > 0.95, 1.0, -0.1)

        def terminal(self, state: Any, rng: Any, params: Any = None) -> Any:
            return state[0] > 0.95

    return digests_of_result(srgdqn.train(Corridor(), "srg-dqn", **COMPILED, time_limit=50, epsilon_start=0.5))


def own_estimator(*, folder: Path) -> Digests:
    """The user's own estimator: SVRG whose anchor is averaged over outer iterations."""
    import jax
    import jax.numpy as jnp

    import srgdqn
    from srgdqn.estimators import Direction

    def begin(average: Any, theta: Any, anchor: Any, query: Any) -> Any:
        average = jax.tree.map(lambda old, new: 0.5 * old + 0.5 * new, average, anchor)
        return average, query.on_every_pick(theta)

    def direction(state: Any, theta: Any, previous: Any, query: Any, coefficient: Any) -> Direction:
        average, references = state
        gradient = query.dense(query.on_present(theta))
        reference = query.dense(jax.tree.map(lambda leaf: leaf[query.m - 1], references))
        delta = jax.tree.map(lambda g, g_ref, a: g - coefficient * (g_ref - a), gradient, reference, average)
        return Direction(delta, gradient, state)

    averaged = srgdqn.Estimator(
        direction=direction,
        begin=begin,
        init=lambda theta: jax.tree.map(jnp.zeros_like, theta),
        finish=lambda state: state[0],
        queries=lambda work: 2 * work.inner_iterations * work.inner_batch,
        evaluations=lambda work: 2 * work.inner_iterations * work.inner_batch,
    )
    srgdqn.register_estimator("averaged-svrg", averaged)
    return digests_of_result(srgdqn.train("MountainCar", "svr-dqn", estimator="averaged-svrg", **COMPILED))


def saved(*, folder: Path, **options: Any) -> Digests:
    """A run that is saved, loaded, evaluated, compared, verified and replayed."""
    import srgdqn

    trained = srgdqn.train("MountainCar", "srg-dqn", out=folder / "run", **COMPILED, **options)
    result = srgdqn.load(folder / "run")
    if (before := digests_of_result(trained)) != (after := digests_of_result(result)):
        raise AssertionError(f"what was loaded is not what was trained: {differences({'': before}, {'': after})}")
    observations = np.random.default_rng(0).uniform([-1.2, -0.07], [0.6, 0.07], (64, 2))
    replay = srgdqn.replay_round(folder / "run", 1)
    verdict = srgdqn.verify(folder / "run", 2, progress=False).verdict
    return {
        **after,
        "evaluate": digests_of_frame(result.evaluate(episodes=3, seed=7)),
        "compare": digests_of_frame(srgdqn.compare([result, trained], labels=["one", "two"])),
        "policy": digests_of_arrays({"best": result.best, "actions": result.policy(result.best)(observations)}),
        "replay iterations": digests_of_frame(replay.iterations),
        "replay inner": digests_of_frame(replay.inner),
        "verify": digests_of_arrays({"verdict": verdict}),
    }


# What is run: Gymnasium's environments.

HOST: dict[str, Any] = dict(
    rounds=2,
    steps=1_200,
    hidden=(16, 16),
    learning_starts=200,
    window=300,
    evaluation_interval=600,
    evaluation_episodes=2,
    progress=False,
)
IMAGES: dict[str, Any] = dict(
    HOST,
    rounds=1,
    steps=96,
    learning_starts=32,
    learning_frequency=16,
    hidden=(32,),
    batch_size=4,
    inner_iterations=2,
    replay_capacity=500,
    window=48,
    evaluation_interval=None,
    evaluation_episodes=1,
    evaluation_limit=20,
    target_period=2,
)


class Spot(gym.Env):
    """A bright spot that is pushed left or right over an image, until it leaves it."""

    observation_space = gym.spaces.Box(0, 255, (84, 84, 3), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(20, 60))
        return self._image(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.place += int(self.np_random.integers(0, 5)) * (2 * int(action) - 1)
        out = not 8 <= self.place <= 76
        return self._image(), 1.0 - abs(self.place - 42) / 42, out, False, {}

    def _image(self) -> np.ndarray:
        image = np.zeros((84, 84, 3), np.uint8)
        image[30:50, max(self.place - 6, 0) : self.place + 6] = (255, self.place, 80)
        return image


def host(task: Any, algorithm: str, *, folder: Path, **options: Any) -> Digests:
    """A few rounds of a Gymnasium environment: its id, or a function that makes what is given to `train`."""
    import srgdqn

    return digests_of_result(srgdqn.train(task if isinstance(task, str) else task(), algorithm, **{**HOST, **options}))


def agent(algorithm: str, task: str, *, folder: Path, **options: Any) -> Digests:
    """An agent that learns, is saved with its replay, loaded, and learns on."""
    import srgdqn

    space = gym.make(task).observation_space
    space.seed(0)
    observations = np.stack([np.clip(space.sample(), -2.0, 2.0) for _ in range(64)])

    def present(agent: Any) -> Table:
        actions, _ = agent.predict(observations, deterministic=True)
        explored, _ = agent.predict(observations)
        returns, lengths = agent.play(2, seed=3)
        told = {"steps": agent.num_timesteps, "epsilon": agent.exploration_rate, "diverged": agent.diverged}
        values = {"q-values": agent.to_numpy().q_values(observations), "actions": actions, "explored": explored}
        return digests_of_arrays({**told, **values, "returns": returns, "lengths": lengths})

    first = srgdqn.Agent(algorithm, task, seed=1, hidden=(16, 16), learning_starts=200, **options)
    first.learn(600)
    learned = present(first)
    first.save(folder / "with-replay", include_replay=True)
    first.save(folder / "without-replay")
    tables = {"learned": learned}
    for name in ("with-replay", "without-replay"):
        loaded = srgdqn.Agent.load(folder / f"{name}.safetensors")
        tables[f"{name}, loaded"] = present(loaded)
        loaded.learn(400, reset_num_timesteps=name == "without-replay")
        tables[f"{name}, learned on"] = present(loaded)
    first.learn(400, reset_num_timesteps=False)
    return {**tables, "learned on": present(first)}


# What is run: the command line.


def command(*words: str | Path, **environment: str) -> None:
    """Runs the command line in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "srgdqn", *map(str, words)],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        raise RuntimeError(f"srgdqn {' '.join(map(str, words))} ended with {ended.returncode}: {ended.stderr[-2_000:]}")


def commanded(*words: str, folder: Path, **environment: str) -> Digests:
    """A run of `srgdqn train`."""
    import srgdqn

    command("train", *words, "--quiet", "--out", folder / "run", **environment)
    return digests_of_result(srgdqn.load(folder / "run"))


def logged(*words: str, folder: Path) -> Digests:
    """A run of `srgdqn train`, and what TensorBoard was told of it.

    The clock decides which steps are reported: only evaluations, and where a round stands at its end, do not depend on
    it.
    """
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    digests = commanded(*words, "--tensorboard", str(folder / "logs"), folder=folder)
    for events in sorted((folder / "logs").rglob("events*")):
        read = EventAccumulator(str(events), size_guidance={"scalars": 0})
        read.Reload()
        told = {tag: [[each.step, each.value] for each in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
        evaluations = {tag: values for tag, values in told.items() if tag.startswith("eval/")}
        last = {tag: told[tag][-1] for tag in LASTING if tag in told}
        name = f"logs/{events.parent.relative_to(folder / 'logs')}"
        digests[name] = digests_of_arrays({**evaluations, **last})
    return digests


LASTING = (
    *("rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/exploration_rate", "time/episodes"),
    *("train/n_updates", "train/queries", "train/gradient_evaluations"),
)


def swept(*words: str, folder: Path) -> Digests:
    """A grid or a search of `srgdqn sweep`."""
    import srgdqn

    command("sweep", *words, "--quiet", "--out", folder / "sweep")
    sweep = srgdqn.load_sweep(folder / "sweep")
    cells = {f"cell {number}": digests_of_result(result) for number, result in enumerate(sweep.results)}
    return {"table": digests_of_frame(sweep.table), **prefixed(**cells)}


def killed(*words: str, folder: Path) -> Digests:
    """A run of `srgdqn train` that is killed after its first checkpoints and resumed, equal to one that is not."""
    whole = commanded(*words, folder=folder)
    run, unfinished = folder / "killed", folder / "killed.unfinished"
    arguments = ["train", *words, "--quiet", "--out", str(run), "--checkpoint-every", "0.1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "srgdqn", *arguments, "--keep-checkpoints", "all"],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    # The configuration and the manifest are there from the start; all further files belong to checkpoints.
    while process.poll() is None and _files_in(unfinished) < 6:
        time.sleep(0.01)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)  # with the processes that it has started
    if (ended := process.wait()) != -signal.SIGKILL:
        raise AssertionError(f"the run ended with {ended} before it could be killed")
    if run.exists() or not unfinished.exists():
        raise AssertionError("the killed run left no checkpoints that it could be resumed from")
    import srgdqn

    command(*arguments, "--resume")
    resumed = digests_of_result(srgdqn.load(run))
    if resumed != whole:
        raise AssertionError(f"the resumed run is another one: {differences({'': whole}, {'': resumed})}")
    return whole


def _files_in(folder: Path) -> int:
    """How many files a folder that is being written to holds, without those that are half written."""
    return sum(not name.startswith(".") for _, _, names in os.walk(folder) for name in names)


def reproduced(*experiments: str, folder: Path) -> Digests:
    """Experiments of the paper: the cells they compute, and the tables that their figures are drawn from."""
    command("reproduce", *experiments, "--quick", "--quiet", "--out", folder)
    return digests_of_files(folder)


# The list of them. What takes longest comes first, so that two processes end together.


def _configurations() -> Iterator[tuple[str, Callable[..., Digests]]]:
    measured = ("figure-3-right", "table-2", "theorem-1", "anatomy", "dose-response")
    yield "paper-measurements", partial(reproduced, *measured)
    yield "paper-figures", partial(reproduced, "figure-1", "figure-2", "controls", "figure-3-left")
    small = ("--rounds", "3", "--steps", "4000", "--evaluation-interval", "2000", "--lanes", "2")
    long = ("--rounds", "8", "--steps", "300000", "--evaluation-interval", "100000")
    on_host = ("--steps", "6000", "--rounds", "2", "--evaluation-interval", "3000", "--evaluation-episodes", "2")
    yield "killed-native", partial(killed, "MountainCar", "srg-dqn", "--kernel", "native", *long)
    yield "killed-host", partial(killed, "CartPole-v1", "srg-dqn", *on_host)
    grid = ("--eta", "0.001", "0.01", "--alpha", "0.0001", "0.001", "--hidden", "8", "8+8")
    yield "sweep-native", partial(swept, "Pendulum", "srg-dqn", "--kernel", "native", *grid, *small)
    yield "sweep-xla", partial(swept, "CartPole", "svr-dqn", "--kernel", "xla", *grid[:6], *small)
    found = ("--search", "eta=1e-4..1e-2", "gamma=lin:0.9..0.99", "--trials", "4", "--at-once", "2")
    yield "search", partial(swept, "MountainCar", "dqn-sgd", "--kernel", "native", *found, *small)
    yield "logged-native", partial(logged, "CartPole", "srg-dqn", "--kernel", "native", *small)
    yield "logged-host", partial(logged, "CartPole-v1", "srg-dqn", *on_host)
    yield "double", partial(commanded, "MountainCar", "srg-dqn", "--kernel", "xla", *small, JAX_ENABLE_X64="1")

    yield "host-image", partial(host, lambda: Spot, "srg-dqn", **IMAGES)
    yield "host-atari", partial(host, "ALE/Pong-v5", "dqn-adam", **IMAGES)
    for kernel in ("xla", "native"):
        yield f"saved-{kernel}", partial(saved, kernel=kernel)
        for algorithm in ("srg-dqn", "dqn-adam"):
            yield f"host-{algorithm}-{kernel}", partial(host, "CartPole-v1", algorithm, kernel=kernel)
        yield f"agent-{kernel}", partial(agent, "srg-dqn", "CartPole-v1", kernel=kernel)
    yield "agent-bins", partial(agent, "svr-dqn", "Pendulum-v1", action_bins=3)
    yield "host-copies", partial(host, "CartPole-v1", "svr-dqn", environments=2)
    vector = partial(gym.make_vec, "CartPole-v1", num_envs=2, vectorization_mode="sync")
    yield "host-vector", partial(host, vector, "svr-dqn", rounds=1)
    yield "host-instance", partial(host, partial(gym.make, "CartPole-v1"), "dqn-sgd", rounds=1)
    yield "host-bins", partial(host, "Pendulum-v1", "srg-dqn", action_bins=5)
    yield "host-normalised", partial(host, "MountainCar-v0", "srg-dqn", normalise_rewards=True, kernel="xla")
    yield "host-one-hot", partial(host, "FrozenLake-v1", "srg-dqn")

    yield "own-network", own_network
    yield "own-environment", own_environment
    yield "own-estimator", own_estimator
    for name, options in OPTIONS_OF_XLA.items():
        yield f"{name}-xla", partial(compiled, "CartPole", "srg-dqn", kernel="xla", **options)
    for kernel in ("xla", "native"):
        for task in ("MountainCar", "Pendulum", "CartPole"):
            for algorithm in ("dqn-sgd", "svr-dqn", "srg-dqn", "srg-dqn-no-adam", "dqn-adam"):
                yield f"{task}-{algorithm}-{kernel}", partial(compiled, task, algorithm, kernel=kernel)
        for name, options in OPTIONS.items():
            yield f"{name}-{kernel}", partial(compiled, "CartPole", "srg-dqn", kernel=kernel, **options)
    for algorithm in CONTROLS:
        yield f"{algorithm}-native", partial(compiled, "MountainCar", algorithm, kernel="native")


CONFIGURATIONS = dict(_configurations())


# Comparing.


def differences(recorded: Mapping[str, Any], found: Mapping[str, Any], within: str = "") -> list[str]:
    """What is not the same in both, in a line for every configuration, table or column.

    >>> differences({"a": {"curves": {"loss": "1"}}, "b": {}}, {"a": {"curves": {"loss": "2"}}})
    ['a: curves: loss: different', 'b: missing']
    """
    lines = []
    for key in dict.fromkeys([*recorded, *found]):
        old, new, name = recorded.get(key), found.get(key), f"{within}{key}: "
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += differences(old, new, name)
        elif old != new:
            lines.append(name + ("missing" if new is None else "not in the record" if old is None else "different"))
    return lines


def machine() -> dict[str, Any]:
    """What the bits depend on beside the package: the processor, the compiler and the versions."""
    fields: dict[str, str] = {}
    if (cpuinfo := Path("/proc/cpuinfo")).exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
        fields = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    extensions = " ".join(sorted((fields.get("flags") or fields.get("features") or "").split()))
    compiler = shutil.which(os.environ.get("CC", "cc"))
    shown = "" if compiler is None else subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    installed = {each.name: each.version for each in metadata.distributions()}
    return {
        "architecture": platform.machine(),
        "processor": fields.get("model name") or platform.processor(),
        "instruction set": hashlib.sha256(extensions.encode()).hexdigest()[:16],
        "C library": " ".join(platform.libc_ver()),
        "compiler": next(iter(shown.splitlines()), "none"),
        "Python": platform.python_version(),
        **{package: installed.get(package, "none") for package in PACKAGES},
    }


PACKAGES = (
    *("jax", "jaxlib", "numpy", "scipy", "optax", "equinox", "gymnasium", "polars", "pyarrow"),
    *("ale-py", "opencv-python-headless", "optuna", "tensorboard"),
)


def check_machine(folder: Path) -> None:
    """Ends the script unless the record was made where the same bits can be expected."""
    file = folder / MACHINE
    if not file.exists():
        raise SystemExit(f"{folder} holds no record ({MACHINE} is missing). Make one: golden.py record {folder}")
    recorded, here = json.loads(file.read_text(encoding="utf-8")), machine()
    others = [
        f"{key}: {recorded.get(key)!r} there, {here[key]!r} here" for key in here if recorded.get(key) != here[key]
    ]
    if others:
        raise SystemExit(
            f"{folder} was recorded on another kind of machine, whose bits may be others:\n  "
            + "\n  ".join(others)
            + "\nRecord the old revision here, and compare with that."
        )


# Running.


def run_all(names: Iterable[str], jobs: int, done: Callable[[str, dict[str, Any]], None]) -> None:
    """Runs configurations in processes side by side; `done` is called for each, with its `digests` or its `error`."""
    for name in ("JAX_ENABLE_X64", "XLA_FLAGS"):
        os.environ.pop(name, None)
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / "srgdqn-golden-programs"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(run, name): name for name in names}
        for future in as_completed(futures):
            try:
                answer = future.result()
            except Exception as error:  # a process that crashed takes those with it that have not been run
                answer = {"seconds": 0.0, "error": "".join(traceback.format_exception(error))}
            done(futures[future], answer)


def run(name: str) -> dict[str, Any]:
    """What came of a configuration: its `digests` and what they took. One that hangs ends its process."""
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    before, started = os.times(), time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="srgdqn-golden-") as folder:
            digests = CONFIGURATIONS[name](folder=Path(folder))
    finally:
        faulthandler.cancel_dump_traceback_later()
    spent = sum(os.times()[:4]) - sum(before[:4])  # by this process and by those that it waited for
    seconds = time.monotonic() - started
    return {"seconds": round(seconds, 2), "processor seconds": round(spent, 2), "digests": digests}


def main() -> int:
    """The command line of this script; 1 if something differs or failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("record", "compare"), nargs="?", help="what to do")
    parser.add_argument("folder", type=Path, nargs="?", help="where the record is")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="configurations, such as 'host-*'")
    parser.add_argument("--jobs", type=int, default=2, help="processes side by side (default: 2)")
    parser.add_argument("--list", action="store_true", help="list the configurations, and do nothing")
    given = parser.parse_args()
    names = [name for name in CONFIGURATIONS if fnmatch.fnmatch(name, given.only)]
    if not names:
        parser.error(f"no configuration is called {given.only!r}. --list shows them all.")
    if given.list:
        print("\n".join(names))
        return 0
    if given.action is None or given.folder is None:
        parser.error("give record or compare, and a folder.")
    return record_or_compare(given.action, given.folder, names, jobs=max(given.jobs, 1), whole=given.only == "*")


def record_or_compare(action: str, folder: Path, names: list[str], *, jobs: int, whole: bool) -> int:
    """Runs the configurations, and writes what came of them or holds it against what was written."""
    import srgdqn

    print(f"srgdqn of {Path(srgdqn.__file__).parent}, {len(names)} configurations, {jobs} at once", flush=True)
    if action == "compare" or (not whole and (folder / MACHINE).exists()):
        check_machine(folder)
    if action == "record":
        folder.mkdir(parents=True, exist_ok=True)
        for name in [file.stem for file in folder.glob("*.json")] if whole else names:
            (folder / f"{name}.json").unlink(missing_ok=True)
        _write(folder / MACHINE, machine())
    files = [file for file in folder.glob("*.json") if file.name != MACHINE and (whole or file.stem in names)]
    recorded = {file.stem: json.loads(file.read_text(encoding="utf-8"))["digests"] for file in files}
    found: dict[str, Digests] = {}
    errors: dict[str, str] = {}
    spent: list[float] = []
    started = time.monotonic()
    print("   elapsed  processor")

    def done(name: str, answer: dict[str, Any]) -> None:
        state = "recorded"
        if "error" in answer:
            errors[name], state = answer["error"], "FAILED"
        else:
            found[name] = answer["digests"]
            if action == "record":
                _write(folder / f"{name}.json", answer)
            else:
                state = "same" if recorded.get(name) == found[name] else "DIFFERENT"
        spent.append(answer.get("processor seconds", 0.0))
        print(f"{answer['seconds']:8.2f} s {spent[-1]:8.2f} s  {name:32} {state}", flush=True)

    run_all(names, jobs, done)
    print(f"{time.monotonic() - started:8.2f} s {sum(spent):8.2f} s  in all")
    expected = found if action == "record" else {key: value for key, value in recorded.items() if key not in errors}
    lines = differences(expected, found)
    lines += [f"{name}: not run" for name in names if name not in found and name not in errors]
    for name, error in errors.items():
        print(f"\n{name} failed: {error.rstrip()}")
    if lines:
        print("\nDifferences:", *lines, sep="\n  ")
    if errors or lines:
        different = {line.partition(":")[0] for line in lines}
        print(f"\n{len(different)} configurations differ, {len(errors)} failed.")
        return 1
    print("Everything was recorded." if action == "record" else "Everything is the same to the bit.")
    return 0


def _write(file: Path, what: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(what, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
