import numpy as np
import pytest

from srgdqn.figures.charts import STYLES
from srgdqn.figures.learning_panels import default_axes, learning_panel
from srgdqn.results.curves import AXES, curve
from synthetic_runs import synthetic


def test_series_have_positions_along_every_axis() -> None:
    results = [
        synthetic(algorithm=name, rounds=3, steps=5_000, noise=k) for k, name in enumerate(("srg-dqn", "dqn-sgd"))
    ]
    panel = learning_panel(results, group="corrected", band="sd")
    assert list(panel.x_labels) == ["steps", "queries", "seconds"]
    for result, series in zip(results, panel.series, strict=True):
        assert series.group == "corrected"
        for axis in panel.x_labels:
            np.testing.assert_array_equal(series.x[axis], curve(result, x=axis).x)  # type: ignore[arg-type]
        np.testing.assert_array_equal(series.y, curve(result).mean())
        np.testing.assert_array_equal([series.low, series.high], curve(result).sd_band())


def test_budgets_in_episodes_have_episodes_first() -> None:
    result = synthetic("CartPole", rounds=2, episodes=20)
    assert default_axes([result]) == AXES
    panel = learning_panel([result], band="none")
    assert next(iter(panel.x_labels)) == "episodes"
    np.testing.assert_array_equal(panel.series[0].x["episodes"], np.arange(1, 21))
    assert panel.series[0].low is None


def test_a_label_with_a_style_has_it_whatever_its_algorithm() -> None:
    results = [synthetic(algorithm="dqn-sgd", rounds=2, steps=2_000, seed=seed) for seed in (0, 1)]
    first, second = learning_panel(results, labels=("dqn-sgd", "random")).series
    assert (first.style, second.style) == (STYLES["dqn-sgd"], STYLES["random"])


@pytest.mark.parametrize(("counted", "label"), [(False, "srg-dqn"), (True, "srg-dqn (1 of 2 diverged)")])
def test_diverged_rounds_are_counted_on_request(counted: bool, label: str) -> None:
    result = synthetic(rounds=2, steps=4_000, diverged={1: 1_504})
    assert learning_panel([result], count_diverged=counted).series[0].label == label
