"""Summaries of runs, side by side. Statistics are over rounds.

The *final stretch* of a run is what lies after 80 % of its budget, in the budget's own unit: the last 20 % of its
windows. A round that never got there (it diverged, or was interrupted) has no final value: it is left out of the
statistic, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from srgdqn.config import Configuration
from srgdqn.config.algorithms import READINGS
from srgdqn.config.checks import BUDGETS
from srgdqn.config.configure import named_options
from srgdqn.config.estimator_numbers import numbers_of_estimator
from srgdqn.errors import InputError
from srgdqn.results.curves import training_seconds, windows_of
from srgdqn.results.result import Result
from srgdqn.runs.tables import POLICIES_KEPT


@dataclass(frozen=True)
class Spread:
    """One value per round, summarised; None where there are too few rounds."""

    rounds: int
    """Rounds that have a value."""
    mean: float | None = None
    low: float | None = None
    """Lower bound of the mean's 95 % bootstrap interval."""
    high: float | None = None
    """Upper bound."""
    iqm: float | None = None
    """Interquartile mean."""
    sd: float | None = None
    """Standard deviation over rounds."""


@dataclass(frozen=True)
class Summary:
    """The results of a run in numbers."""

    label: str
    """Its name among the runs of a comparison."""
    task: str
    algorithm: str
    readings: str
    rounds: int
    """Rounds that ran."""
    planned: int
    """Rounds that were asked for."""
    interrupted: bool
    diverged: dict[int, int]
    """The rounds that went non-finite, and the environment step of each."""
    censored: int
    """Episodes cut at the cap, over all rounds."""
    reward: Spread
    """Mean reward per action in the final stretch."""
    last_reward: Spread
    """Mean reward per action in the last window that a round has, wherever that is."""
    episode_return: Spread
    """Mean return of the training episodes that ended in the final stretch."""
    episode_length: Spread
    """Their mean length."""
    greedy_return: Spread
    """Mean return of the last greedy evaluation, on the raw reward, of the rounds that reached the final stretch."""
    greedy_length: Spread
    """The mean length of its episodes."""
    success: Spread
    """The share of its episodes that succeeded."""
    area: Spread
    """The area under the curve of greedy evaluations, as `areas` defines it, of the same rounds."""
    threshold: float | None
    """The return from which on a round counts as solved."""
    solved: Spread
    """The share of rounds whose last greedy return reaches the threshold, of those and the ones that diverged."""
    steps: int
    """Environment steps, over all rounds."""
    queries: float | None
    """Gradient queries by the estimator's formula: mean over rounds."""
    gradient_evaluations: float | None
    """Gradient evaluations really done: mean over rounds."""
    seconds: float | None
    """Training seconds per round, as `srgdqn.results.curves` shares them out."""
    direction_error: Spread = Spread(0)
    """‖Δ - G‖² over ‖G‖² of the estimator's direction in the last fifth of a round's steps, where it was measured
    (`direction_errors`), of the rounds that reached the final stretch."""
    direction_ratio: Spread = Spread(0)
    """‖Δ - G‖² over the same of the gradient on D: below 1, the estimator is nearer to G."""
    direction_bias: Spread = Spread(0)
    """‖E(Δ - G)‖² over ‖Δ - G‖², the share of the error that is the same in every draw."""
    direction_cosine: Spread = Spread(0)
    """The cosine between Δ and G."""
    fresh_last: Spread = Spread(0)
    """Mean return of the last policies on fresh starts, of all rounds, where the best are kept (`keep_best`)."""
    fresh_best: Spread = Spread(0)
    """The same of the best policies."""
    fresh_acting: Spread = Spread(0)
    """The same of the last parameters that act, where the estimator has others evaluated: an average, say."""

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values for JSON."""
        return {**asdict(self), "diverged": [{"round": k, "step": step} for k, step in self.diverged.items()]}


def summarise(result: Result, label: str | None = None, threshold: float | None = None) -> Summary:
    """The summary of a run. Windows are weighted by their steps, so that a shorter last one weighs less. Without a
    `threshold` no round is said to have solved the task.
    """
    configuration, rounds = result.configuration, result.rounds
    windows = windows_of(result)
    final = _final_windows(result)
    last = windows.filter(pl.col("step") == pl.col("step").max().over("round"))
    episodes = result.episodes.filter(_is_final(configuration, pl.col("step"), pl.col("episode") + 1))
    evaluated = _last_evaluations(result).join(final.select("round").unique(), on="round", how="semi")
    diverged = rounds.filter(pl.col("diverged_at").is_not_null()).sort("round")
    reached = set(evaluated["round"])
    ended = {*reached, *diverged["round"]}
    return Summary(
        label=configuration.algorithm if label is None else label,
        task=configuration.task.task,
        algorithm=configuration.algorithm,
        readings=configuration.readings,
        rounds=rounds.height,
        planned=configuration.training.rounds,
        interrupted=result.interrupted,
        diverged=dict(zip(diverged["round"].to_list(), diverged["diverged_at"].to_list(), strict=True)),
        censored=int(rounds["censored"].sum()),
        reward=_spread(final, _PER_ACTION),
        last_reward=_spread(last, _PER_ACTION),
        episode_return=_spread(episodes, pl.col("return").mean()),
        episode_length=_spread(episodes, pl.col("length").mean()),
        greedy_return=_spread(evaluated, pl.col("return").mean()),
        greedy_length=_spread(evaluated, pl.col("length").mean()),
        success=_spread(evaluated, pl.col("success").cast(pl.Float64).mean()),
        area=spread_of(area for number, area in areas(result).items() if number in reached),
        threshold=threshold,
        solved=spread_of(share for number, share in solved(result, threshold).items() if number in ended),
        steps=int(rounds["steps"].sum()),
        queries=_mean(rounds["queries"]),
        gradient_evaluations=_mean(rounds["gradient_evaluations"]),
        seconds=training_seconds(result) / rounds.height if rounds.height else None,
        **_direction_spreads(result, final),
        **{f"fresh_{name}": spread_of(fresh_returns(result, name).values()) for name in POLICIES_KEPT},
    )


def final_rewards(result: Result) -> dict[int, float]:
    """The mean reward per action in the final stretch of each round that got there."""
    return _by_round(_final_windows(result), _PER_ACTION)


def greedy_returns(result: Result) -> dict[int, float]:
    """The mean return of each round's last greedy evaluation, also where that is of the last finite parameters of a
    round that diverged.
    """
    return _by_round(_last_evaluations(result), pl.col("return").mean())


def fresh_returns(result: Result, policy: str) -> dict[int, float]:
    """The mean return of a policy of each round on fresh starts (`runs.tables.POLICIES`), where it was played."""
    rows = result.policies.filter(pl.col("policy") == policy, pl.col("fresh_return").is_not_null())
    return dict(rows.select("round", "fresh_return").iter_rows())


def areas(result: Result) -> dict[int, float]:
    """The area under each round's curve of greedy evaluations, divided by the steps it covers: a return.

    A point of the curve is the mean return of an evaluation; straight lines join them (the trapezoidal rule). From the
    start to the first evaluation the curve is as high as there, as the untrained network is not evaluated.
    """
    points = result.evaluations.group_by("round", "step").agg(pl.col("return").mean()).sort("round", "step")
    found = {}
    for (number,), curve in points.group_by("round", maintain_order=True):
        steps, returns = curve["step"].to_numpy(), curve["return"].to_numpy()
        steps, returns = np.append(0, steps), np.append(returns[0], returns)
        found[int(number)] = float(np.trapezoid(returns, steps) / steps[-1])
    return found


def solved(result: Result, threshold: float | None) -> dict[int, float]:
    """Whether (1 or 0) the last greedy return of each round reaches the threshold; a round that diverged has not solved
    the task. Without a threshold there is nothing to say.
    """
    if threshold is None:
        return {}
    lost = dict.fromkeys(result.rounds.filter(pl.col("diverged_at").is_not_null())["round"], 0.0)
    return {**{number: float(mean >= threshold) for number, mean in greedy_returns(result).items()}, **lost}


def compare(
    results: Sequence[Result], labels: Sequence[str] | None = None, *, threshold: float | None = None
) -> pl.DataFrame:
    """One row per run, as `as_table` has them. `threshold` is the return from which on a round counts as solved, by
    default Gymnasium's for the task.
    """
    require_one_task(results)
    named = distinct_labels(results) if labels is None else labels
    from srgdqn.adapters.registry import reward_threshold  # Gymnasium, which showing a run does without

    limit = reward_threshold(results[0].configuration.task.task, threshold)
    return as_table([summarise(result, label, limit) for result, label in zip(results, named, strict=True)])


def as_table(summaries: Sequence[Summary]) -> pl.DataFrame:
    """One row per summary; a spread is the columns `reward` (the mean), `reward_low`, …, `reward_rounds`."""
    return pl.DataFrame([_row(summary) for summary in summaries], infer_schema_length=None)


def require_one_task(results: Sequence[Result]) -> None:
    """Raises an `InputError` unless there are runs to compare, and all of them are of one task."""
    if not isinstance(results, Sequence) or isinstance(results, str) or not all(isinstance(e, Result) for e in results):
        raise InputError("what is compared is a list of results. Load runs first: [srgdqn.load(path) for path in …].")
    if not results:
        raise InputError("there is no run to compare. Give at least one.")
    tasks = list(dict.fromkeys(result.configuration.task.task for result in results))
    if len(tasks) > 1:
        raise InputError(
            f"the runs are of different tasks ({', '.join(tasks)}), whose rewards cannot be compared. "
            "Give runs of one task."
        )


_MOST_TOLD = 4
"""Differences in the label of a run."""


def distinct_labels(results: Sequence[Result], names: Sequence[str] | None = None) -> list[str]:
    """A label for every run: its algorithm and, where several runs share that, what differs between them.

    `names`, such as folders, distinguish runs that differ in nothing else, or in more than a label can tell; by default
    those are numbered.
    """
    configurations = [result.configuration for result in results]
    fallback = [f"run {index + 1}" for index in range(len(results))] if names is None else names
    labels = []
    for configuration, name in zip(configurations, fallback, strict=True):
        alike = [other for other in configurations if other.algorithm == configuration.algorithm]
        told = list(_differences(configuration, alike))
        labels.append(", ".join([configuration.algorithm, *(told if len(told) <= _MOST_TOLD else [name])]))
    return [
        f"{label}, {name}" if labels.count(label) > 1 else label for label, name in zip(labels, fallback, strict=True)
    ]


_INSTRUMENTS = ("direction_errors", "keep_best")
"""Options that change no bit of what is learnt."""


def differing_options(configurations: Sequence[Configuration]) -> list[str]:
    """The options in which configurations differ; `readings`, which comes first, stands for what follows from it. An
    estimator's own numbers are compared among the configurations that have them.
    """
    described = [{"readings": configuration.readings, **configuration.options()} for configuration in configurations]
    every = dict.fromkeys(name for options in described for name in options)
    names = [
        name
        for name in every
        if name not in _INSTRUMENTS and len({options[name] for options in described if name in options}) > 1
    ]
    follows = {
        name
        for name in names
        if all(
            READINGS.get(options["readings"], {}).get(name, NotImplemented) == options.get(name)
            for options in described
        )
    }
    return [name for name in names if name not in follows]


def departures(configuration: Configuration) -> dict[str, tuple[Any, Any]]:
    """The options whose values are not those that the names stand for: (the value, what the names stand for). A kernel
    that was chosen by `auto` does not count. An estimator's own numbers have its defaults, or None where it is not
    known here.
    """
    named = named_options(configuration.task.task, configuration.algorithm, configuration.readings)
    declared = numbers_of_estimator(configuration.estimator.estimator)
    named |= {name: declared[name].default if name in declared else None for name, _ in configuration.estimator.own}
    return {
        name: (value, named[name])
        for name, value in configuration.options().items()
        if value != named[name] and (name, named[name]) != ("kernel", "auto")
    }


def option_text(value: Any) -> str:
    """An option's value as users write it."""
    if isinstance(value, tuple):
        return "+".join(map(str, value)) or "no layers"
    return "none" if value is None else str(value)


def _differences(configuration: Configuration, alike: Sequence[Configuration]) -> list[str]:
    """How a configuration differs from others of its algorithm, for a label."""
    options = configuration.options()
    names = [
        name
        for name in differing_options(alike)
        if name in {"readings", *options} and (name not in BUDGETS or options[name] is not None)
    ]
    return [
        f"{configuration.readings} readings" if name == "readings" else f"{name} {option_text(options[name])}"
        for name in names
    ]


def _is_final(configuration: Configuration, step: pl.Expr, episodes: pl.Expr) -> pl.Expr:
    """Whether more than 80 % of the budget was spent by that step, when that many episodes had ended."""
    training = configuration.training
    if training.episodes is not None:
        return 5 * episodes > 4 * training.episodes
    if training.outer_iterations is not None:
        made = (step // training.learning_frequency - training.first_learning_block) * training.gradient_steps
        return 5 * made > 4 * training.outer_iterations
    assert training.steps is not None
    return 5 * step > 4 * training.steps


def spread_of(values: Iterable[float | None]) -> Spread:
    """The spread of one value per round, of those that are finite."""
    finite = np.array([value for value in values if value is not None and np.isfinite(value)], dtype=float)
    if not finite.size:
        return Spread(0)
    if finite.size == 1:
        return Spread(1, float(finite[0]), iqm=float(finite[0]))
    # Imported only now: scipy.stats takes a second, and a single round has no interval.
    from srgdqn.results.statistics import bootstrap_interval, iqm

    mean, low, high = bootstrap_interval(finite)
    return Spread(finite.size, mean, low, high, float(iqm(finite)), float(np.std(finite, ddof=1)))


_PER_ACTION = (pl.col("reward") * pl.col("length")).sum() / pl.col("length").sum()


def _final_windows(result: Result) -> pl.DataFrame:
    return windows_of(result).filter(_is_final(result.configuration, pl.col("step"), pl.col("episodes")))


def _last_evaluations(result: Result) -> pl.DataFrame:
    return result.evaluations.filter(pl.col("step") == pl.col("step").max().over("round"))


def _spread(rows: pl.DataFrame, statistic: pl.Expr) -> Spread:
    """The spread over rounds of a statistic of each round's rows."""
    return spread_of(_by_round(rows, statistic).values())


def _by_round(rows: pl.DataFrame, statistic: pl.Expr) -> dict[int, Any]:
    return dict(rows.group_by("round").agg(statistic.alias("value")).sort("round").iter_rows())


def _direction_spreads(result: Result, final: pl.DataFrame) -> dict[str, Spread]:
    """Ratios are of sums over a round's measurements: single ones may be divided by next to nothing."""
    steps, reached = result.rounds.select("round", "steps"), final.select("round").unique()
    rows = result.directions.join(steps, on="round").join(reached, on="round", how="semi")
    rows = rows.filter(5 * pl.col("step") > 4 * pl.col("steps"))

    def ratio(above: str, below: str) -> pl.Expr:
        whole = pl.all_horizontal(pl.col(above, below).is_not_null().all())
        return pl.when(whole, pl.col(below).sum() > 0).then(pl.col(above).sum() / pl.col(below).sum())

    return {
        "direction_error": _spread(rows, ratio("squared_error", "squared_norm")),
        "direction_ratio": _spread(rows, ratio("squared_error", "plain_squared_error")),
        "direction_bias": _spread(rows, ratio("squared_bias", "squared_error")),
        "direction_cosine": _spread(rows, pl.col("cosine").mean()),
    }


def _row(summary: Summary) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in vars(summary).items():
        if isinstance(value, Spread):
            row[name] = value.mean
            row |= {f"{name}_{part}": getattr(value, part) for part in ("low", "high", "iqm", "sd", "rounds")}
        else:
            row[name] = len(value) if name == "diverged" else value
    return row


def _mean(column: pl.Series) -> float | None:
    return float(column.to_numpy().mean()) if len(column) else None
