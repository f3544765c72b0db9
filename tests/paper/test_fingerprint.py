"""Which readings could have printed Table 2: features, acceptance, calibration, and what is told of it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.config.algorithms import READINGS
from srgdqn.figures.charts import data_of
from srgdqn.paper import fingerprint as module
from srgdqn.paper import fingerprint_study as study
from srgdqn.paper.cells import QUIET
from srgdqn.paper.claims.evidence import Evidence, evidence_of, find_evidence, write_evidence
from srgdqn.paper.fingerprint import (
    DEFINITIONS,
    DRAWN,
    FEATURES,
    FINGERPRINT,
    NOTHING,
    PAPER,
    Fingerprint,
    Range,
    calibrate,
    features,
    fingerprints,
    hold_out,
    range_of,
    readings,
    spreads_of,
)
from srgdqn.paper.fingerprint_study import Found, find_readings, fingerprint_section, tables_of, words
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.studies.table_2 import ALGORITHMS, PRINTED, steps
from srgdqn.runs.measurement import Measured

NAN = math.nan
AROUND = Range(PAPER - 0.1, PAPER + 0.1)


# Features


def test_the_papers_features_are_those_that_the_rules_give() -> None:
    assert [f"{value:+.2f}" for value in PAPER] == ["-1.40", "+0.87", "-1.26", "+0.31"]


def test_the_papers_features_number_by_number() -> None:
    halves = {(name, half): [math.log(s) for s in PRINTED[name][half]] for name in ALGORITHMS for half in (0, 1)}
    last = [x for (_, half), values in halves.items() if half == 1 for x in values]
    early = [x for (_, half), values in halves.items() if half == 0 for x in values[1:]]
    late, before = sum(last) / 20, sum(early) / 18
    residuals = 0.0
    for (_, half), values in halves.items():
        mine = values if half else values[1:]
        residuals += sum((x - sum(mine) / len(mine)) ** 2 for x in mine)
    start = (math.log(0.229) + math.log(0.122)) / 2 - before
    assert pytest.approx([late, before - late, start, math.sqrt(residuals / (38 - 4))]) == PAPER


def test_features_by_hand() -> None:
    # Half-means of 3 and 1 (SVR-DQN), and of 5 and 2 (SRG-DQN), with residuals of ±0.5 in 8 + 10 + 8 + 10 numbers.
    wave = np.array([0.5, -0.5] * 5)
    early = np.append(wave[:8], 0.0)
    logs = np.array([[-1.0, *(3 + early), *(1 + wave)], [-2.0, *(5 + early), *(2 + wave)]])
    expected = [1.5, 4 - 1.5, -1.5 - 4, math.sqrt(36 * 0.25 / 34)]
    assert features(logs) == pytest.approx(expected)
    both = features(np.stack([logs, logs + 1]))
    assert both == pytest.approx(np.array([expected, [2.5, *expected[1:]]]))


def test_a_first_cell_that_is_missing_leaves_the_other_features() -> None:
    logs = np.arange(40.0).reshape(2, 20)
    whole = features(logs)
    logs[0, 0] = NAN
    assert np.isnan(features(logs)).tolist() == [False, False, True, False]
    assert features(logs)[[0, 1, 3]].tolist() == whole[[0, 1, 3]].tolist()


# Readings


def test_readings_are_those_of_the_factorial() -> None:
    every = list(readings())
    assert len(every) == len({repr(sorted(each.items())) for each in every}) == 4 * 2**7
    default = {
        **READINGS["corrected"],
        "target": "current",
        "loss": "squared",
        "hidden": (20,),
        "initialisation": "lecun-uniform",
        "reward": "height",
        "time_limit": None,
        "learning_starts": 1_000,
    }
    for changed in READINGS.values():
        assert {**default, **changed} in every
    assert {each["learning_starts"] for each in every} == {64, 1_000}
    assert {each["hidden"] for each in every} == {(20,), (20, 20)}
    assert len({tuple(words(each).values()) for each in every}) == 512


@pytest.mark.usefixtures("kernel")
def test_the_kernel_trains_every_reading_with_the_papers_budget() -> None:
    every = list(readings())
    listed = module.cells(FINGERPRINT, every)
    assert len({cell.name for cell in listed}) == 512
    for cell, options in zip(listed, every, strict=True):
        assert cell.plan.steps == (*range(1_000, 10_001, 1_000), *range(91_000, 100_001, 1_000))
        assert cell.plan.rewards_after == 80_000
        assert list(cell.plan.configurations) == ["svr-dqn", "srg-dqn"]
        for name, configuration in cell.plan.configurations.items():
            training = configuration.training
            assert configuration.algorithm == name
            assert (training.kernel, training.rounds, training.steps, training.seed) == (
                "native",
                100,
                100_000,
                44_001,
            )
            found = configuration.options()
            assert {option: found[option] for option in options} == options


# Acceptance


def test_the_range_is_the_central_part() -> None:
    resampled = np.linspace(0, 1, 1_601)[:, None] * [1.0, 2.0, -1.0, 0.0]
    low, high = range_of(np.random.default_rng(0).permutation(resampled))
    assert low == pytest.approx([0.00625, 0.0125, -0.99375, 0.0])
    assert high == pytest.approx([0.99375, 1.9875, -0.00625, 0.0])


@pytest.mark.parametrize("value", [NAN, math.inf, -math.inf])
def test_a_feature_that_is_not_finite_in_one_resample_has_no_range(value: float) -> None:
    resampled = np.random.default_rng(0).normal(size=(200, 4))
    resampled[7, 2] = value
    found = range_of(resampled)
    assert np.isnan(found.low).tolist() == np.isnan(found.high).tolist() == [False, False, True, False]


def printed(found: Range = AROUND, finished: int = 100, table: Any = PAPER, left: Range = AROUND) -> Fingerprint:
    return Fingerprint(finished, (found.low + found.high) / 2, found, np.array(table, float), left)


def test_a_reading_is_accepted_if_every_feature_is_inside() -> None:
    verdict = printed().verdict()
    assert verdict == ("", ())
    assert verdict.accepted


@pytest.mark.parametrize(("place", "name"), [*enumerate(FEATURES)], ids=FEATURES)
def test_one_feature_outside_is_enough(place: int, name: str) -> None:
    for low, high in ((0.001, 1.0), (-1.0, -0.001)):
        ends = AROUND.low.copy(), AROUND.high.copy()
        ends[0][place], ends[1][place] = PAPER[place] + low, PAPER[place] + high
        verdict = printed(Range(*ends)).verdict()
        assert verdict == ("outside", (name,))
        assert not verdict.accepted


def test_every_feature_outside_is_named() -> None:
    shifted = PAPER + np.array([1, 0, 0, -1])
    assert printed().verdict(shifted) == ("outside", ("late", "scatter"))


def test_the_ends_of_the_range_are_inside() -> None:
    assert printed(Range(PAPER, PAPER + 1)).verdict().accepted
    assert printed(Range(PAPER - 1, PAPER)).verdict().accepted
    assert not printed(Range(np.nextafter(PAPER, 9), PAPER + 1)).verdict().accepted
    assert not printed(Range(PAPER - 1, np.nextafter(PAPER, -9))).verdict().accepted


def test_what_cannot_be_computed_is_the_reason() -> None:
    low = AROUND.low.copy()
    low[2] = NAN
    assert printed(Range(low, low)).verdict() == ("cannot be computed", ("start",))
    assert printed(NOTHING, finished=49).verdict() == ("fewer than 50 rounds finished", ())
    assert printed(finished=49).verdict() == ("fewer than 50 rounds finished", ())
    assert printed(finished=50).verdict().accepted


# Fingerprints of made-up cells

WEIGHTS = 3


def made_up(
    svr: list[int], srg: list[int], seed: int = 0, first_window: float = 1.0, scale: float = 1.0, reward: float = 1.0
) -> Measured:
    """A cell with these rounds finished; SRG-DQN's vectors and spreads are half of SVR-DQN's, its reward is higher."""
    rng = np.random.default_rng(seed)
    at = (*range(1_000, 10_001, 1_000), *range(91_000, 100_001, 1_000))
    # The same numbers for the same round in both algorithms.
    normal = rng.normal(size=(200, 2, len(at), WEIGHTS)) * np.exp(rng.normal(0, 0.3, (200, 1, 1, 1)))
    spread = np.exp(rng.normal(0, 0.3, (200, 2, len(at))))
    tables: dict[str, list[Any]] = {"vectors": [], "windows": [], "rewards": [], "rounds": []}
    for name, rounds, factor in (("svr-dqn", svr, 1.0), ("srg-dqn", srg, 0.5)):
        for (place, step), (q, quantity), number in itertools.product(
            enumerate(at), enumerate(("delta", "gradient")), rounds
        ):
            label = {"algorithm": name, "step": step, "quantity": quantity, "round": number}
            vector = (scale * factor * normal[number, q, place]).tolist()
            within = factor * spread[number, q, place] * (first_window if place == 0 else 1)
            tables["vectors"].append({**label, "vector": vector})
            tables["windows"].append({**label, "spread": within, "spread_with_biases": within})
        won = reward if name == "srg-dqn" else 0.0
        tables["rewards"] += [{"algorithm": name, "round": number, "reward": number + won} for number in rounds]
        tables["rounds"].append({"algorithm": name, "rounds": 100, "diverged": 100 - len(rounds), "weights": WEIGHTS})
    return Measured({name: pl.DataFrame(rows) for name, rows in tables.items()}, {})


def test_resamples_are_of_50_of_the_rounds_finished_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESAMPLES", 40)
    cell = made_up(list(range(5, 100)), list(range(90)))
    found = fingerprints(cell, (1, 2))
    assert list(found) == list(DEFINITIONS)
    picks = np.random.default_rng((1, 2)).integers(0, 85, (40, DRAWN))
    for (how, quantity), mine in found.items():
        assert mine.finished == 85
        spreads = spreads_of(cell, quantity)
        assert spreads.rounds == list(range(5, 90))
        logs = [[np.log(spreads.of(how, row)[name]) for name in ALGORITHMS] for row in picks]
        by_hand = features(np.array(logs))
        assert mine.middle == pytest.approx(np.median(by_hand, 0))
        assert mine.range.low == pytest.approx(np.quantile(by_hand, 0.00625, axis=0))
        assert mine.range.high == pytest.approx(np.quantile(by_hand, 0.99375, axis=0))
        assert np.isnan(mine.left.low).all()  # 35 rounds are left


def test_the_simulated_table_has_50_rounds_and_is_judged_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESAMPLES", 30)
    cell = made_up(list(range(100)), list(range(100)))
    rng = np.random.default_rng((3,))
    rng.integers(0, 100, (30, DRAWN))
    order = rng.permutation(100)
    judging = rng.choice(order[50:], (30, DRAWN))
    assert not set(judging.ravel()) & set(order[:50])
    for (how, quantity), mine in fingerprints(cell, (3,)).items():
        spreads = spreads_of(cell, quantity)

        def by_hand(picks: np.ndarray, spreads: Any = spreads, how: str = how) -> np.ndarray:
            return features(np.log([spreads.of(how, picks)[name] for name in ALGORITHMS]))

        assert mine.table == pytest.approx(by_hand(order[:50]))
        assert mine.left.low == pytest.approx(np.quantile([by_hand(row) for row in judging], 0.00625, axis=0))


@pytest.mark.parametrize("finished", [0, 1, 49, 50])
def test_fewer_than_50_common_rounds_have_no_fingerprint(finished: int) -> None:
    both = list(range(finished))
    cell = made_up([*both, *range(100, 140)], [*both, *range(140, 190)])
    for mine in fingerprints(cell, (0,)).values():
        assert mine.finished == finished
        assert np.isfinite(mine.range.low).all() == (finished == 50)
        assert np.isfinite(mine.table).all() == (finished == 50)
        assert (mine.verdict().reason == "fewer than 50 rounds finished") == (finished < 50)


def test_a_window_with_a_single_outer_iteration_has_no_start() -> None:
    found = fingerprints(made_up(list(range(60)), list(range(60)), first_window=NAN), (0,))
    for (how, _), mine in found.items():
        expected = ("cannot be computed", ("start",)) if how == "window" else None
        assert (mine.verdict() == expected) == (how == "window")
        assert mine.verdict().reason != "fewer than 50 rounds finished"


def test_no_spread_at_all_has_no_logarithm() -> None:
    for (how, _), mine in fingerprints(made_up(list(range(60)), list(range(60)), scale=0.0), (0,)).items():
        if how == "across":
            assert mine.verdict() == ("cannot be computed", FEATURES)


def test_a_fingerprint_depends_on_its_seed_alone() -> None:
    cell = made_up(list(range(60)), list(range(60)))
    one, same, other = (fingerprints(cell, seed)["across", "delta"].range.low for seed in ((1, 0), (1, 0), (1, 1)))
    assert one.tolist() == same.tolist() != other.tolist()


# What is held out


def test_what_is_held_out_by_hand() -> None:
    svr, srg = list(range(100)), [*range(10, 99)]
    for definition in DEFINITIONS:
        held = hold_out(made_up(svr, srg, reward=0.25), definition, (0,))
        assert held.ratio == pytest.approx((0.5, 0.5, 0.5))
        assert held.rewards == {"svr-dqn": 54.0, "srg-dqn": 54.25}  # rounds 10 to 98
        assert held.difference == pytest.approx((0.25, 0.25, 0.25))
        assert held.diverged == {"svr-dqn": 0, "srg-dqn": 11}


# Calibration


def test_calibration_by_brute_force() -> None:
    rng = np.random.default_rng(4)

    def some_range(missing: bool) -> Range:
        if missing:
            return NOTHING
        centre, half = rng.normal(0, 0.3, 4), rng.uniform(0.3, 2, 4)
        return Range(centre - half, centre + half)

    found = []
    for index in range(25):
        few = index % 5 == 0  # fewer than 50 finished
        table = np.full(4, NAN) if few else rng.normal(0, 0.3, 4)
        if index == 7:
            table[2] = NAN  # start cannot be computed
        own = some_range(few)
        if index == 7:
            own.low[2] = own.high[2] = NAN
        left = some_range(few or index % 3 == 0)
        if index == 8:
            left.low[1] = left.high[1] = NAN
        found.append(printed(own, 10 if few else 100, table, left))
    by_itself, by_others = calibrate(found)

    def inside(table: np.ndarray, by: Range) -> bool:
        return all(low <= value <= high for value, low, high in zip(table, by.low, by.high, strict=True))

    own = [inside(each.table, each.left) for i, each in enumerate(found) if i % 5 and i % 3 and i not in (7, 8)]
    others = [
        sum(inside(each.table, other.range) for other in found if other is not each)
        for i, each in enumerate(found)
        if i % 5 and i != 7
    ]
    assert by_itself.tolist() == own
    assert by_others.tolist() == others
    assert 0 < sum(own) < len(own)
    assert len(set(others)) > 3


def test_calibration_of_nothing() -> None:
    by_itself, by_others = calibrate([printed(NOTHING, 3, NOTHING.low, NOTHING)] * 2)
    assert len(by_itself) == len(by_others) == 0


# What is told


def found_with(accepted: set[int], count: int = 4) -> Found:
    """Readings of which some are accepted by one definition; the others are not, for one reason after the other. The
    reward of the first is lower with SRG-DQN.
    """
    among = list(itertools.islice(readings(), count))
    found = Found(among)
    low = AROUND.low.copy()
    low[2] = NAN
    others = [
        printed(Range(AROUND.low + 1, AROUND.high + 1)),
        printed(NOTHING, 49, NOTHING.low, NOTHING),
        printed(Range(low, low)),
    ]
    held_out = [hold_out(made_up([*range(60)], [*range(60)], reward=won), DEFINITIONS[1], (0,)) for won in (-1.0, 1.0)]
    for definition in DEFINITIONS:
        for index in range(count):
            mine = printed() if index in accepted and definition == DEFINITIONS[1] else others[index % 3]
            found.prints[definition].append(mine)
            if mine.verdict().accepted:
                found.held_out[index, definition] = held_out[min(index, 1)]
    return found


def evidence(found: Found) -> Evidence:
    return evidence_of("fingerprint", {}, tables_of(found), seed=1, rounds="100", seconds=60)


def section(accepted: set[int]) -> Section:
    return fingerprint_section(evidence(found_with(accepted)))


def test_where_none_is_accepted_that_is_all_that_is_said() -> None:
    shown = section(set())
    assert shown.found.startswith("No reading of ours. Made on ")
    assert [table.name for table in shown.tables] == [
        "fingerprint-definitions",
        "fingerprint-options",
        "fingerprint-calibration",
    ]
    said = " ".join(f"{table.title} {table.note} {table.frame.columns}" for table in shown.tables)
    for held_out in ("S_SRG", "reward of", "difference"):
        assert held_out not in said


def test_a_reading_that_would_not_accept_its_own_table_may_be_missed() -> None:
    found = evidence(found_with(set()))

    def told(*shares: str) -> str:
        frame = pl.DataFrame({"tables that their own reading accepts": shares})
        changed = [Table(each.name, each.title, frame) if "calib" in each.name else each for each in found.tables]
        shown = fingerprint_section(dataclasses.replace(found, tables=changed))
        [note] = [table.note for table in shown.tables if "calib" in table.name]
        assert "67 to 71 %" in note  # whatever the evidence was released with
        return shown.found.split(" Made on ")[0]

    missed = "No reading of ours. A reading accepts a table of its own in {} % of cases, so that it may be missed."
    assert told("155 of 402 (39%)", "136 of 402 (34%)", "133 of 202 (66%)", "0 of 0") == missed.format("34 to 66")
    assert told("1 of 2 (50%)", "0 of 0") == missed.format("50")
    assert told("2 of 2 (100%)") == told("0 of 0") == "No reading of ours."


def test_accepted_readings_are_told_with_what_was_held_out() -> None:
    shown = section({0, 3})
    assert shown.found.startswith(
        "2 of 4 readings could have, by at least one of four definitions of the standard deviation (2 pairs of a "
        "reading and a definition). In these, which were not chosen by it, SRG-DQN's standard deviation is the lower "
        "in 2 of 2, and its reward the higher in 1."
    )
    tables = {table.name: table.frame for table in shown.tables}
    held_out = tables["fingerprint-held-out"]
    assert held_out["reading"].to_list() == [0, 3]
    assert held_out["standard deviation"].unique().to_list() == ["across rounds, g_M"]
    assert held_out["S_SRG / S_SVR [95 %]"][0] == "0.500 [0.500, 0.500]"
    assert held_out["difference [95 %]"].to_list() == ["-1.000 [-1.000, -1.000]", "+1.000 [+1.000, +1.000]"]
    note = next(table.note for table in shown.tables if table.name == "fingerprint-held-out")
    svr, srg = (np.log([*PRINTED[name][0], *PRINTED[name][1]]) for name in ALGORITHMS)
    assert f"The paper's ratio is {math.exp((srg - svr).mean()):.3f}." in note
    counts = tables["fingerprint-definitions"].row(1, named=True)
    assert counts == {
        "standard deviation": "across rounds, g_M",
        "accepted": "2 of 4",
        "fewer than 50 rounds finished": 1,
        "a feature cannot be computed": 1,
        **{f"{feature} outside": 0 for feature in FEATURES},
    }
    assert tables["fingerprint-definitions"]["late outside"].to_list() == [2, 0, 2, 2]
    options = tables["fingerprint-options"].filter(reading="learning from step")
    assert options["option"].to_list() == ["1,000", "64"]
    assert options["across rounds, g_M"].to_list() == ["1 of 2", "1 of 2"]
    assert options["in windows, g_M"].to_list() == ["0 of 2", "0 of 2"]
    every = next(t.frame for t in evidence(found_with({0, 3})).tables if t.name == "fingerprint-readings")
    assert every["accepted"].to_list() == ["across rounds, g_M", "", "", "across rounds, g_M"]
    assert every["late, across rounds, g_M"][0] == pytest.approx(PAPER[0], abs=1e-3)
    assert every["late, across rounds, g_M"][1] is None
    own = tables["fingerprint-calibration"]["tables that their own reading accepts"].to_list()
    assert own == ["3 of 3 (100%)"] * 4
    others = tables["fingerprint-calibration"]["other readings that accept a table, on average"].to_list()
    assert others == ["0.0 of 3", f"{4 / 3:.1f} of 3", "0.0 of 3", "0.0 of 3"]


def test_the_chart_has_every_reading_beside_the_paper() -> None:
    found = found_with({0})
    (chart,) = fingerprint_section(evidence(found)).charts
    points = data_of(chart)
    assert points["panel"].unique(maintain_order=True).to_list() == list(FEATURES)
    for place, (feature, value) in enumerate(zip(FEATURES, PAPER, strict=True)):
        mine = points.filter(panel=feature)
        assert mine.filter(series="the paper")["y"].to_list() == [value, value]
        drawn = mine.filter(series="across rounds, g_M")
        known = [each.middle[place] for each in found.prints[DEFINITIONS[1]] if np.isfinite(each.middle[place])]
        assert len(known) == (2 if feature == "start" else 3)
        assert drawn["y"].to_list() == pytest.approx(sorted(known), abs=1e-3)
        assert drawn["share"].to_list() == pytest.approx([100 * (i + 0.5) / len(known) for i in range(len(known))])


def test_evidence_of_all_readings_is_small_and_read_back(tmp_path: Path) -> None:
    written = evidence(found_with(set(range(0, 512, 5)), 512))
    path = write_evidence(written, tmp_path)
    assert path.stat().st_size < 500_000
    again = find_evidence("fingerprint", tmp_path)
    assert again is not None
    one, other = fingerprint_section(written), fingerprint_section(again)
    assert one.found == other.found
    assert data_of(one.charts[0]).equals(data_of(other.charts[0]))


# From training to the page


@pytest.mark.usefixtures("kernel")
def test_two_readings_from_training_to_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (module, study):
        monkeypatch.setattr(each, "RESAMPLES", 50)
    scale = dataclasses.replace(FINGERPRINT, seed=10_000, spread_rounds=56, spread_steps=20_000)
    every = list(readings())
    among = [every[-1], every[0]]
    assert [each["learning_starts"] for each in among] == [64, 1_000]
    first = find_readings(tmp_path, QUIET, scale, among)

    def made() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*.parquet"))}

    before = made()
    assert len(before) == 2 * 4
    again = find_readings(tmp_path, QUIET, scale, among)
    assert made() == before
    for one, other in zip(first.tables, again.tables, strict=True):
        assert one.frame.equals(other.frame)
    counts = {table.name: table.frame for table in first.tables}["fingerprint-definitions"]
    assert counts["a feature cannot be computed"].to_list() == [0, 0, 1, 1]
    shown = {table.name: table.frame for table in first.tables}["fingerprint-readings"].row(1, named=True)
    assert shown["finished"] == 56
    assert shown["start, in windows, Δ_M"] is None
    # From the stored vectors to the page, in plain NumPy.
    vectors = pl.read_parquet(tmp_path / "fingerprint" / "cells" / "fingerprint-001" / "vectors.parquet")
    assert vectors.height == 2 * 20 * 2 * 56
    picks = np.random.default_rng((10_000, 1)).integers(0, 56, (50, DRAWN))
    logs = np.zeros((50, 2, 20))
    for (a, name), (s, step) in itertools.product(enumerate(ALGORITHMS), enumerate(steps(scale))):
        mine = vectors.filter(algorithm=name, step=step, quantity="delta").sort("round")
        stack = np.array(mine["vector"].to_list())
        assert stack.shape == (56, 40)
        logs[:, a, s] = [math.log(stack[row].std(0, ddof=1).sum()) for row in picks]
    for feature, value in zip(FEATURES, np.median(features(logs), 0), strict=True):
        assert shown[f"{feature}, across rounds, Δ_M"] == pytest.approx(value, abs=6e-4)
