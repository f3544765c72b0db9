"""Rows of tables from a page of one round's log, and what the page leaves open for the next.

A page is a fixed number of blocks, counted from the round's beginning, so the rows do not depend on how the run is cut
into segments: a window or an episode that crosses the end of a page is summed page by page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from srgdqn.config import Configuration
from srgdqn.learner.outer_iteration import logged_columns
from srgdqn.training.budget import Budget, budget_of, limits_of, steps_within
from srgdqn.training.lane import STEPPED, TERMINATED, TRUNCATED

Columns = dict[str, np.ndarray]

ANEW = 8
"""A step flag beside those of `lane`: a new episode begins here although the one before did not end."""

DIAGNOSTICS = ("loss", "max_q", "delta_norm", "theta_norm")
"""Of the last outer iteration after a block: mean loss, mean max_a Q, ‖Δ_M‖ and ‖θ‖. NaN where there was none."""


def curve_columns(diagnostics: Sequence[str]) -> dict[str, type]:
    """The columns of windows that have ended, with the diagnostics of their outer iterations."""
    return {
        "step": np.int64,
        "reward": np.float64,
        "reward_cumulative": np.float64,
        "episodes": np.int32,
        **dict.fromkeys(diagnostics, np.float64),  # NaN where no outer iteration gave a finite value
        "iterations": np.int64,  # made so far
    }


EPISODES: dict[str, type] = {"step": np.int64, "return": np.float64, "length": np.int32, "terminated": np.bool_}
"""The columns of episodes that have ended."""


class Rules(NamedTuple):
    """How the logs of a chunk's rounds are read."""

    budget: Budget
    block: int  # steps
    window: int
    first_learning: int  # blocks from this one on end in an outer iteration,
    last_block: int  # blocks from this one on do not
    updates: int  # outer iterations after a block
    diagnostics: tuple[str, ...]  # `DIAGNOSTICS`, and what the estimator logs


class LogSlice(NamedTuple):
    """Some blocks of one round's log."""

    first_block: int
    reward: np.ndarray  # of each step, in double precision
    flags: np.ndarray
    diagnostics: np.ndarray  # of each block
    environments: np.ndarray | None  # which environment made each step; None if there is one


class OpenEpisodes(NamedTuple):
    """Episodes that have not ended, by environment."""

    returns: np.ndarray  # so far
    lengths: np.ndarray


class Carry(NamedTuple):
    """What a round has open between two pages, and its counts so far."""

    steps: int  # within the budget
    episodes: int  # ended
    truncated: int  # ended without terminating
    iterations: int  # outer iterations made
    total: float  # the rewards of all windows that have ended
    window_reward: float  # the rewards of the open window so far
    window_sums: np.ndarray  # sums of the finite diagnostics of its outer iterations,
    window_counts: np.ndarray  # and how many of each there are
    open_returns: np.ndarray  # of each environment's open episode,
    open_lengths: np.ndarray  # and its steps

    @property
    def open_episodes(self) -> OpenEpisodes:
        """The open episodes of its environments."""
        return OpenEpisodes(self.open_returns, self.open_lengths)


class Counted(NamedTuple):
    """What counts of some blocks of a round."""

    steps: int  # within the budget
    ends: np.ndarray  # the places of the steps that ended an episode
    blocks: np.ndarray  # the numbers of the blocks that ended in an outer iteration


def rules_of(configuration: Configuration) -> Rules:
    """The rules of rounds with this configuration."""
    settings = configuration.training
    limits, block = limits_of(settings), settings.learning_frequency
    learning = (int(limits.first_learning), int(limits.last_block), settings.gradient_steps)
    diagnostics = (*DIAGNOSTICS, *logged_columns(configuration))
    return Rules(budget_of(settings), block, settings.window, *learning, diagnostics)


def empty_carry(rules: Rules, environments: int) -> Carry:
    """The carry before the first step of a round with so many environments."""
    open_ = np.zeros(environments), np.zeros(environments, np.int64)
    sums, counts = np.zeros((2, len(rules.diagnostics)))
    return Carry(0, 0, 0, 0, 0.0, 0.0, sums, counts, *open_)


def counted(rules: Rules, steps: int, episodes: int, first_block: int, flags: np.ndarray) -> Counted:
    """What counts of the blocks from `first_block` on, of which these are the steps' flags, after so many steps and
    episodes.
    """
    active = len(flags)
    if not flags[-1] & STEPPED:  # a round that stops never starts again
        active = int(np.count_nonzero(flags & STEPPED))
    ended = (flags[:active] & (TERMINATED | TRUNCATED)) > 0
    within = steps_within(rules.budget, ended, steps=steps, episodes=episodes)
    blocks = np.arange(first_block, first_block + active // rules.block)
    blocks = blocks[(blocks >= rules.first_learning) & (blocks < rules.last_block)]
    return Counted(within, np.flatnonzero(ended[:within]), blocks)


def digest(rules: Rules, before: Carry, page: LogSlice) -> tuple[Carry, Columns, Columns]:
    """The carry after a page, and the windows and the episodes that ended in it."""
    steps, ends, blocks = counted(rules, before.steps, before.episodes, page.first_block, page.flags)
    if not steps:
        return before, _no_rows(curve_columns(rules.diagnostics)), _no_rows(EPISODES)
    # Under an episode budget the block in which the last episode ended still ended in an outer iteration.
    iteration_steps = np.minimum((blocks + 1) * rules.block, before.steps + steps)
    diagnostics = page.diagnostics[blocks - page.first_block]
    reward, flags = page.reward[:steps], page.flags[:steps]
    after, curves = _windows(rules, before, reward, ends, iteration_steps, diagnostics)
    environments = None if page.environments is None else page.environments[:steps]
    open_, episodes = ended_episodes(before.open_episodes, reward, flags, environments)
    episodes["step"] += before.steps
    after = after._replace(
        steps=before.steps + steps,
        episodes=before.episodes + len(ends),
        truncated=before.truncated + int(np.count_nonzero(flags[ends] & TRUNCATED)),
        iterations=before.iterations + rules.updates * len(blocks),
        open_returns=open_.returns,
        open_lengths=open_.lengths,
    )
    return after, curves, episodes


def open_window(rules: Rules, carry: Carry) -> Columns:
    """The window that has not ended, as a row, if there is one."""
    width = carry.steps % rules.window
    if not width:
        return _no_rows(curve_columns(rules.diagnostics))
    total = carry.total + carry.window_reward if carry.steps > width else carry.window_reward
    return _curve_rows(
        rules,
        np.array([carry.steps]),
        np.array([carry.window_reward]) / width,
        np.array([total]) / carry.steps,
        np.array([carry.episodes]),
        means_of(carry.window_sums[None], carry.window_counts[None]),
        np.array([carry.iterations]),
    )


def _windows(
    rules: Rules,
    before: Carry,
    reward: np.ndarray,
    ends: np.ndarray,
    iteration_steps: np.ndarray,
    diagnostics: np.ndarray,
) -> tuple[Carry, Columns]:
    """The windows that ended, and the carry of the next."""
    first, steps, window = before.steps, len(reward), rules.window
    edges = np.arange((first // window + 1) * window, first + steps + 1, window)
    closed = len(edges)
    starts = np.append(0, edges - first)
    totals = np.zeros(closed + 1)
    some = starts < steps  # all but the last one, where a window ended with the page
    totals[some] = np.add.reduceat(reward, starts[some])
    made = np.append(np.searchsorted(iteration_steps, edges, side="right"), len(iteration_steps))
    sums, counts = _finite_sums(diagnostics, np.append(0, made[:-1]), made)
    if first % window:
        totals[0] = before.window_reward + totals[0]
        sums[0] = np.where(before.window_counts > 0, before.window_sums + sums[0], sums[0])
        counts[0] += before.window_counts
    cumulative = np.cumsum(totals[:closed])
    if closed and first >= window:
        cumulative = np.cumsum(np.append(before.total, totals[:closed]))[1:]
    rows = _curve_rows(
        rules,
        edges,
        totals[:closed] / window,
        cumulative / edges,
        before.episodes + np.searchsorted(ends, edges - first, side="left"),  # an end is where its step begins
        means_of(sums[:closed], counts[:closed]),
        before.iterations + rules.updates * made[:closed],
    )
    after = before._replace(
        total=float(cumulative[-1]) if closed else before.total,
        window_reward=float(totals[-1]),
        window_sums=sums[-1],
        window_counts=counts[-1],
    )
    return after, rows


def _finite_sums(values: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum and the number of the finite values of each range of rows, one range beginning where the last ended.

    The iteration that diverged was discarded: its queries count, but its values are not averaged.
    """
    finite = np.isfinite(values)
    sums, counts = np.zeros((2, len(starts), values.shape[1]))
    some = ends > starts
    if some.any():
        sums[some] = np.add.reduceat(np.where(finite, values, 0.0), starts[some])
        counts[some] = np.add.reduceat(finite, starts[some], dtype=float)
    return sums, counts


def means_of(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Means from sums and counts; NaN where nothing was counted."""
    means = sums / np.maximum(counts, 1)
    means[(counts == 0) | ~np.isfinite(means)] = np.nan
    return means


def _curve_rows(
    rules: Rules,
    step: np.ndarray,
    reward: np.ndarray,
    cumulative: np.ndarray,
    episodes: np.ndarray,
    means: np.ndarray,
    made: np.ndarray,
) -> Columns:
    columns = curve_columns(rules.diagnostics)
    return dict(zip(columns, (step, reward, cumulative, episodes, *means.T, made), strict=True))


def ended_episodes(
    open_: OpenEpisodes, reward: np.ndarray, flags: np.ndarray, environments: np.ndarray | None
) -> tuple[OpenEpisodes, Columns]:
    """The episodes that are open after some steps, and those that ended in them, in the order of their ends: the
    columns of `EPISODES`, with steps counted from the first of these.
    """
    order: Any = slice(None)  # in which an environment's steps lie side by side
    if environments is not None and (environments[1:] < environments[:-1]).any():
        order = np.argsort(environments, kind="stable")
    reward, flags = reward[order], flags[order]
    ended = (flags & (TERMINATED | TRUNCATED)) > 0
    breaks = ended[:-1] | ((flags[1:] & ANEW) > 0)
    if environments is not None:
        environments = environments[order]
        breaks |= environments[1:] != environments[:-1]
    # Every piece ends with its episode, or where that is left, or with the last of its environment's steps.
    starts = np.append(0, np.flatnonzero(breaks) + 1)
    ends = np.append(starts[1:], len(reward)) - 1
    environment = np.zeros(len(starts), int) if environments is None else environments[starts]
    first = np.append(True, environment[1:] != environment[:-1])  # the first piece of its environment
    returns, lengths = np.add.reduceat(reward, starts), ends - starts + 1
    continued = first & (open_.lengths[environment] > 0) & ((flags[starts] & ANEW) == 0)
    returns[continued] = open_.returns[environment[continued]] + returns[continued]
    lengths[continued] += open_.lengths[environment[continued]]

    whole = ended[ends]
    newest = np.append(first[1:], True)  # the last piece of its environment
    after = OpenEpisodes(open_.returns.copy(), open_.lengths.copy())
    after.returns[environment[newest]] = np.where(whole[newest], 0.0, returns[newest])
    after.lengths[environment[newest]] = np.where(whole[newest], 0, lengths[newest])

    ends = ends[whole]
    terminated = (flags[ends] & TERMINATED).astype(bool)
    rows = dict(zip(EPISODES, (ends + 1, returns[whole], lengths[whole], terminated), strict=True))
    if not isinstance(order, slice):
        rows["step"] = order[ends] + 1
        by_end = np.argsort(rows["step"])
        rows = {name: column[by_end] for name, column in rows.items()}
    return after, rows


def _no_rows(columns: dict[str, type]) -> Columns:
    return {name: np.zeros(0, kind) for name, kind in columns.items()}
