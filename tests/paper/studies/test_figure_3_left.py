import numpy as np
import pytest

from srgdqn.config.algorithms import PAPER
from srgdqn.figures.charts import GREY, data_of
from srgdqn.paper.scale import PAPER_SCALE
from srgdqn.paper.studies import figure_3_left
from synthetic_outcomes import planted_run

NAMES = (*PAPER, "random")
LENGTHS = {name: np.array([100.0, 200.0, 300.0]) * (1 + place) for place, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def outcomes() -> dict:
    found = {}
    for name, lengths in LENGTHS.items():
        algorithm, stops = ("dqn-sgd" if name == "random" else name), ({0: 150} if name == "svr-dqn" else None)
        run = planted_run("MountainCar", algorithm, np.zeros(3), lengths=lengths, diverged=stops, episodes=110)
        found[f"episodes-{name}-corrected"] = run
    return found


def test_both_yardsticks_are_run_at_the_papers_scale() -> None:
    names = [cell.name for cell in figure_3_left.cells(PAPER_SCALE, "corrected")]
    assert names == [f"episodes-{name}-corrected" for name in (*PAPER, "random", "untrained")]


def test_a_diverged_round_has_the_longest(outcomes: dict) -> None:
    """The longest round that finished is SRG-DQN's; the random policy's mean is shorter."""
    found = figure_3_left.length_scores(figure_3_left.runs_of(outcomes, "corrected"))
    assert LENGTHS["srg-dqn"].max() == 1_200 > LENGTHS["random"].mean()
    np.testing.assert_allclose(found["svr-dqn"].values, [1_200, 400, 600])
    np.testing.assert_allclose(found["srg-dqn"].values, LENGTHS["srg-dqn"])


def test_the_section_shows_planted_lengths(outcomes: dict) -> None:
    section = figure_3_left.show(PAPER_SCALE, ("corrected",), outcomes)
    rows = {row["algorithm"]: row for row in section.tables[0].frame.to_dicts()}
    assert rows["srg-dqn"]["mean length [95 %]"].startswith("800 [400, 1200]")
    assert rows["srg-dqn"]["sd of finished rounds"] == "400"
    assert rows["svr-dqn"]["diverged"] == "1 of 3 [6 %, 79 %]"
    assert rows["svr-dqn"]["mean length [95 %]"].startswith("733 [")  # of 1,200, 400 and 600
    assert rows["srg-dqn"]["cut at 2,000"] == f"{100 * (110 // 3) / 110:.0f} %"
    points = data_of(section.charts[0]).filter(series="srg-dqn")
    np.testing.assert_array_equal(points["episodes"], np.arange(1, 111))
    np.testing.assert_allclose(points["y"], 800)
    np.testing.assert_allclose(points["low"], 400)
    (panel,) = section.charts[0].panels
    assert panel.log_y
    looks = {series.label: (series.shown, series.style.color) for series in panel.series}
    assert looks["random"] == (True, GREY)
    # Its first episode of 200 steps would have ended after it diverged: from the first on it has the longest there.
    svr, survivors = (series for series in panel.series if series.label.startswith("svr-dqn"))
    np.testing.assert_allclose(svr.y, (1_200 + 400 + 600) / 3)
    assert (svr.note, svr.style.dashes) == ("2 of 3 left", "--")
    np.testing.assert_allclose(survivors.y, 500)
    assert not survivors.shown
    assert "SRG-DQN 800 [" in section.found
    assert section.charts[0].caption.endswith("Rounds that diverged: svr-dqn 1 of 3; none of the others.")
