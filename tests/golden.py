"""Golden results: digests of what small runs compute, recorded once and compared to the bit after a change.

    python tests/golden.py record FOLDER
    python tests/golden.py compare FOLDER [--only 'host-*']

Only what is public and documented is used (`srgdqn.train`, `srgdqn.Agent`, the command line, the files of runs), so
that any two revisions can be compared. FOLDER holds one JSON file per configuration, with a digest for every table and
column but those of the wall clock.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import multiprocessing
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import polars as pl

import srgdqn

Digests = dict[str, dict[str, str]]
"""The digest of every column of every table, or of every array of a group."""


# Digests


def digest_of_array(array: Any) -> str:
    """The digest of an array's type, shape and bytes."""
    array = np.asarray(array)
    assert array.dtype.kind in "biufU", f"an array of {array.dtype} has no bytes that could be compared"
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def digest_of_column(column: pl.Series) -> str:
    """The digest of a column's type, length, missing values and bytes."""
    digest = hashlib.sha256(f"{column.dtype} {len(column)} ".encode())
    digest.update(np.packbits(column.is_null().to_numpy()).tobytes())
    if column.dtype in (pl.String, pl.Null):
        digest.update(json.dumps(column.to_list()).encode())
    elif column.dtype == pl.Boolean:
        digest.update(column.fill_null(value=False).to_numpy().tobytes())
    elif column.dtype == pl.Array:
        digest.update(digest_of_column(column.arr.to_list()).encode())
    elif column.dtype == pl.List:
        digest.update(column.list.len().fill_null(0).to_numpy().tobytes())
        digest.update(digest_of_column(column.drop_nulls().explode()).encode())
    else:
        assert column.dtype.is_numeric(), f"a column of {column.dtype} has no bytes that could be compared"
        digest.update(column.fill_null(0).to_numpy().tobytes())
    return digest.hexdigest()


def of_arrays(arrays: Mapping[str, Any]) -> dict[str, str]:
    return {name: digest_of_array(array) for name, array in arrays.items()}


def of_frame(frame: pl.DataFrame) -> dict[str, str]:
    """A digest per column, without the wall clock's."""
    return {column.name: digest_of_column(column) for column in frame if "second" not in column.name}


def of_result(result: Any) -> Digests:
    """The tables and parameters of a run."""
    parameters = [result.parameters_of(number) for number in result.rounds["round"].to_list()]
    tables = {name: of_frame(getattr(result, name)) for name in ("curves", "episodes", "evaluations", "rounds")}
    return {
        **tables,
        "parameters": of_arrays({name: np.stack([p[name] for p in parameters]) for name in parameters[0]}),
    }


def of_files(folder: Path) -> Digests:
    """The tables and arrays in the files that a command left, without the wall clock's."""
    from safetensors.numpy import load_file

    readers: dict[str, Callable[[Path], dict[str, str]]] = {
        ".parquet": lambda file: of_frame(pl.read_parquet(file)),
        ".csv": lambda file: of_frame(pl.read_csv(file, infer_schema=False)),
        ".safetensors": lambda file: of_arrays(load_file(file)),
    }
    files = [file for file in sorted(folder.rglob("*")) if file.suffix in readers and file.stem != "timings"]
    return {str(file.relative_to(folder)): readers[file.suffix](file) for file in files}


# Compiled tasks


def trained(task: Any, algorithm: str, *, folder: Path, **options: Any) -> Digests:
    """A few rounds of a task: its name or id, or a function that makes what is given to `train`."""
    given = task if isinstance(task, str) else task()
    return of_result(srgdqn.train(given, algorithm, progress=False, **options))


COMPILED: dict[str, Any] = dict(rounds=3, lanes=2, steps=4_000, evaluation_interval=2_000, evaluation_episodes=3)
compiled = partial(trained, **COMPILED)
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
"""Options that the kernel runs, too."""
OPTIONS_OF_XLA: dict[str, dict[str, Any]] = {
    "normalised": dict(normalise_observations=True, normalise_rewards=True, eta=1e-4),
    "without-replacement": dict(sampling="without-replacement", inner_sampling="without-replacement", inner_batch=4),
    "autodiff": dict(differentiation="autodiff"),
    "tanh": dict(activation="tanh"),
}
CONTROLS = ("svr-dqn-no-adam", "sgd-inner-adam", "dqn-sgd-17eta", "dqn-sgd-queries", "dqn-gd-adam", "dqn-adam-repeated")


def network(key: Any) -> Any:
    """The user's own network."""
    import equinox as eqx

    return eqx.nn.MLP(in_size=2, out_size=3, width_size=8, depth=2, key=key)


def corridor() -> Any:
    """The user's own functional environment."""
    import jax.numpy as jnp
    from gymnasium.experimental.functional import FuncEnv
    from gymnasium.spaces import Box, Discrete

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

    return Corridor()


def own_estimator(*, folder: Path) -> Digests:
    """The user's own estimator: SVRG whose anchor is averaged over outer iterations."""
    import jax
    import jax.numpy as jnp

    from srgdqn.estimators import Direction

    def begin(average: Any, theta: Any, anchor: Any, query: Any) -> Any:
        average = jax.tree.map(lambda old, new: 0.5 * old + 0.5 * new, average, anchor)
        return average, query.on_every_pick(theta)

    def direction(state: Any, theta: Any, previous: Any, query: Any) -> Direction:
        average, references = state
        gradient = query.dense(query.on_present(theta))
        reference = query.dense(jax.tree.map(lambda leaf: leaf[query.m - 1], references))
        delta = jax.tree.map(
            lambda g, g_ref, a: g - query.numbers["coefficient"] * (g_ref - a), gradient, reference, average
        )
        return Direction(delta, gradient, state)

    averaged = srgdqn.Estimator(
        direction=direction,
        begin=begin,
        init=lambda theta, work: jax.tree.map(jnp.zeros_like, theta),
        finish=lambda state, theta: state[0],
        queries=lambda work: 2 * work.inner_iterations * work.inner_batch,
        evaluations=lambda work: 2 * work.inner_iterations * work.inner_batch,
    )
    srgdqn.register_estimator("averaged-svrg", averaged)
    return compiled("MountainCar", "svr-dqn", folder=folder, estimator="averaged-svrg")


def saved(*, folder: Path, **options: Any) -> Digests:
    """A run that is saved, loaded, evaluated, compared, verified and replayed."""
    first = srgdqn.train("MountainCar", "srg-dqn", out=folder / "run", progress=False, **COMPILED, **options)
    result = srgdqn.load(folder / "run")
    check_same(of_result(first), digests := of_result(result))
    observations = np.random.default_rng(0).uniform([-1.2, -0.07], [0.6, 0.07], (64, 2))
    replay = srgdqn.replay_round(folder / "run", 1)
    return {
        **digests,
        "evaluate": of_frame(result.evaluate(episodes=3, seed=7)),
        "compare": of_frame(srgdqn.compare([result, first], labels=["one", "two"])),
        "policy": of_arrays({"best": result.best, "actions": result.policy(result.best)(observations)}),
        "replay iterations": of_frame(replay.iterations),
        "replay inner": of_frame(replay.inner),
        "verify": of_arrays({"verdict": srgdqn.verify(folder / "run", 2, progress=False).verdict}),
    }


# Gymnasium's environments

host = partial(
    trained,
    **dict(rounds=2, steps=1_200, hidden=(16, 16), learning_starts=200, window=300),
    **dict(evaluation_interval=600, evaluation_episodes=2),
)
images = partial(
    trained,
    **dict(rounds=1, steps=96, hidden=(32,), learning_starts=32, learning_frequency=16, window=48, target_period=2),
    **dict(batch_size=4, inner_iterations=2, replay_capacity=500, evaluation_interval=None, evaluation_episodes=1),
    evaluation_limit=20,
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


def agent(algorithm: str, task: str, *, folder: Path, **options: Any) -> Digests:
    """An agent that learns, is saved with and without its replay, loaded, and learns on."""
    space = gym.make(task).observation_space
    space.seed(0)
    observations = np.stack([np.clip(space.sample(), -2.0, 2.0) for _ in range(64)])

    def state(agent: Any) -> dict[str, str]:
        actions, _ = agent.predict(observations, deterministic=True)
        explored, _ = agent.predict(observations)
        returns, lengths = agent.play(2, seed=3)
        counts = {"steps": agent.num_timesteps, "epsilon": agent.exploration_rate, "diverged": agent.diverged}
        values = {"q-values": agent.to_numpy().q_values(observations), "actions": actions, "explored": explored}
        return of_arrays({**counts, **values, "returns": returns, "lengths": lengths})

    first = srgdqn.Agent(algorithm, task, seed=1, hidden=(16, 16), learning_starts=200, **options)
    first.learn(600)
    tables = {"learned": state(first)}
    first.save(folder / "with-replay", include_replay=True)
    first.save(folder / "without-replay")
    for name in ("with-replay", "without-replay"):
        loaded = srgdqn.Agent.load(folder / f"{name}.safetensors")
        tables[f"{name}, loaded"] = state(loaded)
        loaded.learn(400, reset_num_timesteps=name == "without-replay")
        tables[f"{name}, learned on"] = state(loaded)
    first.learn(400, reset_num_timesteps=False)
    return {**tables, "learned on": state(first)}


# The command line


def command(*words: str | Path, **environment: str) -> None:
    """Runs the command line in a process of its own."""
    line = [sys.executable, "-m", "srgdqn", *map(str, words)]
    done = subprocess.run(
        line, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{' '.join(line)} ended with {done.returncode}: {done.stderr[-2_000:]}"


def by_command(*words: str, folder: Path, **environment: str) -> Digests:
    """A run of `srgdqn train`."""
    command("train", *words, "--quiet", "--out", folder / "run", **environment)
    return of_result(srgdqn.load(folder / "run"))


LAST_ONLY = (
    *("rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/exploration_rate", "time/episodes"),
    *("train/n_updates", "train/queries", "train/gradient_evaluations"),
)
"""The clock decides which steps are reported; a round's last report does not depend on it, nor do evaluations."""


def logged(*words: str, folder: Path) -> Digests:
    """A run of `srgdqn train`, and what TensorBoard shows of it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    digests = by_command(*words, "--tensorboard", str(folder / "logs"), folder=folder)
    for events in sorted((folder / "logs").rglob("events*")):
        read = EventAccumulator(str(events), size_guidance={"scalars": 0})
        read.Reload()
        scalars = {tag: [[each.step, each.value] for each in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
        evaluations = {tag: values for tag, values in scalars.items() if tag.startswith("eval/")}
        last = {tag: scalars[tag][-1] for tag in LAST_ONLY if tag in scalars}
        digests[f"logs/{events.parent.relative_to(folder / 'logs')}"] = of_arrays({**evaluations, **last})
    return digests


def swept(*words: str, folder: Path) -> Digests:
    """A grid or a search of `srgdqn sweep`."""
    command("sweep", *words, "--quiet", "--out", folder / "sweep")
    sweep = srgdqn.load_sweep(folder / "sweep")
    cells = {
        f"cell {number}/{name}": table
        for number, result in enumerate(sweep.results)
        for name, table in of_result(result).items()
    }
    return {"table": of_frame(sweep.table), **cells}


def killed(*words: str, folder: Path) -> Digests:
    """A run of `srgdqn train` that is killed after its first checkpoints and resumed, equal to one that is not."""
    whole = by_command(*words, folder=folder)
    run, unfinished = folder / "killed", folder / "killed.unfinished"
    arguments = ["train", *words, "--quiet", "--out", str(run), "--checkpoint-every", "0.1"]
    line = [sys.executable, "-m", "srgdqn", *arguments, "--keep-checkpoints", "all"]
    process = subprocess.Popen(line, start_new_session=True, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(list(unfinished.rglob("*.checkpoint"))) < 2:
        time.sleep(0.01)
    assert process.poll() is None, "the run ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)  # with the processes that it has started
    process.wait()
    command(*arguments, "--resume")
    check_same(whole, of_result(srgdqn.load(run)))
    return whole


def reproduced(*experiments: str, folder: Path) -> Digests:
    """Experiments of the paper: the cells they compute, and the tables that their figures are drawn from."""
    command("reproduce", *experiments, "--quick", "--quiet", "--out", folder)
    return of_files(folder)


# All of them. What takes longest comes first, so that two processes end together.


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
    yield "double", partial(by_command, "MountainCar", "srg-dqn", "--kernel", "xla", *small, JAX_ENABLE_X64="1")

    yield "host-image", partial(images, lambda: Spot, "srg-dqn")
    yield "host-atari", partial(images, "ALE/Pong-v5", "dqn-adam")
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

    yield "own-network", partial(compiled, "MountainCar", "svr-dqn", network=network)
    yield "own-environment", partial(compiled, corridor, "srg-dqn", time_limit=50, epsilon_start=0.5)
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


# Recording and comparing


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


def check_same(one: Digests, other: Digests) -> None:
    assert one == other, f"what should be the same is not: {differences(one, other)}"


def machine() -> dict[str, str]:
    """What the bits depend on beside the package: the processor, the compiler and the versions."""
    file = Path("/proc/cpuinfo")
    cpuinfo = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    model, flags = (re.search(rf"^{name}\s*: (.*)$", cpuinfo, re.M) for name in ("model name", "(?:flags|Features)"))
    extensions = " ".join(sorted(flags[1].split())) if flags else ""
    compiler = subprocess.run([os.environ.get("CC", "cc"), "--version"], capture_output=True, text=True)
    packages = ("jax", "jaxlib", "numpy", "scipy", "optax", "equinox", "gymnasium", "polars", "pyarrow", "ale-py")
    return {
        "processor": model[1] if model else platform.processor(),
        "instruction set": hashlib.sha256(extensions.encode()).hexdigest()[:16],
        "C library": " ".join(platform.libc_ver()),
        "compiler": compiler.stdout.splitlines()[0],
        "Python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
    }


def run(name: str) -> dict[str, Any]:
    """A configuration's digests, and the seconds that it took."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="srgdqn-golden-") as folder:
        digests = CONFIGURATIONS[name](folder=Path(folder))
    return {"seconds": round(time.monotonic() - started, 2), "digests": digests}


def compare(folder: Path, names: list[str], jobs: int = 2, *, record: bool = False) -> list[str]:
    """Runs configurations, in processes side by side, and returns what differs from the record or failed; `record`
    writes what was found instead.
    """
    file = folder / "machine.json"
    if record:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(machine(), indent=1) + "\n", encoding="utf-8")
    made_on = json.loads(file.read_text(encoding="utf-8"))
    if others := [key for key, value in machine().items() if made_on.get(key) != value]:
        return [f"{folder} was recorded on another kind of machine, whose bits may be others: {', '.join(others)}"]
    lines = []
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(run, name): name for name in names}
        for future in as_completed(futures):
            name = futures[future]
            file = folder / f"{name}.json"
            try:
                found = future.result()
                if record:
                    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                recorded = json.loads(file.read_text(encoding="utf-8"))["digests"] if file.exists() else None
                different = differences({name: recorded}, {name: found["digests"]})
            except Exception as error:  # a process that crashed takes those with it that have not been run
                found, different = {"seconds": 0.0}, [f"{name}: FAILED: {type(error).__name__}: {error}"]
            lines += different
            print(f"{found['seconds']:8.2f} s  {name:32} {'DIFFERENT' if different else 'same'}", flush=True)
    return lines


def main() -> int:
    """The command line of this script; 1 if something differs or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare", "list"), help="what to do")
    parser.add_argument("folder", type=Path, nargs="?", help="where the record is")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="configurations, such as 'host-*'")
    parser.add_argument("--jobs", type=int, default=2, help="processes side by side (default: 2)")
    given = parser.parse_args()
    names = [name for name in CONFIGURATIONS if fnmatch.fnmatch(name, given.only)]
    if given.action == "list":
        print("\n".join(names))
        return 0
    if given.folder is None:
        parser.error("give the folder that the record is in")
    if not names:
        parser.error(f"no configuration is called {given.only!r}: see golden.py list")
    for variable in ("JAX_ENABLE_X64", "XLA_FLAGS"):
        os.environ.pop(variable, None)
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / "srgdqn-golden-programs"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    print(f"srgdqn of {Path(srgdqn.__file__).parent}, {len(names)} configurations", flush=True)
    lines = compare(given.folder, names, given.jobs, record=given.action == "record")
    recorded = {file.stem for file in given.folder.glob("*.json")} - {"machine"}
    lines += [f"{name}: recorded, but no configuration of this script" for name in recorded - {*CONFIGURATIONS}]
    print("\n".join(lines) or "Everything is the same to the bit.")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
