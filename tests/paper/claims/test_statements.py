"""Every claim in a world where it is true, in one where it is not, and its numbers by hand."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.config.algorithms import PAPER
from srgdqn.paper.claims import CLAIMS, Judgement, judge, rules
from srgdqn.paper.claims.statements import OTHERS, OURS
from srgdqn.paper.studies import EXPERIMENTS
from synthetic_outcomes import CHANCE, PILOT, ROUNDS, anchors, exact_anchors, planted_run, spread, world

LOG_MARGIN = np.log(1.05)


@pytest.fixture(scope="module", autouse=True)
def few_resamples() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "RESAMPLES", 1_000)
        yield


@pytest.fixture(scope="module")
def good() -> dict[str, Any]:
    return world(True)


@pytest.fixture(scope="module")
def judged(good: dict[str, Any]) -> dict[str, Judgement]:
    return {judgement.name: judgement for judgement in judge(good, "corrected", PILOT)}


def by_label(judgement: Judgement) -> dict[str, Any]:
    return {contrast.label: contrast for contrast in judgement.contrasts}


def test_every_claim_of_the_readings_is_there() -> None:
    names = "C1 C2 C3 C4 C5a C5b C5c C6 C7a C7b C7c C8a C8b C8c C9 C10 C11 C12"
    assert [claim.name for claim in CLAIMS] == names.split()
    assert {claim.section for claim in CLAIMS} <= set(EXPERIMENTS)
    assert len({claim.statement for claim in CLAIMS}) == len(CLAIMS)


def test_in_a_world_where_it_is_true_every_claim_holds(judged: dict[str, Judgement]) -> None:
    assert {name: judgement.verdict for name, judgement in judged.items()} == dict.fromkeys(judged, "holds")
    assert list(judged) == [claim.name for claim in CLAIMS]


def test_in_a_world_where_the_opposite_is_true_every_claim_fails() -> None:
    found = judge(world(False), "corrected", PILOT)
    assert {each.name: each.verdict for each in found} == {claim.name: "fails" for claim in CLAIMS}
    # Not one contrast points the other way.
    assert [c.label for each in found for c in each.contrasts if not c.interval.estimate < c.margin] == []


def test_every_interval_is_asked_for_at_that_very_level(good: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its kind; C9's slack alone has intervals of its own."""
    asked: list[float] = []

    def spied(real: Callable[..., Any]) -> Callable[..., Any]:
        def interval(*given: Any, level: float, **options: Any) -> Any:
            asked.append(level)
            return real(*given, level=level, **options)

        return interval

    for kind in ("bootstrap_interval", "paired_bootstrap_difference", "log_sd_ratio_interval", "resampled_interval"):
        monkeypatch.setattr(rules, kind, spied(getattr(rules, kind)))
    judge(good, "corrected", PILOT)
    assert asked == pytest.approx([1 - 0.05 / 63] * (63 - 2))
    asked.clear()
    judge(good, "corrected", PILOT, only=("C2", "C11"))
    assert asked == pytest.approx([1 - 0.05 / 8] * 8)


# Numbers by hand


def windows(result: Any, keep: Callable[[int], bool]) -> np.ndarray:
    """Each round's mean reward over windows that end at certain steps."""
    return np.array(
        [
            np.mean([reward for step, reward in rows.select("step", "reward").iter_rows() if keep(step)])
            for (_,), rows in sorted(result.curves.group_by("round"))
        ]
    )


def distance_ratios(outcomes: dict[str, Any], definition: str) -> np.ndarray:
    per_run = []
    for trajectory in ("svr-dqn", "srg-dqn"):
        rows = outcomes[f"anchors-{trajectory}-corrected"].tables["distances"]
        logs: dict[int, list[float]] = {}
        for key in rows.select("round", "step", "m").unique().iter_rows():
            mine = rows.filter(round=key[0], step=key[1], m=key[2])
            srg, svrg = (mine.filter(estimator=name)[definition].item() for name in ("srg", "svrg"))
            logs.setdefault(key[0], []).append(np.log(srg) - np.log(svrg))
        per_run.append([np.mean(logs[number]) for number in sorted(logs)])
    return np.mean(per_run, axis=0)


@pytest.mark.parametrize(("name", "task"), [("C2", "MountainCar"), ("C3", "Pendulum")])
def test_figure_2_is_judged_by_the_last_fifth(
    name: str, task: str, good: dict[str, Any], judged: dict[str, Judgement]
) -> None:
    found = by_label(judged[name])
    ours = windows(good[f"{task}-srg-dqn-corrected"], lambda step: step > 8_000)
    for other in ("svr-dqn", "dqn-sgd", "srg-dqn-no-adam"):
        theirs = windows(good[f"{task}-{other}-corrected"], lambda step: step > 8_000)
        reward, steadiness = found[f"final reward over {other}"], found[f"steadiness beside {other}"]
        assert reward.interval.estimate == pytest.approx(ours.mean() - theirs.mean())
        assert reward.margin == pytest.approx(0.1)
        assert steadiness.interval.estimate == pytest.approx(np.log(theirs.std() / ours.std()))
        assert steadiness.margin == pytest.approx(LOG_MARGIN)
        if name == "C3":
            early = [windows(good[f"{task}-{each}-corrected"], lambda step: step <= 5_000) for each in (OURS, other)]
            area = found[f"first-half area over {other}"]
            assert area.interval.estimate == pytest.approx(early[0].mean() - early[1].mean())


def test_cart_pole_may_be_level_but_must_be_steadier(good: dict[str, Any]) -> None:
    """Equal returns are not below by δ, half a margin below is not either, and two margins below are."""
    for behind, verdict in ((0.0, "holds"), (0.05, "holds"), (0.2, "fails")):
        rng = np.random.default_rng(8)
        noise = rng.normal(size=(4, 100))
        noise = (noise - noise.mean(1, keepdims=True)) / noise.std(1, keepdims=True)
        outcomes = dict(good)
        for index, other in enumerate(OTHERS):
            outcomes[f"CartPole-{other}-corrected"] = planted_run("CartPole", other, 5 + 0.1 * noise[index])
        outcomes["CartPole-srg-dqn-corrected"] = planted_run("CartPole", OURS, 5 - behind + 0.01 * noise[3])
        (found,) = judge(outcomes, "corrected", PILOT, only=("C4",))
        assert found.verdict == verdict
        told = by_label(found)["return not below that of svr-dqn by δ"]
        assert told.interval.estimate == pytest.approx(0.1 - behind)


def test_rounds_that_diverged_score_as_the_random_policy(good: dict[str, Any]) -> None:
    """In place of the enormous reward that they were on the way to."""
    finals = np.linspace(1.0, 2.0, ROUNDS)
    finals[[3, 7]] = 1e6
    outcomes = dict(good)
    run = planted_run("MountainCar", OURS, finals, diverged={3: 9_500, 7: 1_008})
    outcomes["MountainCar-srg-dqn-corrected"] = run
    (found,) = judge(outcomes, "corrected", PILOT, only=("C2",))
    scored = np.where(np.isin(np.arange(ROUNDS), [3, 7]), CHANCE, finals)
    theirs = windows(good["MountainCar-dqn-sgd-corrected"], lambda step: step > 8_000)
    told = by_label(found)
    assert told["final reward over dqn-sgd"].interval.estimate == pytest.approx((scored - theirs).mean())
    expected = np.log(theirs.std() / scored.std())
    assert told["steadiness beside dqn-sgd"].interval.estimate == pytest.approx(expected)


def test_where_all_rounds_diverged_nothing_is_steady(good: dict[str, Any]) -> None:
    """A constant score is no sign of stability: it holds for no claim."""
    outcomes = dict(good)
    stops = dict.fromkeys(range(ROUNDS), 2_000)
    outcomes["Pendulum-srg-dqn-corrected"] = planted_run("Pendulum", OURS, np.full(ROUNDS, 9.0), diverged=stops)
    (found,) = judge(outcomes, "corrected", PILOT, only=("C3",))
    assert found.verdict == "fails"  # because the random policy is behind the others
    for label, contrast in by_label(found).items():
        assert not contrast.holds, label


def test_nothing_is_excellent_at_the_random_policys_level(good: dict[str, Any]) -> None:
    """Where every round of every algorithm diverged, all have the same score, and C4 must not hold for that."""
    outcomes = dict(good)
    stops = dict.fromkeys(range(ROUNDS), 2_000)
    for name in PAPER:
        outcomes[f"CartPole-{name}-corrected"] = planted_run("CartPole", name, np.full(ROUNDS, 9.0), diverged=stops)
    (found,) = judge(outcomes, "corrected", PILOT, only=("C4",))
    told = by_label(found)["return over the pilot's threshold"]
    assert told.interval == pytest.approx([CHANCE - PILOT.thresholds["CartPole"]] * 3)
    assert found.verdict == "fails"


@pytest.mark.parametrize("name", ["C7a", "C7b", "C7c", "C8a", "C8b", "C8c", "C11"])
def test_where_no_round_is_in_both_runs_nothing_is_told(name: str, good: dict[str, Any]) -> None:
    outcomes = {
        **good,
        "anchors-svr-dqn-corrected": anchors(0.5, 3.0, rounds=[0, 1]),
        "anchors-srg-dqn-corrected": anchors(0.5, 3.0, rounds=[2, 3]),
        "spread-svr-dqn-corrected": spread("svr-dqn", 2.0, 0.5, rounds=[0, 1]),
        "spread-srg-dqn-corrected": spread("srg-dqn", 1.0, 0.5, rounds=[2, 3]),
    }
    (found,) = judge(outcomes, "corrected", PILOT, only=(name,))
    assert np.isnan(found.contrasts[0].interval).all()
    assert found.verdict == "undecided"


def test_the_theorem_is_judged_where_it_speaks(good: dict[str, Any]) -> None:
    """A violation outside of the region where the constants hold is none; inside of it, it is."""
    for inside, verdict in ((False, "holds"), (True, "fails")):
        measured = good["theorem-1"]
        table = measured.tables["inequality"]
        worst = table.filter(multiple=1.0).head(1)
        worst = worst.with_columns(difference=pl.lit(2.0), low=pl.lit(1.5), high=pl.lit(2.5), in_region=pl.lit(inside))
        tables = {**measured.tables, "inequality": pl.concat([table, worst.select(table.columns)])}
        outcomes = {**good, "theorem-1": type(measured)(tables, measured.about)}
        (found,) = judge(outcomes, "corrected", PILOT, only=("C9",))
        assert found.verdict == verdict


def test_exact_anchors_by_hand(good: dict[str, Any], judged: dict[str, Judgement]) -> None:
    rewards = {"exact": np.arange(8.0), "ordinary": np.arange(8.0)[::-1] / 2, "oracle": np.zeros(8)}
    lost = {"exact": [2], "ordinary": [2, 5]}
    outcomes = {**good, "exact-anchors-corrected": exact_anchors(rewards, diverged=lost)}
    (found,) = judge(outcomes, "corrected", PILOT, only=("C1",))
    exact, ordinary = np.arange(8.0), np.arange(8.0)[::-1] / 2
    exact[2] = ordinary[[2, 5]] = PILOT.random["MountainCar"]
    told = [contrast.interval.estimate for contrast in found.contrasts]
    area = (exact - ordinary).mean()
    assert told == pytest.approx([area, area, np.log(ordinary.std() / exact.std())])
    assert [contrast.margin for contrast in judged["C1"].contrasts] == pytest.approx([0.1, 0.1, LOG_MARGIN])


def test_exact_anchors_end_with_the_last_fifth_of_the_evaluations(good: dict[str, Any]) -> None:
    measured = exact_anchors(dict.fromkeys(("exact", "ordinary", "oracle"), np.arange(6.0)))
    late = pl.when((pl.col("arm") == "exact") & (pl.col("step") > 16_000)).then(10.0).otherwise(0.0)
    tables = {
        **measured.tables,
        "evaluations": measured.tables["evaluations"].with_columns(reward=late + pl.col("round")),
    }
    outcomes = {**good, "exact-anchors-corrected": type(measured)(tables, measured.about)}
    (found,) = judge(outcomes, "corrected", PILOT, only=("C1",))
    assert [contrast.interval.estimate for contrast in found.contrasts] == pytest.approx([2.0, 10.0, 0.0])


def test_episode_lengths_by_hand(good: dict[str, Any], judged: dict[str, Judgement]) -> None:
    lengths = {
        name: good[f"episodes-{name}-corrected"].episodes.group_by("round").agg(pl.col("length").mean()).sort("round")
        for name in (*PAPER, "sgd-inner-adam")
    }
    means = {name: table["length"].to_numpy() for name, table in lengths.items()}
    found = by_label(judged["C6"])
    for other in ("svr-dqn", "dqn-sgd", "srg-dqn-no-adam"):
        shorter, steadier = found[f"shorter episodes than {other}"], found[f"steadiness beside {other}"]
        assert shorter.interval.estimate == pytest.approx(np.log(means[other].mean() / means[OURS].mean()))
        assert steadier.interval.estimate == pytest.approx(np.log(means[other].std() / means[OURS].std()))
    adds = by_label(judged["C5a"])
    for what, other in (("the Adam process", "srg-dqn-no-adam"), ("variance reduction", "sgd-inner-adam")):
        told = adds[f"how much {what} shortens episodes"].interval.estimate
        assert told == pytest.approx(np.log(means[other].mean() / means[OURS].mean()))
        scores = [
            good[f"MountainCar-{name}-corrected"].curves.filter(step=10_000)["reward"].mean() for name in (OURS, other)
        ]
        assert adds[f"reward that {what} adds"].interval.estimate == pytest.approx(scores[0] - scores[1])


def test_complementing_needs_both(good: dict[str, Any]) -> None:
    """Without a gain by variance reduction C5 fails, however much the Adam process adds."""
    level = {**good, "MountainCar-sgd-inner-adam-corrected": good["MountainCar-srg-dqn-corrected"]}
    (found,) = judge(level, "corrected", PILOT, only=("C5a",))
    assert found.verdict == "fails"
    assert found.deciding.label == "reward that variance reduction adds"


def test_c7_to_c12_by_hand(good: dict[str, Any], judged: dict[str, Judgement]) -> None:
    for name, definition in (("C7a", "own"), ("C7b", "present"), ("C7c", "estimate")):
        (told,) = judged[name].contrasts
        assert told.interval.estimate == pytest.approx(-distance_ratios(good, definition).mean())
    for name in ("C8a", "C8b"):
        assert judged[name].contrasts[0].interval.estimate == pytest.approx(np.log(2))  # half at every step
    *slacks, _, _, _, _ = judged["C9"].contrasts
    queries = judged["C9"].contrasts[len(slacks) :]
    # Differences of -1 ± 0.1 and ± 0.2, of a left side of 1: the least of all slacks, bound by bound.
    assert [slack.interval for slack in slacks] == [pytest.approx((1.0, 0.8, 1.1))] * 2
    assert {slack.margin for slack in slacks} == {0.0}
    rows = good["theorem-1"].tables["queries"].filter(n=64, M=16, relative=1e-2)
    for contrast in queries:
        problem, step = re.fullmatch(r"log\(queries SVRG / SRG\), (\w+), (\w+) η", contrast.label).groups()  # type: ignore[union-attr]
        mine = rows.filter(problem=problem, step=step)
        logs = [np.log(mine.filter(estimator=name)["queries"].to_numpy()).mean() for name in ("svrg", "srg")]
        assert contrast.interval.estimate == pytest.approx(logs[0] - logs[1])
    assert len(queries) == 4
    anatomy = [good[f"anchors-{name}-corrected"].tables["anatomy"] for name in ("svr-dqn", "srg-dqn")]
    for contrast, reason in zip(judged["C11"].contrasts, ("unseen", "drift"), strict=True):
        shares = []
        for number in range(10):
            mine = [table.filter(round=number) for table in anatomy]
            sums = {part: sum(table[part].sum() for table in mine) for part in ("sampling", "unseen", "drift")}
            shares.append(sums[reason] / sum(sums.values()))
        assert contrast.interval.estimate == pytest.approx(np.mean(shares) - 0.05)
        assert (contrast.margin, contrast.unit) == (0.0, 0.05)
    # Log errors of 2, 1.31, 1 and 0.31, and a reward of minus as much: the line gives the whole range.
    (gain,) = judged["C12"].contrasts
    assert gain.interval.estimate == pytest.approx(1 + 0.5 * np.log(4))
    assert gain.margin == pytest.approx(0.1)


def test_less_variance_does_not_count_for_a_worse_agent(good: dict[str, Any]) -> None:
    """C8 needs SRG-DQN's reward not to be below SVR-DQN's by δ, however little its gradient varies."""
    outcomes = {**good, "MountainCar-srg-dqn-corrected": good["MountainCar-random-corrected"]}
    theirs = 5.0 + np.linspace(-0.1, 0.1, ROUNDS)
    outcomes["MountainCar-svr-dqn-corrected"] = planted_run("MountainCar", "svr-dqn", theirs)
    for each in judge(outcomes, "corrected", PILOT, only=("C8a", "C8b", "C8c")):
        spread, reward = each.contrasts
        assert spread.holds
        assert reward.fails
        assert reward.interval.estimate == pytest.approx(CHANCE - 5.0 + 0.1)
        assert each.verdict == "fails"
