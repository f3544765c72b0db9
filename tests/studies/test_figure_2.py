import numpy as np
import pytest
from matplotlib.colors import to_rgb

from srgdqn.algorithms import ALGORITHMS, PAPER
from srgdqn.presets import FIGURE_2_ROUNDS
from srgdqn.result import Result
from srgdqn.studies import figure_2
from srgdqn.studies.scores import final_scores
from synthetic_runs import synthetic


def test_cells_are_at_the_papers_own_scale() -> None:
    cells = {cell.name: cell.configuration for cell in figure_2.cells("corrected")}
    assert len(cells) == 3 * (4 + 1)
    car, pendulum = cells["MountainCar-srg-dqn-corrected"], cells["Pendulum-svr-dqn-corrected"]
    pole = cells["CartPole-dqn-sgd-corrected"]
    assert (car.training.rounds, car.training.steps, car.replay.batch_size) == (50, 100_000, 64)
    assert (pendulum.training.rounds, pendulum.training.steps, pendulum.replay.batch_size) == (50, 20_000, 32)
    assert (pole.training.rounds, pole.training.episodes, pole.network.hidden) == (10, 800, (8,))
    assert {c.readings for c in cells.values()} == {"corrected"}
    assert len(figure_2.cells("printed", tuple(ALGORITHMS))) == 3 * (13 + 1)


def test_the_random_policy_always_explores_and_never_learns() -> None:
    (random,) = (cell for cell in figure_2.cells("corrected") if cell.name == "Pendulum-random-corrected")
    options = random.configuration.options()
    assert (options["epsilon_start"], options["epsilon_end"], options["eta"]) == (1.0, 1.0, 0.0)
    assert not options["adam_process"]


@pytest.mark.parametrize("task", ["MountainCar", "CartPole"])
def test_final_scores_against_plain_loops(task: str) -> None:
    options = dict(rounds=4, steps=20_000) if task == "MountainCar" else dict(rounds=4, episodes=150)
    result = synthetic(task, "svr-dqn", diverged={2: 7_000}, noise=3, **options)
    expected = []
    for number in range(4):
        if number == 2:
            expected.append(-1.5)
        elif task == "MountainCar":
            rows = [row for row in result.curves.iter_rows(named=True) if row["round"] == number]
            expected.append(np.mean([row["reward"] for row in rows if row["step"] > 16_000]))
        else:
            rows = [row for row in result.episodes.iter_rows(named=True) if row["round"] == number]
            expected.append(np.mean([row["return"] for row in rows][-100:]))
    np.testing.assert_allclose(final_scores(result, -1.5), expected, rtol=1e-12)


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    made = {}
    for task in FIGURE_2_ROUNDS:
        budget = dict(episodes=120) if task == "CartPole" else dict(steps=10_000)
        for index, algorithm in enumerate((*PAPER, "random")):
            name = "dqn-sgd" if algorithm == "random" else algorithm
            diverged = {1: 3_000} if (task, algorithm) == ("Pendulum", "srg-dqn") else None
            run = synthetic(task, name, rounds=5, noise=index, level=index, diverged=diverged, **budget)
            made[f"{task}-{algorithm}-corrected"] = run
    return made


def test_contrasts_are_paired_differences_of_final_scores(results: dict[str, Result]) -> None:
    found = {(c.task, c.against): c for c in figure_2.contrasts(results, "corrected")}
    assert len(found) == 9
    chance = final_scores(results["Pendulum-random-corrected"], np.nan).mean()
    mine = final_scores(results["Pendulum-srg-dqn-corrected"], chance)
    assert mine[1] == chance  # the round that diverged scores as the random policy
    theirs = final_scores(results["Pendulum-dqn-sgd-corrected"], chance)
    contrast = found["Pendulum", "dqn-sgd"]
    assert contrast.difference.estimate == pytest.approx((mine - theirs).mean())
    assert contrast.difference.low <= contrast.difference.estimate <= contrast.difference.high
    ratio = np.log(np.std(mine, ddof=1) / np.std(theirs, ddof=1))
    assert contrast.log_sd_ratio.estimate == pytest.approx(ratio)
    assert (contrast.champion_diverged, contrast.diverged) == (1, 0)
    # Levels rise with the algorithm's place, so SRG-DQN is last and ahead of all.
    assert all(found["MountainCar", name].difference.low > 0 for name in PAPER if name != "srg-dqn")


def test_tables_hold_every_contrast(results: dict[str, Result]) -> None:
    found = figure_2.contrasts(results, "corrected")
    table = figure_2.as_table(found)
    assert table["difference_estimate"].to_list() == [contrast.difference.estimate for contrast in found]
    lines = figure_2.as_markdown(found).splitlines()
    assert len(lines) == 2 + len(found)
    assert f"{found[0].difference.estimate:+.3f}" in lines[2]


def test_the_figure_has_the_papers_panels_colours_and_bands(results: dict[str, Result]) -> None:
    panels = figure_2.draw(results, "corrected").axes
    assert [axes.get_title() for axes in panels] == ["MountainCar", "Pendulum", "CartPole"]
    for axes in panels:
        assert len(axes.lines) == 4
        assert len(axes.collections) == 3  # DQN with SGD is drawn without its band
        blue, green, purple, orange = (to_rgb(line.get_color()) for line in axes.lines)
        assert max(blue) == blue[2]
        assert max(green) == green[1]
        assert purple[0] > purple[1] < purple[2]
        assert orange[0] > orange[1] > orange[2]
