import json

import pytest

from srgdqn.cli import main
from srgdqn.cli.listing import direction_formula, queries_formula
from srgdqn.config.algorithms import ALGORITHMS, READINGS
from srgdqn.config.configure import configure
from srgdqn.config.discovery import estimator_names
from srgdqn.config.presets import HOST_PRESETS, PRESETS


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_formulas_are_the_queries_that_are_counted(algorithm: str) -> None:
    from srgdqn.learner.outer_iteration import queries_per_iteration

    for n, m, b in [(64, 16, 1), (32, 5, 3)]:
        configuration = configure("MountainCar", algorithm, batch_size=n, inner_iterations=m, inner_batch=b)
        formula = queries_formula(algorithm).replace("2bM", f"2*{b}*{m}").replace("bM", f"{b}*{m}")
        formula = formula.replace("NM", f"{n}*{m}").replace("2N", f"2*{n}").replace("N", str(n))
        assert eval(formula) == queries_per_iteration(configuration)


def test_everything_there_is_is_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["list"]) == 0
    text = capsys.readouterr().out
    for name, algorithm in ALGORITHMS.items():
        (line,) = (line for line in text.splitlines() if line.split()[:1] == [name])
        assert algorithm.summary in line
        assert queries_formula(name) in line
    for name in (*PRESETS, *HOST_PRESETS, *READINGS, *map(direction_formula, estimator_names())):
        assert name in text
    assert "100,000 steps" in text


def test_the_list_is_json_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["tasks"]["CartPole"]["hidden"] == [8]
    assert listed["environments"]["Pendulum-v1"]["action_bins"] == 12
    assert listed["algorithms"]["srg-dqn"]["queries"] == "N + 2bM"
    assert listed["readings"]["printed"]["adam_denominator"] == "norm"
    assert listed["estimators"].keys() == set(estimator_names())
