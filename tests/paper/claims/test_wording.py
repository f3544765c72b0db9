"""What a reader is told of contrasts, on made-up ones and on those that were released."""

from __future__ import annotations

import math

import pytest

from srgdqn.paper.claims.cases import REASON
from srgdqn.paper.claims.evidence import find_evidence
from srgdqn.paper.claims.verdicts import LOG_MARGIN, MARGINS, REWARDS, STEADY, Judgement, Measured, Unit
from srgdqn.paper.claims.wording import effect_text, parts_of
from srgdqn.results.statistics import Interval

RELEASED = find_evidence("confirmation")


def measured(label: str, *bounds: float, p: tuple[float, float] = (0.5, 0.5), **about: object) -> Measured:
    unit = about.pop("unit", REWARDS["CartPole"])
    margin = LOG_MARGIN if unit.is_log else 0.2  # type: ignore[attr-defined]
    return Measured(label, Interval(*bounds), *p, margin, unit, **about)  # type: ignore[arg-type]


def test_a_margin_that_the_rule_adds_is_not_part_of_the_effect() -> None:
    delta = MARGINS["CartPole"]
    contrast = measured("return not below that of svr-dqn", -3.0 + delta, -4.0 + delta, -2.0 + delta, part="reward")
    assert effect_text(contrast) == "−3.0 return per episode beside SVR-DQN [−4.0, −2.0]"


def test_a_share_is_told_whole() -> None:
    unit = Unit("of the squared error, beyond 5 %")
    contrast = measured("share of unseen transitions", 0.5 - REASON, 0.4 - REASON, 0.6 - REASON, unit=unit)
    assert effect_text(contrast) == "unseen transitions: 50 % of the squared error [40, 60]"


@pytest.mark.parametrize(
    ("contrast", "expected"),
    [
        (
            measured("final reward over dqn-sgd", 0.0404, 0.0354, 0.0454, unit=REWARDS["MountainCar"]),
            "+0.0404 reward per action beside DQN with SGD [+0.0354, +0.0454]",
        ),
        (
            measured("steadiness beside srg-dqn-no-adam", *map(math.log, (0.8, 0.7, 0.9)), unit=STEADY),
            "0.80 times as steady as SRG without Adam [0.70, 0.90]",
        ),
        (
            measured("steadiness beside svr-dqn: diverged rounds", 0.447, 0.416, 0.478, unit=Unit("more")),
            "45 points more of its rounds diverge than of SVR-DQN's [42, 48]",
        ),
        (
            measured("queries of SVRG beside SRG's, convex, theory η", *[math.log(22)] * 3, unit=Unit("", is_log=True)),
            "at the theory's η: convex problem: SVRG needs at least 22 times SRG's queries in every replication",
        ),
        (
            measured("queries of SVRG beside SRG's, network, theory η", 1.0, 0.9, 1.1, unit=Unit("", is_log=True)),
            "at the theory's η: small network: SVRG needs 2.72 times SRG's queries [2.46, 3.00]",
        ),
        (
            measured("queries of SVRG beside SRG's, network, tuned η", *[0.0] * 3, unit=Unit("", is_log=True)),
            "at the tuned η: small network: SVRG needs 1.00 times SRG's queries [1.00, 1.00]",
        ),
        (
            measured("return not below that of svr-dqn", *[math.nan] * 3, void="97% and 95% of the rounds diverged"),
            "not compared with SVR-DQN: 97 % and 95 % of the rounds diverged",
        ),
        (
            measured("the inequality is violated in 2 of 12 settings", *[math.nan] * 3, unit=Unit("")),
            "the inequality is violated in 2 of 12 settings",
        ),
        (measured("reward that the Adam process adds", *[math.nan] * 3), "what the Adam process adds: an unknown "),
    ],
)
def test_effects_in_words(contrast: Measured, expected: str) -> None:
    assert effect_text(contrast).startswith(expected)


def test_every_released_contrast_has_words_of_its_own() -> None:
    assert RELEASED is not None
    for judgements in RELEASED.judgements.values():
        for judgement in judgements:
            for contrast in judgement.contrasts:
                assert contrast.label not in effect_text(contrast)
                assert "unknown" not in effect_text(contrast)


def test_parts_that_differ_are_told_apart() -> None:
    faster = measured("area under the evaluation curve", 0.5, 0.4, 0.6, p=(1e-5, 1.0), part="speed")
    wilder = measured("steadiness over rounds", -1.0, -1.2, -0.8, p=(1.0, 1e-5), unit=STEADY, part="steadiness")
    unclear = measured("mean of the last 20 %", 0.1, -0.1, 0.3, p=(0.2, 0.2), part="reward")
    found = parts_of(Judgement("C1", "fails", (faster, unclear, wilder)))
    assert [(part.name, part.state) for part in found] == [
        ("speed", "for the claim"),
        ("reward", "unclear"),
        ("steadiness", "against it"),
    ]
    # A part speaks against the claim only if that fails.
    left_out = measured("steadiness over rounds", *[math.nan] * 3, p=(1.0, 1.0), part="steadiness", void="so")
    found = parts_of(Judgement("C1", "undecided", (faster, left_out)))
    assert [part.state for part in found] == ["for the claim", "not compared"]
    assert parts_of(Judgement("C1", "undecided", (wilder,)))[0].state == "unclear"


def test_a_part_shows_what_speaks_most_against_it() -> None:
    good = measured("final reward over dqn-sgd", 0.5, 0.4, 0.6, p=(1e-5, 1.0), part="reward")
    bad = measured("final reward over svr-dqn", -0.5, -0.6, -0.4, p=(1.0, 1e-5), part="reward")
    [part] = parts_of(Judgement("C2", "fails", (good, bad)))
    assert "beside SVR-DQN" in part.effect
    [part] = parts_of(
        Judgement(
            "C2", "holds", (good, measured("final reward over svr-dqn", 0.1, 0.01, 0.2, p=(0.01, 1.0), part="reward"))
        )
    )
    assert "beside SVR-DQN" in part.effect


def test_c9_fails_at_tuned_step_sizes_alone() -> None:
    assert RELEASED is not None
    [judgement] = [each for each in RELEASED.judgements["corrected"] if each.name == "C9"]
    found = {part.name: part for part in parts_of(judgement)}
    assert found["at the theory's η"].state == "for the claim"
    assert "at least 22 times" in found["at the theory's η"].effect
    assert "at least 4.00 times" in found["at the theory's η"].effect
    assert found["at the tuned η"].state == "against it"
    assert "at least" not in found["at the tuned η"].effect
