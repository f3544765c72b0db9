"""Outcomes of every experiment with planted effects, in the very tables that training and measurements leave.

In the `good` world everything the paper claims is true by a wide margin; in the `bad` one the opposite is.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from srgdqn.config.algorithms import PAPER
from srgdqn.config.configure import configure
from srgdqn.results.result import Result
from srgdqn.runs.measurement import Measured
from srgdqn.runs.run import Run
from srgdqn.runs.tables import SCHEMAS, in_order

ROUNDS = 24
WINDOWS, WINDOW = 10, 1_000  # of a run with a budget in steps
EPISODES = 120  # of one with a budget in episodes
TASKS = ("MountainCar", "Pendulum", "CartPole")
CHANCE = 0.25  # what the random policy scores
UNTRAINED = 0.125  # and the untrained agent
RANDOM_OPTIONS = {"epsilon_start": 1.0, "epsilon_end": 1.0, "eta": 0.0}
DOSES = ((0.0, 1), (0.0, 4), (1.0, 1), (1.0, 4))
DOSE_ERRORS = {(c, b): float(np.exp(2.0 - c - 0.5 * np.log(b))) for c, b in DOSES}
SPREAD_STEPS = (*range(1_000, 10_001, 1_000), *range(11_000, 20_001, 1_000))
ELEMENTS, WEIGHTS = 4, 3


def planted_run(
    task: str,
    algorithm: str,
    finals: Sequence[float] | np.ndarray,
    *,
    earlies: Sequence[float] | np.ndarray | None = None,
    lengths: Sequence[float] | np.ndarray | None = None,
    diverged: Mapping[int, int] | None = None,
    seconds: float = 2.0,
    **options: Any,
) -> Result:
    """A run whose rounds have these values in their second halves, and others before.

    Under a budget in steps these are rewards per action in ten windows; under one in episodes, returns of the last
    hundred episodes, which are of the given lengths. `diverged` gives the steps at which rounds ended.
    """
    rounds, stops = len(finals), dict(diverged or {})
    by_episodes = task == "CartPole" or "episodes" in options
    budget = {} if "episodes" in options else {"episodes": EPISODES} if by_episodes else {"steps": WINDOWS * WINDOW}
    configuration = configure(task, algorithm, rounds=rounds, window=WINDOW, **{**budget, **options})
    late, early = np.asarray(finals, float), np.asarray(finals if earlies is None else earlies, float)
    each = np.full(rounds, 50.0) if lengths is None else np.asarray(lengths, float)
    columns: dict[str, dict[str, list]] = {name: {column: [] for column in schema} for name, schema in SCHEMAS.items()}

    def add(table: str, **values: Any) -> None:
        size = next((len(value) for value in values.values() if np.ndim(value)), 1)
        for column, entries in columns[table].items():
            value = values.get(column)
            entries += list(value) if np.ndim(value) else [value] * size

    for number in range(rounds):
        if by_episodes:
            count = configuration.training.episodes
            long = np.full(count, round(each[number]))
            ends = long.cumsum()
            returns = np.where(np.arange(count) < count - 100, early[number], late[number])
            steps = stops.get(number, int(ends[-1]))
        else:
            steps = stops.get(number, WINDOWS * WINDOW)
            long = np.full(3, steps // 4)
            ends = long.cumsum()
            returns = np.full(3, late[number])
        there = ends <= steps
        count = int(there.sum())
        add(
            "episodes",
            round=number,
            episode=np.arange(count),
            step=ends[there],
            **{"return": returns[there]},
            length=long[there],
            ending="terminated",
            success=True,
        )
        edges = np.unique(np.append(np.arange(WINDOW, steps, WINDOW), steps))
        half = WINDOWS * WINDOW / 2
        reward = np.where(edges <= half, early[number], late[number])
        add(
            "curves",
            round=number,
            step=edges,
            reward=reward,
            reward_cumulative=reward,
            episodes=count,
            queries=edges * 6,
            gradient_evaluations=edges * 6,
        )
        add(
            "evaluations",
            round=number,
            step=steps,
            episode=np.arange(2),
            **{"return": np.array([-1.0, -2.0])},
            length=np.array([100, 140]),
            success=np.array([True, number % 2 == 0]),
        )
        add(
            "rounds",
            round=number,
            steps=steps,
            episodes=count,
            outer_iterations=steps // 16,
            queries=steps * 6,
            gradient_evaluations=steps * 6,
            censored=count // 3,
            diverged_at=stops.get(number),
            completed=number not in stops,
        )
    longest = max(columns["rounds"]["steps"])
    for chunk in range(-(-rounds // configuration.training.lanes)):
        add("timings", chunk=chunk, phase="train", step=longest, seconds=seconds)
    # Sorted by round, as the tables of all runs are marked.
    tables = {
        name: in_order(pl.DataFrame(given, schema=SCHEMAS[name], strict=False)) for name, given in columns.items()
    }
    parameters = {"network.layers.0.weight": np.zeros((rounds, 2, 2), np.float32)}
    return Result(Run(configuration, tables, parameters, {"interrupted": False}))


class _Values:
    """Values per round: `good` ones are high and alike, `bad` ones low and scattered."""

    def __init__(self, rounds: int, seed: int) -> None:
        self.rounds, self.rng = rounds, np.random.default_rng(seed)

    def scores(self, good: bool) -> np.ndarray:
        return self._around(2.0 if good else 0.9, 0.05 if good else 0.3)

    def lengths(self, good: bool) -> np.ndarray:
        return self._around(200.0 if good else 400.0, 5.0 if good else 40.0)

    def _around(self, mean: float, deviation: float) -> np.ndarray:
        values = self.rng.normal(size=self.rounds)
        return mean + deviation * (values - values.mean()) / values.std(ddof=1)


def world(good: bool, *, readings: Sequence[str] = ("corrected",), rounds: int = ROUNDS) -> dict[str, Any]:
    """The outcomes of every cell that sections need, except that rounds and budgets are small."""
    outcomes: dict[str, Any] = {}
    for label in readings:
        values = _Values(rounds, seed=1)
        outcomes |= _learning(values, label, good)
        outcomes |= _episodes(values, label, good)
        outcomes[f"exact-anchors-{label}"] = exact_anchors(
            {"ordinary": values.scores(not good), "exact": values.scores(good), "oracle": values.scores(good)}
        )
        outcomes[f"exact-yardsticks-{label}"] = exact_yardsticks(rounds)
        for place, trajectory in enumerate(("svr-dqn", "srg-dqn")):
            outcomes[f"anchors-{trajectory}-{label}"] = anchors(0.5 if good else 2.0, 3.0 if good else 0.01, seed=place)
        for algorithm, scale in (("svr-dqn", 1.0), ("srg-dqn", 0.5 if good else 2.0)):
            outcomes[f"spread-{algorithm}-{label}"] = spread(algorithm, scale, 0.5 if good else 2.0, rounds=rounds)
        outcomes |= dose_outcomes(label, 1.0 if good else -1.0, rounds=rounds)
        outcomes[f"step-times-{label}"] = step_times()
        outcomes |= _untrained(label, rounds)
    outcomes["theorem-1"] = theorem(good)
    return outcomes


def _untrained(label: str, rounds: int) -> dict[str, Result]:
    found = {
        f"{task}-untrained-{label}": planted_run(task, "dqn-sgd", np.full(rounds, UNTRAINED), eta=0.0, alpha=0.0)
        for task in TASKS
    }
    lengths = np.full(rounds, 1_500.0)
    run = planted_run("MountainCar", "dqn-sgd", np.zeros(rounds), lengths=lengths, episodes=EPISODES, eta=0.0)
    return {**found, f"episodes-untrained-{label}": run}


def _learning(values: _Values, label: str, good: bool) -> dict[str, Result]:
    found = {}
    for task in TASKS:
        for algorithm in (*PAPER, "sgd-inner", "sgd-inner-adam", "random"):
            ours = (algorithm == "srg-dqn") == good and algorithm != "random"
            named = "dqn-sgd" if algorithm == "random" else algorithm
            scores = np.full(values.rounds, CHANCE) if algorithm == "random" else values.scores(ours)
            # Good ones reach the threshold of 1 in the first half, bad ones never do.
            early = scores - 0.4
            options = RANDOM_OPTIONS if algorithm == "random" else {}
            found[f"{task}-{algorithm}-{label}"] = planted_run(task, named, scores, earlies=early, **options)
    return found


def _episodes(values: _Values, label: str, good: bool) -> dict[str, Result]:
    found = {}
    for algorithm in (*PAPER, "sgd-inner-adam", "random"):
        ours = (algorithm == "srg-dqn") == good and algorithm != "random"
        named = "dqn-sgd" if algorithm == "random" else algorithm
        lengths = np.full(values.rounds, 1_000.0) if algorithm == "random" else values.lengths(ours)
        run = planted_run("MountainCar", named, np.zeros(values.rounds), lengths=lengths, episodes=EPISODES)
        found[f"episodes-{algorithm}-{label}"] = run
    return found


def exact_anchors(
    rewards: Mapping[str, np.ndarray], *, evaluations: int = 20, diverged: Mapping[str, Sequence[int]] | None = None
) -> Measured:
    """Each arm's rounds have one value at all evaluations.

    A round that diverged has been evaluated only once, with a huge value, and at a step that no other round has.
    """
    evaluated, rounds = [], []
    for arm, values in rewards.items():
        lost = set((diverged or {}).get(arm, ()))
        for number, value in enumerate(values):
            steps = [1_040 + 16 * number] if number in lost else [1_000 * (1 + place) for place in range(evaluations)]
            shown = {"reward": 1e6 if number in lost else float(value), "length": 200.0, "success": 1.0}
            evaluated += [{"arm": arm, "round": number, "step": step, **shown} for step in steps]
            rounds.append({"arm": arm, "round": number, "diverged": number in lost})
    narrow = {"round": pl.Int32}
    tables = {
        "evaluations": pl.DataFrame(evaluated, schema_overrides=narrow),
        "rounds": pl.DataFrame(rounds, schema_overrides=narrow),
    }
    return Measured(tables, {"plan": {}, "seconds": 3.0})


def exact_yardsticks(rounds: int = ROUNDS, chance: float = CHANCE) -> Measured:
    """What does not learn, evaluated as Figure 1's arms are."""
    rows = [
        {"arm": arm, "round": number, "reward": reward}
        for arm, reward in (("random", chance), ("untrained", UNTRAINED))
        for number in range(rounds)
    ]
    return Measured({"yardsticks": pl.DataFrame(rows)}, {"plan": {}, "seconds": 1.0})


def anchors(ratio: float, reasons: float, *, rounds: Sequence[int] = range(10), seed: int = 0) -> Measured:
    """SRG's distances are those of SVRG times the ratio, and each reason's error that of sampling times `reasons`.

    Both hold exactly for the geometric means over moments, and vary a little by round.
    """
    rng = np.random.default_rng(seed)
    distances, anatomy, bounds = [], [], []
    for number in rounds:
        mine = np.exp(0.05 * np.cos(number + seed))
        for step in (4_000, 20_000):
            for m in (1, 2):
                size = float(rng.uniform(1.0, 2.0))
                for estimator, factor in (("srg", ratio * mine), ("svrg", 1.0)):
                    own = {name: size * factor * k for name, k in (("own", 1.0), ("present", 2.0), ("estimate", 3.0))}
                    place = {"round": number, "step": step, "estimator": estimator, "m": m}
                    distances.append({**place, **own, "floor": 0.5, "own_norm": 10.0, "norm": 20.0})
            error = float(rng.uniform(1.0, 2.0))
            parts = {"sampling": error, "unseen": reasons * mine * error, "drift": 2 * reasons * mine * error}
            anatomy.append({"round": number, "step": step, **parts, "total": 2 * error})
            bounds.append(
                {"step": step, "bound": 0.02 if number % 2 else 0.001, "eta": 0.01, "satisfied": bool(number % 2)}
            )
    place = {"round": pl.Int64, "step": pl.Int64}
    reals = dict.fromkeys(("own", "present", "estimate", "floor", "own_norm", "norm"), pl.Float64)
    parts = dict.fromkeys(("sampling", "unseen", "drift", "total"), pl.Float64)
    tables = {
        "distances": pl.DataFrame(distances, schema={**place, "estimator": pl.String, "m": pl.Int64, **reals}),
        "anatomy": pl.DataFrame(anatomy, schema={**place, **parts}),
        "bounds": pl.DataFrame(bounds, schema={"step": int, "bound": float, "eta": float, "satisfied": bool}),
        "rounds": pl.DataFrame({"rounds": [10], "diverged": [10 - len(rounds)]}),
    }
    return Measured(tables, {"plan": {}, "seconds": 4.0})


def spread(
    algorithm: str, scale: float, frozen: float, *, rounds: int | Sequence[int] = ROUNDS, seed: int = 0
) -> Measured:
    """Vectors whose spread across rounds is a number times `scale`, as is that within windows.

    At a frozen θ the spread of SRG is `frozen` times that of SVRG, in both algorithms' runs.
    """
    numbers = list(range(rounds)) if isinstance(rounds, int) else list(rounds)
    rng = np.random.default_rng(seed)
    vectors, windows, redraws = [], [], []
    for step in SPREAD_STEPS:
        for quantity in ("delta", "gradient"):
            labels = [pl.lit(step, pl.Int64).alias("step"), pl.lit(quantity).alias("quantity")]
            base = rng.normal(size=(len(numbers), ELEMENTS))
            within = rng.uniform(1.0, 1.2, size=len(numbers))
            within = np.full(len(numbers), np.nan) if step == SPREAD_STEPS[0] else within  # a single outer iteration
            vectors.append(pl.DataFrame({"round": numbers, "vector": scale * base}).select(*labels, pl.all()))
            spreads = {"spread": scale * within, "spread_with_biases": 2 * scale * within}
            windows.append(pl.DataFrame({"round": numbers, **spreads}).select(*labels, pl.all()))
            for estimator, factor in (("srg", frozen), ("svrg", 1.0)):
                again = factor * rng.uniform(1.0, 1.2, size=len(numbers))
                columns = {"spread": again, "spread_with_biases": 2 * again, "within": again, "between": 3 * again}
                frame = pl.DataFrame({"round": numbers, **columns}).select(*labels, pl.all())
                redraws.append(frame.with_columns(pl.lit(estimator).alias("estimator")))
    tables = {
        "vectors": pl.concat(vectors),
        "windows": pl.concat(windows),
        "redraws": pl.concat(redraws),
        "rounds": pl.DataFrame({"rounds": [len(numbers)], "diverged": [0], "weights": [WEIGHTS]}),
    }
    return Measured(tables, {"plan": {"algorithm": algorithm}, "seconds": 5.0})


def dose_outcomes(
    label: str,
    gain: float,
    *,
    rounds: int = ROUNDS,
    errors: Mapping[tuple[float, int], float] | None = None,
    chance: float = CHANCE,
) -> dict[str, Any]:
    """A run of every dose, their errors, and both yardsticks."""
    given = DOSE_ERRORS if errors is None else errors
    table = pl.DataFrame([{"c": c, "b": b, "error": error, "norm": 1.0} for (c, b), error in given.items()])
    about = {"plan": {}, "seconds": 6.0}
    counts = pl.DataFrame({"rounds": [rounds], "diverged": [0]})
    still = {"random": (chance, RANDOM_OPTIONS), "untrained": (UNTRAINED, {"eta": 0.0, "alpha": 0.0})}
    return {
        **{f"dose-c{c:g}-b{b}-{label}": one_dose((c, b), gain, rounds=rounds) for c, b in DOSES},
        f"dose-errors-{label}": Measured({"errors": table, "rounds": counts}, about),
        **{
            f"dose-{name}-{label}": planted_run("MountainCar", "dqn-sgd", np.full(rounds, score), **options)
            for name, (score, options) in still.items()
        },
    }


def one_dose(dose: tuple[float, int], gain: float, *, rounds: int = ROUNDS, diverged: Sequence[int] = ()) -> Result:
    """The logarithm of the error falls with c and b; reward is -gain times it, and varies a little by round."""
    c, b = dose
    wobble = 0.01 * np.random.default_rng(b + int(10 * c)).normal(size=rounds)
    rewards = gain * (wobble - wobble.mean() - np.log(DOSE_ERRORS.get(dose, 1.0)))
    stops = dict.fromkeys(diverged, 1_504)
    return planted_run("MountainCar", "srg-dqn", rewards, diverged=stops, coefficient=c, inner_batch=b)


def step_times(costs: Mapping[str, float] | None = None) -> Measured:
    """What a step costs by task and algorithm, the median of three turns; a microsecond unless told."""
    rows = [
        {"name": f"{task}-{algorithm}", "turn": turn, "seconds_per_step": (costs or {}).get(algorithm, 1e-6) * factor}
        for turn, factor in enumerate((1.0, 0.9, 50.0))
        for task in TASKS
        for algorithm in (*PAPER, "sgd-inner", "sgd-inner-adam")
    ]
    return Measured({"times": pl.DataFrame(rows)}, {"plan": {}, "seconds": 7.0})


def theorem(good: bool, *, replications: int = 12) -> Measured:
    """The inequality with room to spare or violated, and half or twice SVRG's queries for SRG."""
    rng = np.random.default_rng(3)
    inequality, queries, growth = [], [], []
    for problem in ("convex", "network"):
        for multiple in (1.0, 10.0):
            for loop in (1, 2):
                difference = -1.0 if good and multiple == 1.0 else 1.0
                inequality.append(
                    dict(
                        problem=problem, varied="centre", n=64, M=16, S=2, multiple=multiple, eta=0.01,
                        outer_loop=loop, left=2.0 + difference, right=2.0, difference=difference, above=0.5,
                        low=difference - 0.1 * loop, high=difference + 0.1 * loop, violated=difference > 0,
                        largest_loss=1.0, paper_right=9.0, paper_violated=False, in_region=True,
                        replications=64, diverged=0,
                    )
                )  # fmt: skip
        for n, length in ((64, 16), (16, 16), (256, 16), (64, 4), (64, 64)):
            for step in ("theory", "tuned"):
                for relative in (1e-1, 1e-2):
                    for estimator in ("sgd", "svrg", "srg"):
                        centre = (n, length) == (64, 16) and relative == 1e-2
                        factor = {"srg": 1.0, "svrg": (2.0 if good else 0.5), "sgd": 9.0}[estimator] if centre else 1.0
                        for replication in range(replications):
                            count = round(1_000 * factor * rng.uniform(0.95, 1.05))
                            queries.append(
                                dict(
                                    problem=problem, n=n, M=length, epsilon=relative, relative=relative, step=step,
                                    estimator=estimator, eta=0.01, replication=replication, queries=count,
                                    reached=True,
                                )
                            )  # fmt: skip
        growth.append(
            dict(
                problem=problem, n=64, epsilon=0.1, relative=0.1, eta=0.01, loop_length=100.0, queries=264.0,
                root_length_by_epsilon=100.0, exponent=1.75 if problem == "convex" else 2.25,
            )
        )  # fmt: skip
    tables = {
        "inequality": pl.DataFrame(inequality),
        "queries": pl.DataFrame(queries),
        "growth": pl.DataFrame(growth),
    }
    return Measured(tables, {"plan": {}, "seconds": 8.0})
