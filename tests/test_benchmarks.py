"""The benchmarks run, and what they conclude follows from what they measure. Speed itself is not tested."""

import doctest
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
DOCS = BENCHMARKS.parent / "docs"


@pytest.fixture(autouse=True)
def benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def run(script: str, out: Path, *words: str, path: Path | None = None) -> dict[str, Any]:
    paths = [str(place) for place in (path, os.environ.get("PYTHONPATH")) if place]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), "--quick", "--out", str(out), *words],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def test_every_benchmark_can_be_made_and_has_its_place_in_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    places = importlib.import_module("refresh_benchmarks").PLACES
    scripts = {path.stem for path in BENCHMARKS.glob("*.py") if "place_for(__file__)" in path.read_text()}
    assert places.keys() == scripts
    for page, mark in places.values():
        assert [page.read_text().count(f"<!-- {each} -->") for each in (mark, f"end of {mark}")] == [1, 1]
    for listing in (DOCS / "benchmarks.md", DOCS.parent / "Makefile"):
        text = listing.read_text()
        assert [script for script in scripts if f"benchmarks/{script}.py" not in text] == []


@pytest.mark.parametrize("module", ["arithmetic", "exponents", "measuring", "reporting"])
def test_examples_are_true(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted > 0
    assert results.failed == 0


def test_ratios_are_of_medians_of_the_best_arrangements() -> None:
    from arrangements import ALONE, ONE_PROCESS, PROCESS_PER_CORE, Measurement
    from lineup import COMPARISONS, CONTENDERS
    from standings import Entry, standings

    named = {contender.name: contender for contender in CONTENDERS}

    def turns(*rates: float) -> list[Measurement]:
        return [Measurement(rate, 1.0, 100.0) for rate in rates]

    rows = standings(
        {
            Entry("CartPole", named["stable-baselines3"], PROCESS_PER_CORE): turns(10.0, 20.0, 40.0),
            Entry("CartPole", named["plain-pytorch"], ALONE): turns(1.0, 1.0, 1.0),
            Entry("CartPole", named["rejax"], ONE_PROCESS): turns(300.0, 100.0, 200.0),
            Entry("CartPole", named["rejax"], PROCESS_PER_CORE): turns(100.0, 900.0, 400.0),
            Entry("CartPole", named["srgdqn-srg"], ONE_PROCESS): turns(5.0),
            Entry("MountainCar", named["rejax"], ONE_PROCESS): turns(7.0),
            Entry("MountainCar", named["sbx"], ALONE): [],
        },
        COMPARISONS,
    )
    found = {(row["task"], row["contender"], row["arrangement"]): row for row in rows}
    split = found["CartPole", "rejax", "a process per core"]
    assert split["best_arrangement"]
    assert split["to_stable_baselines3"]["median"] == 400.0 / 20.0
    assert split["to_stable_baselines3"]["turns"] == [10.0, 45.0, 10.0]
    # Another number of rounds is another comparison, as is another job or another task.
    assert split["to_plain_pytorch"] is None
    assert found["CartPole", "srgdqn-srg", "one process"]["to_stable_baselines3"] is None
    assert found["MountainCar", "rejax", "one process"]["to_stable_baselines3"] is None
    together = found["CartPole", "rejax", "one process"]
    assert not together["best_arrangement"]
    assert together["to_stable_baselines3"] is None
    assert ("MountainCar", "sbx", "one core") not in found


@pytest.mark.parametrize("power", [-0.5, 0.0, 1.0, 1.7])
def test_the_exponent_of_a_power_law_is_found(power: float) -> None:
    from exponents import fit_exponent

    # What does not grow hides the power at the lower end, which therefore does not count.
    exact = [(x, 5.0 * x**power) for x in (64, 256, 1_000, 2_000)]
    fitted = fit_exponent([*exact, (1, 77.0), (4, 80.0), (16, 79.0)])
    assert fitted is not None
    assert fitted.exponent == pytest.approx(power, abs=1e-12)
    assert fitted.standard_error == pytest.approx(0.0, abs=1e-7)
    assert fitted.fitted_from == 64


def test_an_exponents_standard_error_is_that_of_least_squares() -> None:
    import numpy as np
    from scipy.stats import linregress

    from exponents import fit_exponent

    generator = np.random.default_rng(1)
    xs = np.array([16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0])
    ys = xs**0.8 * generator.lognormal(sigma=0.2, size=7)
    fitted, expected = fit_exponent(list(zip(xs, ys, strict=True))), linregress(np.log(xs[3:]), np.log(ys[3:]))
    assert fitted is not None
    assert (fitted.exponent, fitted.standard_error) == pytest.approx((expected.slope, expected.stderr))


def test_two_points_have_an_exponent_without_an_error_and_one_has_none() -> None:
    from exponents import fit_exponent

    fitted = fit_exponent([(10, 1.0), (1_000, 10.0)])
    assert fitted is not None
    assert fitted.exponent == pytest.approx(0.5)
    assert fitted.standard_error is None
    assert fit_exponent([(10, 1.0)]) is None


def test_shares_follow_from_rates_and_operations() -> None:
    from arithmetic import ACTING, ADAM, FULL_BATCH, INNER, Operations
    from machine_rates import FEW_ROWS, LARGE, ONE_STEP, WEIGHT_GRADIENT, WHOLE_BATCH
    from shares import Run, part_rows, share_row

    rates = {ONE_STEP.name: 10.0, FEW_ROWS.name: 20.0, WHOLE_BATCH.name: 40.0, WEIGHT_GRADIENT.name: 50.0}
    rates[LARGE.name] = 100.0
    parts = {
        ACTING: Operations(passes=100),  # 10 s at its rate
        FULL_BATCH: Operations(passes=300, weight_gradients=500, elementwise=100),  # 20 s
        INNER: Operations(passes=100, weight_gradients=200, elementwise=100),  # 20 s
        ADAM: Operations(elementwise=200),  # 5 s
    }
    run = Run("CartPole", (20,), "xla", "srg-dqn")
    # Of 16 steps: 50, 100, 180 and 200 s, with a turn above and one below each.
    seconds = {("srg-dqn", False): 50, ("dqn-sgd", True): 100, ("srg-dqn-no-adam", True): 180, ("srg-dqn", True): 200}
    speeds = {
        run._replace(algorithm=algorithm, learning=learning): [0.01, 16 / block, 10.0]
        for (algorithm, learning), block in seconds.items()
    }
    row = share_row(run, speeds[run], parts, 16, rates)
    assert row["operations_per_block"] == 1_600
    assert row["operations_per_second"]["median"] == pytest.approx(8.0)
    assert row["share_of_peak"] == pytest.approx(0.08)
    assert row["share_of_small_products"] == pytest.approx(55 / 200)
    rows = {each["part"]: each for each in part_rows(run, speeds, parts, 16, rates)}
    assert {part: each["seconds"] for part, each in rows.items()} == pytest.approx(
        {ACTING: 50, FULL_BATCH: 50, INNER: 80, ADAM: 20}
    )
    assert sum(each["share"] for each in rows.values()) == pytest.approx(1.0)
    assert rows[INNER]["operations_per_second"] == pytest.approx(5.0)
    assert rows[INNER]["share_of_small_products"] == pytest.approx(0.25)


def test_a_part_lost_in_noise_has_no_rate() -> None:
    from arithmetic import ACTING, FULL_BATCH, Operations
    from machine_rates import PRODUCTS
    from shares import Run, part_rows

    run = Run("CartPole", (20,), "xla", "dqn-adam")
    speeds = {run: [2.0], run._replace(learning=False): [1.0]}
    parts = {ACTING: Operations(1), FULL_BATCH: Operations(1)}
    rows = part_rows(run, speeds, parts, 16, {product.name: 1.0 for product in PRODUCTS})
    assert [row["seconds"] for row in rows] == [16.0, -8.0]
    assert rows[1]["operations_per_second"] is None


def test_the_parts_of_a_step_are_those_that_two_runs_are_made_of() -> None:
    from host_parts import Spent, microseconds_per_step
    from job.settings import FIRST_UPDATE

    steps, idle_steps, learned_steps = 20_000, 20_010, 20_500  # with evaluations, which are no part of training
    environment, acting, bookkeeping, learning = 20e-6, 8e-6, 5e-6, 3e-6
    idle = (
        idle_steps * (1.5 * environment + acting) + steps * bookkeeping
    )  # more resets than where something is learned
    learned = learned_steps * (environment + acting) + steps * bookkeeping + (steps - FIRST_UPDATE) * learning
    spent = {
        "idle": Spent(idle, idle_steps * 1.5 * environment, idle_steps * acting, idle_steps),
        # Acting has waited for what was learned, which is none of its time.
        "learned": Spent(learned, learned_steps * environment, learned_steps * acting + 0.01, learned_steps),
    }
    assert microseconds_per_step(spent, steps) == pytest.approx(
        {"environment": 20, "acting": 8, "bookkeeping": 5, "learning": 3}
    )
    together = {run: each._replace(acting_seconds=None) for run, each in spent.items()}
    expected = {
        "environment": 20,
        "acting and bookkeeping": 5 + 8 * idle_steps / steps,
        "learning": 3 + 8 * (learned_steps - idle_steps) / (steps - FIRST_UPDATE),
    }
    assert microseconds_per_step(together, steps) == pytest.approx(expected)


def test_medians_of_parts_have_shares_and_aims_are_met_by_medians() -> None:
    from host import aim_rows, part_rows

    rows = part_rows({"srg-dqn": [], "dqn-adam": [{"acting": 1.0, "learning": 6.0}, {"acting": 3.0, "learning": 2.0}]})
    assert [(row["part"], row["microseconds"]["median"], row["share"]) for row in rows] == [
        ("acting", 2.0, pytest.approx(1 / 3)),
        ("learning", 4.0, pytest.approx(2 / 3)),
    ]
    ratios = {"to_stable_baselines3": {"median": 4.9, "turns": [6.0, 3.8]}, "to_plain_pytorch": None}
    [aim] = aim_rows([{"contender": "srgdqn-adam", **ratios}, {"contender": "srgdqn-srg"}])
    assert (aim["at_least"], aim["reached"]["turns"], aim["met"]) == (5.0, [6.0, 3.8], False)
    ratios["to_plain_pytorch"] = {"median": 3.0, "turns": [3.0]}
    assert [aim["met"] for aim in aim_rows([{"contender": "srgdqn-adam", **ratios}])] == [False, True]


def test_what_is_watched_is_timed_and_does_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    import gymnasium
    import numpy as np

    from host_stopwatch import Watch, watch_function, watched_environment

    ticks = iter(range(1_000))
    resets, steps, waits = Watch(), Watch(), Watch()
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    environment, twin = gymnasium.make(watched_environment(resets, steps)), gymnasium.make("CartPole-v1")
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    np.testing.assert_array_equal(environment.reset(seed=3)[0], twin.reset(seed=3)[0])
    for action in (0, 1, 1):
        watched, plain = environment.step(action), twin.step(action)
        np.testing.assert_array_equal(watched[0], plain[0])
        assert watched[1:4] == plain[1:4]
    assert (resets.seconds, resets.calls) == (1.0, 1)
    assert (steps.seconds, steps.calls) == (3.0, 3)
    monkeypatch.setattr(json.JSONDecoder, "decode", json.JSONDecoder.decode)
    watch_function("json:JSONDecoder.decode", waits)
    assert json.loads("[1, 2]") == [1, 2]
    assert (waits.seconds, waits.calls) == (1.0, 1)


@pytest.mark.parametrize(("steps", "updates"), [(1_184, 12), (1_200, 13), (50_000, 3_063)])
def test_another_job_than_that_asked_for_is_noticed(
    steps: int, updates: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from job.clocks import Tick, measure_rounds
    from job.settings import Job

    job = Job("CartPole", steps, seed=0, rounds=2, seconds=None, hidden=(20,), together=False)
    # By hand: an update after every 16th step, none before the 1,000th.
    assert sum(made >= 1_000 and made % 16 == 0 for made in range(1, steps + 1)) == updates

    def train_round(seed: int, tick: Tick, *, missing: int = 0) -> int:
        return sum(tick(made) for made in range(1_008, steps + 1 - missing, 16))

    measure_rounds(job, train_round)
    assert json.loads(capsys.readouterr().out)["steps"] == 2 * (steps - 1_168)
    with pytest.raises(
        RuntimeError, match=rf"a round had {steps:,} steps and {updates - 1:,} updates, but the job has"
    ):
        measure_rounds(job, lambda seed, tick: train_round(seed, tick) - 1)
    with pytest.raises(RuntimeError, match=f"a round had {steps - 16:,} steps"):
        measure_rounds(job, lambda seed, tick: train_round(seed, tick, missing=16))


def test_the_plain_loop_makes_the_updates_of_the_job() -> None:
    import gymnasium

    from job.python_loop import Learner, train_in_python
    from job.settings import Job

    job = Job("CartPole", 1_200, seed=0, rounds=1, seconds=None, hidden=(20,), together=False)
    sizes, ticks = [], []
    learner = Learner(lambda observation: 0, lambda batch, made: sizes.append((made, len(batch.reward))))
    updates = train_in_python(gymnasium.make("CartPole-v1"), job, 0, learner, lambda made: not ticks.append(made))
    assert sizes == [(made, 64) for made in range(1_008, 1_201, 16)]
    assert updates == job.updates == len(ticks)


def test_the_bare_environment_is_stepped_and_reset() -> None:
    import gymnasium

    from contenders.host_environment import play

    counted = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))
    assert play(counted, [0] * 300, 0) == 300  # pushing one way soon fails
    assert sum(counted.length_queue) + counted.episode_lengths == 300
    assert counted.episode_count > 20


@pytest.mark.parametrize("cores", [1, 2, 3, 64])
def test_every_round_is_some_processes_share(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import arrangements

    monkeypatch.setattr(arrangements, "usable", lambda: tuple(range(cores)))
    shares = arrangements.PROCESS_PER_CORE.shares()
    rounds = [number for share in shares for number in range(share.first_round, share.first_round + share.rounds)]
    assert rounds == list(range(arrangements.ROUNDS))
    assert [share.cores for share in shares] == [(core,) for core in range(min(cores, arrangements.ROUNDS))]


def test_a_contender_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    from arrangements import PROCESS_PER_CORE, ContenderError, measure

    started = []

    def start(*given: Any, **named: Any) -> subprocess.Popen[str]:
        started.append(popen(*given, **named))
        return started[-1]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    words = ("--task", "CartPole", "--steps", "1600000", "--seconds", "1000")
    with pytest.raises(ContenderError, match="took longer than 1 s"):
        measure("contenders.plain_jax", PROCESS_PER_CORE, words, environment={}, limit=1.0)
    assert started
    assert all(process.returncode is not None for process in started)


def test_a_contender_says_why_it_cannot_start() -> None:
    from arrangements import ALONE, ContenderError, measure

    words = ("--task", "CartPole", "--steps", "100")
    with pytest.raises(ContenderError, match=r"--steps is 100, but .* Give a larger multiple of 16"):
        measure("contenders.plain_jax", ALONE, words, environment={}, limit=100.0)


def test_a_broken_library_is_absent_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "gymnax.py").write_text("raise ImportError('broken on purpose')")
    report = run("peers.py", tmp_path / "peers.json", "--only", "purejaxrl-style", path=tmp_path)
    assert report["rows"] == []
    assert [each["contender"] for each in report["absent"]] == ["purejaxrl-style"] * 3
    assert {each["reason"] for each in report["absent"]} == {"ImportError: broken on purpose"}


@pytest.mark.slow
def test_peers_are_compared(tmp_path: Path) -> None:
    plain = ["plain-jax", *(["plain-pytorch"] if importlib.util.find_spec("torch") else [])]
    report = run("peers.py", tmp_path / "peers.json", "--only", "srgdqn-adam", *plain)
    assert report["absent"] == []
    assert report["circumstances"]["versions"]["jax"]
    assert report["circumstances"]["cores"] >= 1
    assert report["circumstances"]["date"]
    assert (tmp_path / "peers.png").stat().st_size > 0
    rows = {(row["contender"], row["rounds"]): row for row in report["rows"]}
    assert set(rows) == {(name, rounds) for name in ("srgdqn-adam", *plain) for rounds in (1, 50)}
    for row in rows.values():
        assert row["steps_per_second"]["median"] > 0
        assert row["warm_up_seconds"] > 0
        assert 20 < row["peak_mib"] < 20_000
    # Hundreds of times faster if there is much to do; here is little, perhaps on a busy machine.
    ours, theirs = (rows[name, 50]["steps_per_second"]["median"] for name in ("srgdqn-adam", "plain-jax"))
    assert ours > 2 * theirs
    if "plain-pytorch" in plain:
        ratio = rows["srgdqn-adam", 50]["to_plain_pytorch"]["median"]
        assert ratio == pytest.approx(ours / rows["plain-pytorch", 50]["steps_per_second"]["median"])
        assert ratio > 2


@pytest.mark.slow
def test_hosts_are_compared(tmp_path: Path) -> None:
    peers = [
        *(["plain-pytorch"] if importlib.util.find_spec("torch") else []),
        *(["stable-baselines3"] if importlib.util.find_spec("stable_baselines3") else []),
    ]
    ours = ["srgdqn-adam", "srgdqn-srg", "srgdqn-svr", "srgdqn-adam-8"]
    report = run("host.py", tmp_path / "host.json", "--only", "environment", *peers, *ours)
    assert report["absent"] == []
    assert report["circumstances"]["versions"]["jax"]
    assert (tmp_path / "host.png").stat().st_size > 0
    rows = {row["contender"]: row for row in report["rows"]}
    assert set(rows) == {"environment", *peers, *ours}
    rates = {name: row["steps_per_second"]["median"] for name, row in rows.items()}
    for name, row in rows.items():
        assert rates[name] > 0
        assert row["to_environment"]["median"] == pytest.approx(rates[name] / rates["environment"])
    aims = {row["aim"]: row["reached"]["median"] for row in report["aims"]}
    expected = {"plain-pytorch": "plain PyTorch", "stable-baselines3": "Stable-Baselines3"}
    assert aims == pytest.approx(
        {f"dqn-adam beside {expected[peer]}": rates["srgdqn-adam"] / rates[peer] for peer in peers}
    )
    for algorithm in ("dqn-adam", "srg-dqn"):
        parts = {row["part"]: row for row in report["parts"] if row["algorithm"] == algorithm}
        assert parts["environment"]["microseconds"]["median"] > 0
        assert sum(row["share"] for row in parts.values()) == pytest.approx(1.0)


@pytest.mark.slow
def test_the_memory_of_images_is_measured(tmp_path: Path) -> None:
    report = run("frames.py", tmp_path / "frames.json")
    stacks, _, arrays = report["bytes"].values()
    assert stacks == 20_000 * 2 * 4 * 84 * 84
    # A frame each, and more at the start of an episode and of a chunk.
    assert 20_000 * 84 * 84 < arrays < 1.5 * 20_000 * 84 * 84
    assert all(0 < each["lowest"] <= each["median"] for each in report["microseconds"].values())


@pytest.mark.slow
def test_what_checkpoints_cost_is_measured(tmp_path: Path) -> None:
    runs = run("checkpoints.py", tmp_path / "checkpoints.json")["runs"]
    assert len(runs) == 5
    for each in runs.values():
        assert each["checkpoints"] > 0
        assert 0 < each["spent"] < each["seconds"]
        assert each["bytes_per_round"] > 0
        assert each["diverged"] == 0


@pytest.mark.slow
def test_gradient_queries_are_counted(tmp_path: Path) -> None:
    rows = run("queries.py", tmp_path / "queries.json")["rows"]
    assert len(rows) == 10
    # N = 64 and M = 16: N, N + M, N + 2M, and (M + 1)N.
    counts = {row["estimator"]: row["queries_per_iteration"] for row in rows}
    assert counts == {"none": 64, "sgd": 80, "svrg": 96, "srg": 96, "full": 1_088}
    for row in rows:
        for kind in ("queries", "evaluations"):
            rate = row[f"{kind}_per_second"]["median"] / row["iterations_per_second"]["median"]
            assert rate == pytest.approx(row[f"{kind}_per_iteration"])


@pytest.mark.slow
def test_waiting_is_measured(tmp_path: Path) -> None:
    seconds = run("cold_start.py", tmp_path / "cold_start.json")["seconds"]
    medians = {kind: {what: each["median"] for what, each in rows.items()} for kind, rows in seconds.items()}
    order = ("first sign of life", "first progress", "end")
    for cache in ("nothing cached", "cached"):
        moments = [medians["a short run"][f"{what}, {cache}"] for what in order]
        assert 0 < moments[0] < moments[1] <= moments[2]
    assert medians["imports"]["the command line"] < medians["imports"]["all that training needs"]
    assert len(medians["compiling"]) == 2
    assert all(seconds > 0 for kind in ("answers", "compiling") for seconds in medians[kind].values())


@pytest.mark.slow
def test_the_limit_is_measured(tmp_path: Path) -> None:
    report = run("limit.py", tmp_path / "limit.json")
    assert report["circumstances"]["versions"]["jax"]
    assert (tmp_path / "limit.png").stat().st_size > 0
    # The compiler also counts products with zeros, so that it never has less.
    for row in report["counts"]:
        assert 0.5 < row["formula"] / row["compiler"] < 1
        assert row["formula"] == row["passes"] + row["weight_gradients"] + row["elementwise"]
    for row in report["machine"]:
        for cores in ("one_core", "all_cores"):
            assert set(row[cores]) == {"XLA", "NumPy"}
            assert all(rate["median"] > 0 for rate in row[cores].values())
    assert {row["algorithm"] for row in report["training"]} == {"srg-dqn", "dqn-adam"}
    for row in report["training"]:
        assert 0 < row["share_of_peak"] < 1
        names = ("task", "hidden", "kernel", "algorithm")
        parts = [part for part in report["parts"] if all(part[name] == row[name] for name in names)]
        assert sum(part["share"] for part in parts) == pytest.approx(1.0)
        assert sum(part["operations"] for part in parts) == row["operations_per_block"]


@pytest.mark.slow
def test_growth_is_measured(tmp_path: Path) -> None:
    report = run("growth.py", tmp_path / "growth.json")
    assert report["absent"] == []
    assert report["circumstances"]["versions"]["jax"]
    assert (tmp_path / "growth.png").stat().st_size > 0
    for row in report["rows"]:
        assert row["seconds_per_step"] > 0
        assert 20 < row["peak_mib"] < 20_000
    axes = {row["axis"] for row in report["rows"]}
    assert axes == {"rounds", "hidden width", "batch size N", "inner iterations M", "replay capacity", "lanes"}
    assert {each["axis"] for each in report["exponents"] if each["measure"] == "peak_mib"} == axes
