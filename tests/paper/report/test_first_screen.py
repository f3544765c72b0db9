import math

import numpy as np
import pytest

from srgdqn.figures.charts import data_of
from srgdqn.figures.images import draw_chart
from srgdqn.paper.report.contents import ClaimCard, FirstScreen, Verdict
from srgdqn.paper.report.first_screen import Difference, Score, counts_of, forest_chart, score_table
from srgdqn.results.statistics import Interval
from synthetic_report import synthetic_cards, synthetic_first_screen


def card(name: str, verdicts: dict[str, Verdict]) -> ClaimCard:
    return ClaimCard(name, "", "", "", verdicts, {}, {})


def test_every_set_counts_its_own_claims() -> None:
    cards = [
        card("C1", {"corrected": "holds", "mnih": "moot"}),
        card("C2", {"corrected": "holds", "mnih": "fails"}),
        card("C3", {"corrected": "undecided"}),
    ]
    assert counts_of(cards) == {
        "corrected": {"holds": 2, "fails": 0, "undecided": 1, "moot": 0},
        "mnih": {"holds": 0, "fails": 1, "undecided": 0, "moot": 1},
    }
    assert counts_of([]) == {}


def test_scores_stand_by_task_with_what_diverged_beside_them() -> None:
    scores = {
        "MountainCar": {"random policy": Score(0.3114), "SRG-DQN": Score(0.318, 0.0)},
        "Pendulum": {"SRG-DQN": Score(-3.512, 0.4475), "best control": Score(-1.0, 0.0, "dqn-adam")},
    }
    table = score_table("scores", "Scores", scores, {"MountainCar": 3, "Pendulum": 2}, "Note.")
    assert table.frame.columns == ["task", "random policy", "SRG-DQN", "best control"]
    assert table.frame.rows() == [
        ("MountainCar", "0.311", "0.318", None),
        ("Pendulum", None, "−3.51 (45 %)", "−1.00 (0 %) dqn-adam"),
    ]


def difference(panel: str, readings: str, against: str, *bounds: float) -> Difference:
    return Difference(panel, "reward per action", readings, against, Interval(*bounds))


def test_the_forest_has_a_row_for_each_difference_that_can_be_computed() -> None:
    chart = forest_chart(
        "forest",
        "Title",
        "Caption",
        [
            difference("Pendulum", "corrected", "SGD", 4.0, 3.5, 4.5),
            difference("Pendulum", "corrected", "SVR-DQN", -1.9, -2.2, -1.5),
            difference("Pendulum", "mnih", "SVR-DQN", 0.6, 0.5, 0.7),
            difference("Pendulum", "mnih", "SGD", math.nan, math.nan, math.nan),
            difference("CartPole", "mnih", "SGD", 1.0, 0.5, math.inf),
        ],
    )
    (panel,) = chart.panels
    assert panel.horizontal
    assert panel.categories == ("SGD", "SVR-DQN")
    assert panel.y_label == "SRG-DQN minus other\n(reward per action)"
    assert data_of(chart).select("group", "against", "y", "low", "high").rows() == [
        ("corrected", 0, 4.0, 3.5, 4.5),
        ("corrected", 1, -1.9, -2.2, -1.5),
        ("mnih", 1, 0.6, 0.5, 0.7),
    ]
    assert len({series.style.color for series in panel.series}) == 2


def test_a_single_set_of_readings_is_named_in_the_legend_and_needs_no_switch() -> None:
    (panel,) = forest_chart("forest", "", "", [difference("Pendulum", "corrected", "SGD", 4.0, 3.5, 4.5)]).panels
    assert [(series.label, series.group) for series in panel.series] == [("corrected", "")]
    assert forest_chart("forest", "", "", []).panels == ()


def test_an_image_has_rows_from_top_to_bottom_and_a_line_at_nothing() -> None:
    chart = forest_chart(
        "forest",
        "",
        "",
        [
            difference("Pendulum", "corrected", "SGD", 4.0, 3.5, 4.5),
            difference("Pendulum", "corrected", "SVR-DQN", -1.9, -2.2, -1.5),
            difference("Pendulum", "mnih", "SVR-DQN", 0.6, 0.5, 0.7),
        ],
    )
    (axes,) = draw_chart(chart).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["SGD", "SVR-DQN"]
    bottom, top = axes.get_ylim()
    assert bottom > top  # the first is on top
    assert axes.get_xlabel() == "SRG-DQN minus other\n(reward per action)"
    corrected, mnih, nothing = axes.lines
    np.testing.assert_allclose(corrected.get_xdata(), [4.0, -1.9])
    np.testing.assert_allclose(corrected.get_ydata(), [-0.2, 0.8])
    np.testing.assert_allclose(mnih.get_ydata(), [1.2])
    assert list(nothing.get_xdata()) == [0, 0]
    (first, second), *_ = (each.get_segments() for each in axes.collections)
    np.testing.assert_allclose(first, [[3.5, -0.2], [4.5, -0.2]])
    np.testing.assert_allclose(second, [[-2.2, 0.8], [-1.5, 0.8]])


def test_more_than_three_sentences_are_refused() -> None:
    first = synthetic_first_screen(synthetic_cards())
    FirstScreen(first.claim, {}, "", ("One.", "Two.", "Three."), first.table, first.forest)
    with pytest.raises(ValueError, match="the answer has 4 sentences: use at most 3"):
        FirstScreen(first.claim, {}, "", ("One.", "Two.", "Three.", "Four."), first.table, first.forest)
