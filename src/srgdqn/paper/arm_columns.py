"""What tables say of an arm: its score, how many of its rounds diverged, and its greedy episodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl
import scipy.stats

from srgdqn.paper.report.first_screen import percent
from srgdqn.paper.scores import Scores
from srgdqn.results.result import Result
from srgdqn.results.statistics import bootstrap_interval

ONLY_AT_THE_END = 10**9
"""An evaluation interval that no budget reaches: greedy episodes only at the end of training."""

ARM_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "srg-dqn": "SRG-DQN",
        "svr-dqn": "SVR-DQN",
        "dqn-sgd": "DQN with SGD",
        "srg-dqn-no-adam": "SRG without Adam",
        "sgd-inner-adam": "same updates, plain gradients",
        "random": "the random policy",
        "untrained": "the untrained agent",
    }
)
"""What sentences call the arms that they speak of most."""

NOTE = (
    "Score: mean reward per action over the last 20 % of steps (MountainCar, Pendulum) or mean return over the last "
    "100 episodes (CartPole), and its 95 % interval. Diverged: rounds, and the share's 95 % interval. Greedy return, "
    "success and length: of greedy episodes on Gymnasium's own reward at the end of training, in rounds that finished."
)
WORST = (
    "A diverged round scores the worst round that finished among the paper's four algorithms and, where they were run, "
    "sgd-inner and sgd-inner-adam, or the random policy's mean where that is worse."
)
"""What a diverged round scores, by `scores.REFERENCE`."""

_GREEDY = ("greedy return", "success", "length")


def arm_columns(scores: Scores, result: Result) -> dict[str, str]:
    """The columns of one arm."""
    low, mean, high = (getattr(bootstrap_interval(scores.values), name) for name in ("low", "estimate", "high"))
    return {
        "score": f"{mean:.3f} [{low:.3f}, {high:.3f}]",
        "diverged": share_text(int(scores.diverged.sum()), len(scores.diverged)),
        **_greedy(result),
    }


def of_finished(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with greedy columns named for what they are means over: rounds that finished, which flatters an arm
    that diverges often.
    """
    return frame.rename({name: f"{name} (finished rounds)" for name in _GREEDY if name in frame.columns})


def share_text(count: int, total: int) -> str:
    """A count and Wilson's 95 % interval of its share.

    >>> share_text(5, 100), share_text(2, 3_000)
    ('5 of 100 [2 %, 11 %]', '2 of 3000 [< 0.1 %, 0.2 %]')
    """
    interval = scipy.stats.binomtest(count, total).proportion_ci(method="wilson")
    # Exactly 0 and 1 are not always what rounding leaves of them.
    low, high = (0.0 if count == 0 else interval.low), (1.0 if count == total else interval.high)
    return f"{count} of {total} [{percent(low)}, {percent(high)}]"


def spread_text(scores: Scores, digits: str = ".3f") -> str:
    """The standard deviation of the scores of rounds that finished."""
    finished = scores.values[~scores.diverged]
    return f"{finished.std(ddof=1):{digits}}" if len(finished) > 1 else f"{len(finished) or 'none'} finished"


def _greedy(result: Result) -> dict[str, str]:
    if result.configuration.acting.epsilon_end == 1.0:
        return dict.fromkeys(_GREEDY, "never greedy")
    finished = result.rounds.filter(pl.col("diverged_at").is_null())["round"]
    mine = result.evaluations.filter(pl.col("round").is_in(finished.to_list()))
    last = mine.filter(pl.col("step") == pl.col("step").max().over("round"))
    if not last.height:
        return dict.fromkeys(_GREEDY, "not evaluated" if len(finished) else "none finished")
    known = last["success"].drop_nulls()
    found = (
        f"{last['return'].to_numpy().mean():.1f}",
        f"{known.to_numpy().mean():.0%}" if len(known) else "not defined",
        f"{last['length'].to_numpy().mean():.0f}",
    )
    return dict(zip(_GREEDY, found, strict=True))
