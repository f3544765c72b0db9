"""Every branch of the selection on made-up outcomes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.paper.halving import (
    DIVERGED_MARK,
    PAPERS_OWN,
    Candidate,
    Choice,
    Grid,
    Trial,
    Wanted,
    kept,
    next_step,
    ranked,
)

BOTH = Grid((-2, 2), (-2, 2))
LINE = Grid((-2, 2), (0, 0))

World = Callable[[int, Candidate], Trial]
"""What a candidate comes to in a stage."""


def search(grid: Grid, world: World, stages: int = 3, by: int = 1) -> tuple[Choice, list[Wanted]]:
    """The choice in a world, and everything that had to run for it."""
    tables: list[dict[Candidate, Trial]] = [{} for _ in range(stages)]
    asked: list[Wanted] = []
    while isinstance(step := next_step(grid, tables, by), Wanted):
        asked.append(step)
        for candidate in step.candidates:
            assert candidate not in tables[step.stage]  # nothing runs twice
            tables[step.stage][candidate] = world(step.stage, candidate)
    return step, asked


def peak(eta: int, alpha: int = 0) -> World:
    """The nearer to a point, the better; nothing diverges."""
    return lambda stage, each: Trial(-float((each.eta - eta) ** 2 + (each.alpha - alpha) ** 2), 0.0)


def entered(asked: list[Wanted], stage: int) -> set[Candidate]:
    return {candidate for wanted in asked if wanted.stage == stage for candidate in wanted.candidates}


def test_a_peak_within_the_grid_is_found_by_thirds() -> None:
    choice, asked = search(BOTH, peak(1, -1))
    assert choice == Choice(Candidate(1, -1), Trial(0.0, 0.0), BOTH, 0, ())
    assert choice.marks == ()
    assert [(wanted.stage, len(wanted.candidates)) for wanted in asked] == [(0, 25), (1, 9), (2, 4)]
    # The nearest nine are the peak and its neighbours; of those next to it the first in order enter the last stage.
    assert entered(asked, 1) == {Candidate(eta, alpha) for eta in (0, 1, 2) for alpha in (-2, -1, 0)}
    assert entered(asked, 2) == {Candidate(1, -1), Candidate(0, -1), Candidate(1, 0), PAPERS_OWN}


def test_the_papers_own_settings_enter_the_last_stage_though_they_are_the_worst() -> None:
    def world(stage: int, each: Candidate) -> Trial:
        return Trial(-100.0 if each == PAPERS_OWN and stage < 2 else -float(abs(each.eta - 1) + abs(each.alpha)), 0.0)

    _, asked = search(BOTH, world)
    assert PAPERS_OWN not in entered(asked, 1)
    assert PAPERS_OWN in entered(asked, 2)


def test_the_papers_own_settings_are_chosen_if_they_win_there() -> None:
    def world(stage: int, each: Candidate) -> Trial:
        own = each == PAPERS_OWN
        return Trial((9.0 if stage == 2 else -9.0) if own else -float(abs(each.eta - 1)), 0.0)

    choice, _ = search(BOTH, world)
    assert (choice.candidate, choice.trial.score) == (PAPERS_OWN, 9.0)


@pytest.mark.parametrize(
    ("at", "grid"),
    [
        (Candidate(3, 0), Grid((-2, 4), (-2, 2))),
        (Candidate(-3, 0), Grid((-4, 2), (-2, 2))),
        (Candidate(0, 3), Grid((-2, 2), (-2, 4))),
        (Candidate(0, -3), Grid((-2, 2), (-4, 2))),
        (Candidate(3, -3), Grid((-2, 4), (-4, 2))),  # a corner is two sides
    ],
)
def test_the_grid_is_widened_on_the_side_of_the_best(at: Candidate, grid: Grid) -> None:
    choice, asked = search(BOTH, peak(*at))
    assert (choice.candidate, choice.grid, choice.widenings, choice.edges) == (at, grid, 2, ())
    assert entered(asked, 0) == set(grid.candidates())


@pytest.mark.parametrize(
    ("at", "sides", "mark"),
    [
        (Candidate(9, 0), (("eta", "high"),), "η at the high edge of its grid"),
        (Candidate(-9, 0), (("eta", "low"),), "η at the low edge of its grid"),
        (Candidate(0, 9), (("alpha", "high"),), "α at the high edge of its grid"),
        (Candidate(0, -9), (("alpha", "low"),), "α at the low edge of its grid"),
    ],
)
def test_after_three_widenings_an_edge_is_marked(at: Candidate, sides: tuple, mark: str) -> None:
    choice, _ = search(BOTH, peak(*at))
    reached = Candidate(*(max(-5, min(5, each)) for each in at))
    assert (choice.candidate, choice.widenings, choice.edges) == (reached, 3, sides)
    assert choice.marks == (mark,)


def test_a_peak_just_inside_the_third_widening_is_not_marked() -> None:
    choice, _ = search(BOTH, peak(4))
    assert (choice.candidate, choice.widenings, choice.marks) == (Candidate(4, 0), 3, ())


def test_a_fine_grid_is_widened_by_several_values_at_a_time() -> None:
    choice, _ = search(Grid((-4, 4), (0, 0)), peak(7), by=2)
    assert (choice.candidate, choice.grid, choice.widenings) == (Candidate(7, 0), Grid((-4, 8), (0, 0)), 2)
    far, _ = search(Grid((-4, 4), (0, 0)), peak(99), by=2)
    assert (far.candidate, far.edges) == (Candidate(10, 0), (("eta", "high"),))


def test_it_is_the_last_stages_choice_that_widens() -> None:
    """In the first stage the best lies at an edge by luck."""

    def world(stage: int, each: Candidate) -> Trial:
        lucky = stage == 0 and each == Candidate(2, 0)
        return Trial(1.0 if lucky else -float(abs(each.eta) + abs(each.alpha)), 0.0)

    choice, _ = search(BOTH, world)
    assert (choice.candidate, choice.widenings) == (PAPERS_OWN, 0)


@pytest.mark.parametrize(("grid", "other"), [(LINE, "alpha"), (Grid((0, 0), (-2, 2)), "eta")])
def test_an_arm_with_one_step_size_has_a_line(grid: Grid, other: str) -> None:
    at = {"alpha": Candidate(3, 0), "eta": Candidate(0, 3)}[other]
    choice, asked = search(grid, peak(*at))
    assert (choice.candidate, choice.widenings, choice.marks) == (at, 2, ())
    assert [len(wanted.candidates) for wanted in asked[:3]] == [5, 3, 3]
    assert {getattr(each, other) for wanted in asked for each in wanted.candidates} == {0}
    far, _ = search(grid, peak(*(3 * each for each in at)))
    assert len(far.marks) == 1


def test_ties_go_to_the_nearest_of_the_papers_own_settings() -> None:
    for grid in (BOTH, LINE):
        choice, asked = search(grid, lambda stage, each: Trial(1.0, 0.0))
        assert (choice.candidate, choice.widenings) == (PAPERS_OWN, 0)
    assert asked[1].candidates == (Candidate(0, 0), Candidate(-1, 0), Candidate(1, 0))
    assert BOTH.candidates()[:5] == [PAPERS_OWN, (-1, 0), (0, -1), (0, 1), (1, 0)]


# Divergence


def test_more_than_a_twentieth_of_the_rounds_bars_the_best() -> None:
    def world(stage: int, each: Candidate) -> Trial:
        return Trial(float(each.eta), 0.06 if each.eta > 0 else 0.05)

    choice, _ = search(LINE, world)
    assert (choice.candidate, choice.trial.barred, choice.marks) == (PAPERS_OWN, False, ())


def test_a_candidate_that_diverges_only_in_the_last_stage_is_not_chosen_either() -> None:
    def world(stage: int, each: Candidate) -> Trial:
        return Trial(-float(abs(each.eta - 1)), 0.1 if stage == 2 and each.eta == 1 else 0.0)

    assert search(LINE, world)[0].candidate == PAPERS_OWN


def test_where_all_diverge_the_least_diverged_is_chosen_and_marked() -> None:
    def world(stage: int, each: Candidate) -> Trial:
        return Trial(float(abs(each.eta)), 0.2 + 0.1 * abs(each.eta - 1))

    choice, _ = search(LINE, world)
    assert (choice.candidate, choice.widenings) == (Candidate(1, 0), 0)
    assert choice.marks == (DIVERGED_MARK,)


def test_where_all_diverge_equally_the_better_and_then_the_first_is_chosen() -> None:
    better, _ = search(LINE, lambda stage, each: Trial(1.0 if each.eta == 1 else 0.0, 1.0))
    assert better.candidate == Candidate(1, 0)
    first, _ = search(LINE, lambda stage, each: Trial(0.0, 1.0))
    assert (first.candidate, first.marks) == (PAPERS_OWN, (DIVERGED_MARK,))


def test_divergence_at_large_steps_widens_the_grid_to_smaller_ones() -> None:
    """Only η far below the paper's is free of divergence: it is reached, though all of the first grid is barred."""

    def world(stage: int, each: Candidate) -> Trial:
        return Trial(float(each.eta), min(1.0, max(0.0, 0.2 * (each.eta + 4))))

    choice, _ = search(BOTH, world)
    assert (choice.candidate.eta, choice.widenings, choice.marks) == (-4, 3, ())


def test_an_edge_and_divergence_are_both_marked() -> None:
    choice, _ = search(LINE, lambda stage, each: Trial(0.0, min(1.0, 0.8 + 0.02 * each.eta)))
    assert (choice.candidate, choice.widenings) == (Candidate(-5, 0), 3)
    assert choice.marks == ("η at the low edge of its grid", DIVERGED_MARK)


@given(
    st.dictionaries(
        st.builds(Candidate, st.integers(-3, 3), st.integers(-3, 3)),
        st.builds(Trial, st.integers(-3, 3).map(float), st.sampled_from([0.0, 0.05, 0.1, 1.0])),
        min_size=2,
    )
)
def test_the_ranking_never_prefers_the_diverged_nor_the_lower(trials: dict[Candidate, Trial]) -> None:
    order = ranked(trials)
    assert set(order) == set(trials)
    for one, next_ in itertools.pairwise(order):
        ours, theirs = trials[one], trials[next_]
        assert ours.barred <= theirs.barred
        if not theirs.barred:
            assert ours.score >= theirs.score
        if ours.barred:
            assert (ours.diverged, -ours.score) <= (theirs.diverged, -theirs.score)


@pytest.mark.parametrize(("count", "left"), [(1, 1), (3, 3), (5, 3), (9, 3), (10, 4), (25, 9), (45, 15)])
def test_a_third_survives_and_three_at_least(count: int, left: int) -> None:
    assert kept(count) == left


def test_a_single_stage_is_enough() -> None:
    choice, asked = search(LINE, peak(1), stages=1)
    assert choice.candidate == Candidate(1, 0)
    assert len(asked) == 1
