import itertools
from typing import Any

import numpy as np
import pytest

from srgdqn.config.algorithms import ALGORITHMS, PAPER
from srgdqn.config.presets import PRESETS
from srgdqn.paper import tuning
from srgdqn.paper.scale import CONFIRMATORY, QUICK
from srgdqn.paper.studies.figure_2 import TASKS
from srgdqn.paper.tuning import (
    ARMS,
    Candidate,
    candidates,
    choose,
    tuned_cells,
    tuned_table,
    tuning_cells,
)
from synthetic_outcomes import planted_run


def test_every_arm_has_as_many_different_candidates() -> None:
    for arm in ARMS:
        assert len(set(candidates(arm))) == len(candidates(arm)) == 15, arm
    assert set(PAPER) <= set(ARMS)


@pytest.mark.parametrize("arm", ARMS)
def test_only_step_sizes_that_count_are_varied(arm: str) -> None:
    """η where steps go along the gradient, α where there is Adam."""
    etas, alphas = ({getattr(each, name) for each in candidates(arm)} for name in ("eta", "alpha"))
    uses_eta = ALGORITHMS[arm].options.get("step") != "adam"
    uses_alpha = ALGORITHMS[arm].options["adam_process"] or not uses_eta
    assert (len(etas) > 1) == uses_eta
    assert (len(alphas) > 1) == uses_alpha
    if not uses_eta:
        assert etas == {1.0}
    if not uses_alpha:
        assert alphas == {1.0}
    # The paper's own step sizes are among them, with smaller and larger ones on either side.
    assert Candidate(1.0, 1.0) in candidates(arm)
    for factors in (etas, alphas):
        assert min(factors) < 1.0 < max(factors) or factors == {1.0}


def test_candidates_are_tried_on_pilot_seeds_and_chosen_ones_on_fresh_seeds() -> None:
    searched = tuning_cells(CONFIRMATORY)
    assert len(searched) == len(TASKS) * len(ARMS) * 15
    assert len({cell.name for cell in searched}) == len(searched)
    assert {cell.configuration.training.seed for cell in searched} == {tuning.TUNING_SEED}
    assert len({cell.configuration.training.rounds for cell in searched}) == 1  # the same budget for every arm
    chosen = {(task, arm): Candidate(0.5, 2.0) for task, arm in itertools.product(TASKS, ARMS)}
    final = {cell.name: cell.configuration for cell in tuned_cells(CONFIRMATORY, chosen)}
    assert len(final) == len(TASKS) * (len(ARMS) + 1)
    assert {each.training.seed for each in final.values()} == {tuning.TUNED_SEED}
    assert tuning.TUNED_SEED not in (tuning.TUNING_SEED, CONFIRMATORY.seed, 0)
    for task in TASKS:
        training = final[f"{task}-srg-dqn-tuned"].training
        assert (training.steps, training.episodes) == (PRESETS[task].get("steps"), PRESETS[task].get("episodes"))
        assert final[f"{task}-srg-dqn-tuned"].optimiser.eta == pytest.approx(0.5 * PRESETS[task]["eta"])
        assert final[f"{task}-srg-dqn-tuned"].optimiser.alpha == pytest.approx(2 * PRESETS[task]["alpha"])
        random = final[f"{task}-random-tuned"].options()
        assert (random["eta"], random["epsilon_start"], random["epsilon_end"]) == (0.0, 1.0, 1.0)


@pytest.fixture(scope="module")
def searched() -> dict[str, Any]:
    """Candidate number 5 of each arm is the best, unless it diverges, as it does on CartPole."""
    outcomes = {}
    for task, arm in itertools.product(TASKS, ARMS):
        for index in range(15):
            level = 3.0 if index == 5 else index / 10
            stops = {0: 2_000, 1: 2_000} if task == "CartPole" and index == 5 else None
            outcomes[f"tuning-{task}-{arm}-{index:02d}"] = planted_run(task, arm, [level] * 2, diverged=stops)
    return outcomes


def test_the_best_is_chosen_and_divergence_scores_as_the_random_policy(searched: dict[str, Any]) -> None:
    worst = choose(searched, {"MountainCar": 0.0, "Pendulum": 0.0, "CartPole": -1.0})
    lucky = choose(searched, {"MountainCar": 0.0, "Pendulum": 0.0, "CartPole": 2.0})
    for arm in ARMS:
        assert worst["MountainCar", arm] == worst["Pendulum", arm] == candidates(arm)[5]
        assert worst["CartPole", arm] == candidates(arm)[14]
        assert lucky["CartPole", arm] == candidates(arm)[5]


def test_the_table_shows_what_was_chosen_and_what_it_came_to() -> None:
    chosen = {(task, arm): Candidate(0.1, 3.0) for task, arm in itertools.product(TASKS, ARMS)}
    outcomes = {}
    for cell in tuned_cells(QUICK, chosen):
        options = cell.configuration.options()
        step_sizes = {name: options[name] for name in ("eta", "alpha")}
        algorithm, stops = cell.configuration.algorithm, {2: 2_000} if "Pendulum-srg-dqn-tuned" in cell.name else None
        level = 0.5 if "random" in cell.name else 2.0
        run = planted_run(options["task"], algorithm, level + np.arange(3.0), diverged=stops, **step_sizes)
        outcomes[cell.name] = run
    rows = {(row["task"], row["algorithm"]): row for row in tuned_table(outcomes).frame.to_dicts()}
    assert len(rows) == len(TASKS) * (len(ARMS) + 1)
    row = rows["MountainCar", "svr-dqn"]
    assert (row["η"], row["α"], row["score"][:7]) == ("0.001", "0.003*", "3.000 [")  # α is at its grid's edge
    assert rows["Pendulum", "random"]["η"] == "none"
    lost = rows["Pendulum", "srg-dqn"]
    assert lost["diverged"] == "1 of 3 [6 %, 79 %]"
    assert lost["score"].startswith(f"{(2.0 + 3.0 + 1.5) / 3:.3f} [")  # the random policy's 1.5 is worse than 2
