"""The fingerprint over all readings: the cells, which readings are accepted, and the section about them."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from srgdqn.figures.charts import BLACK, BLUE, GREEN, ORANGE, PURPLE, Chart, Panel, Series, Style
from srgdqn.paper.cells import Console, run_cells
from srgdqn.paper.claims.evidence import Evidence, evidence_of
from srgdqn.paper.experiment import interval_text, seconds_of
from srgdqn.paper.fingerprint import (
    DEFINITIONS,
    DRAWN,
    FEATURES,
    FINGERPRINT,
    LEVEL,
    PAPER,
    RESAMPLES,
    Definition,
    Fingerprint,
    HeldOut,
    Options,
    calibrate,
    cells,
    fingerprints,
    hold_out,
    readings,
)
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.paper.studies.table_2 import ALGORITHMS, PRINTED

NAMES: Mapping[Definition, str] = {
    (how, quantity): f"{'across rounds' if how == 'across' else 'in windows'}, {vector}"
    for (how, quantity), vector in zip(DEFINITIONS, itertools.cycle(("Δ_M", "g_M")))
}
"""The definitions of a standard deviation in words."""
_STYLES = (Style(BLUE), Style(GREEN), Style(PURPLE), Style(ORANGE))
_EVERY, _HELD_OUT = "fingerprint-readings", "fingerprint-held-out"
_CALIBRATION, _BY_ITSELF = "fingerprint-calibration", "tables that their own reading accepts"
_CALIBRATION_NOTE = (
    f"Every reading's own simulated table in the paper's place: of {DRAWN} of its rounds, each taken once. Its own "
    f"reading judges it with the rounds that are left, if they are {DRAWN} or more. These are half of what the paper's "
    "table is judged with: in a trial with twelve readings and all 100 rounds, 67 to 71 % (across rounds) and 83 to 86 "
    "% (in windows) of tables were accepted by their own reading. Other readings judge it with all their rounds."
)
_AT_ONCE = 64  # readings whose vectors are held in memory


@dataclass(frozen=True, eq=False)
class Found:
    """What came of all readings."""

    among: Sequence[Options]
    prints: Mapping[Definition, list[Fingerprint]] = field(default_factory=lambda: {each: [] for each in DEFINITIONS})
    """By definition, of every reading in turn."""
    held_out: dict[tuple[int, Definition], HeldOut] = field(default_factory=dict)
    """Of accepted readings alone."""


def find_readings(
    folder: Path, console: Console, scale: Scale = FINGERPRINT, among: Sequence[Options] | None = None
) -> Evidence:
    """Which readings (by default all) could have printed the paper's Table 2."""
    among = list(readings()) if among is None else among
    found, seconds = Found(among), 0.0
    listed = cells(scale, among)
    console.begin("fingerprint", [cell.name for cell in listed])
    quiet = dataclasses.replace(console, begin=lambda title, names: None)  # one bar for all of them
    for start in range(0, len(listed), _AT_ONCE):
        some = listed[start : start + _AT_ONCE]
        outcomes = run_cells("fingerprint", some, folder / "fingerprint", quiet)
        seconds += seconds_of(outcomes, outcomes)
        for index, cell in enumerate(some, start):
            seed = (scale.seed, index)
            for definition, mine in fingerprints(outcomes[cell.name], seed).items():
                found.prints[definition].append(mine)
                if mine.verdict().accepted:
                    found.held_out[index, definition] = hold_out(outcomes[cell.name], definition, seed)
    rounds = f"{scale.spread_rounds} of each of {len(ALGORITHMS)} algorithms in each of {len(among)} readings"
    return evidence_of("fingerprint", {}, tables_of(found), seed=scale.seed, rounds=rounds, seconds=seconds)


def words(options: Options) -> dict[str, str]:
    """A reading's options as a reader wants them."""
    period = f", every {options['target_period']} outer iterations" if options["target"] == "hard" else ""
    return {
        "target": options["target"] + period,
        "loss": options["loss"],
        "hidden layers": str(len(options["hidden"])),
        "initialisation": options["initialisation"],
        "reward": options["reward"],
        "rows 3, 6, 7, 8": "corrected" if options["mask_terminal"] else "printed",
        "time limit": str(options["time_limit"] or "none"),
        "learning from step": f"{options['learning_starts']:,}",
    }


def tables_of(found: Found) -> list[Table]:
    """The tables of the evidence; what is held out is among them if some reading was accepted."""
    held_out = [_held_out(found)] if found.held_out else []
    return [_definitions(found), _options(found), *held_out, _calibration(found), _every(found)]


def _definitions(found: Found) -> Table:
    rows = []
    for definition, name in NAMES.items():
        verdicts = [each.verdict() for each in found.prints[definition]]
        reasons = Counter(verdict.reason for verdict in verdicts)
        outside = Counter(
            feature for verdict in verdicts if verdict.reason == "outside" for feature in verdict.features
        )
        rows.append(
            {
                "standard deviation": name,
                "accepted": f"{reasons['']} of {len(verdicts)}",
                f"fewer than {DRAWN} rounds finished": reasons[f"fewer than {DRAWN} rounds finished"],
                "a feature cannot be computed": reasons["cannot be computed"],
                **{f"{feature} outside": outside[feature] for feature in FEATURES},
            }
        )
    paper = ", ".join(f"{name} {value:+.2f}" for name, value in zip(FEATURES, PAPER, strict=True))
    note = (
        f"A reading is accepted if each of the paper's features ({paper}) lies in the central {LEVEL:.2%} of "
        f"{RESAMPLES:,} resamples of {DRAWN} rounds. Of a reading that is not, every feature that is outside counts. "
        "Where learning begins at step 1,000 the first window has a single outer iteration and no standard deviation, "
        "so that start cannot be computed."
    )
    return Table("fingerprint-definitions", "Readings that could have printed Table 2", pl.DataFrame(rows), note)


def _options(found: Found) -> Table:
    described = [words(options) for options in found.among]
    rows = []
    for what in described[0]:
        for option in dict.fromkeys(each[what] for each in described):
            mine = [index for index, each in enumerate(described) if each[what] == option]
            rows.append(
                {"reading": what, "option": option}
                | {
                    name: f"{sum((index, each) in found.held_out for index in mine)} of {len(mine)}"
                    for each, name in NAMES.items()
                }
            )
    return Table("fingerprint-options", "Accepted readings by option", pl.DataFrame(rows))


def _held_out(found: Found) -> Table:
    rows = [
        {
            "reading": index,
            "standard deviation": NAMES[definition],
            "S_SRG / S_SVR [95 %]": interval_text(held.ratio, ".3f"),
            **{f"reward of {name}": f"{held.rewards[name]:.3f}" for name in ALGORITHMS},
            "difference [95 %]": interval_text(held.difference),
            "diverged": ", ".join(f"{name} {count}" for name, count in held.diverged.items()),
        }
        for (index, definition), held in found.held_out.items()
    ]
    svr, srg = (np.concatenate(PRINTED[name]) for name in ALGORITHMS)
    note = (
        f"The paper's ratio is {np.exp(np.log(srg / svr).mean()):.3f}. Ratios are geometric means over the 20 steps; "
        "rewards are per action over the last fifth of the steps. All are of the rounds that finished in both runs."
    )
    return Table(_HELD_OUT, "What was held out, of accepted readings", pl.DataFrame(rows), note)


def _calibration(found: Found) -> Table:
    rows = []
    for definition, name in NAMES.items():
        by_itself, by_others = calibrate(found.prints[definition])
        count, others = len(by_itself), len(found.among) - 1
        own = f"{int(by_itself.sum())} of {count}" + (f" ({by_itself.mean():.0%})" if count else "")
        rows.append(
            {
                "standard deviation": name,
                _BY_ITSELF: own,
                "other readings that accept a table, on average": (
                    f"{by_others.mean():.1f} of {others}" if len(by_others) else "–"
                ),
                "tables that no other reading accepts": f"{int((by_others == 0).sum())} of {len(by_others)}",
            }
        )
    title = "How well the fingerprint tells readings apart"
    return Table(_CALIBRATION, title, pl.DataFrame(rows), _CALIBRATION_NOTE)


def _every(found: Found) -> Table:
    rows = []
    for index, options in enumerate(found.among):
        row: dict[str, object] = {"reading": index, "options": "; ".join(words(options).values())}
        row["finished"] = found.prints[DEFINITIONS[0]][index].finished
        row["accepted"] = "; ".join(name for each, name in NAMES.items() if (index, each) in found.held_out)
        for definition, name in NAMES.items():
            middle = found.prints[definition][index].middle
            row |= {
                _column(feature, name): round(float(value), 3) if np.isfinite(value) else None
                for feature, value in zip(FEATURES, middle, strict=True)
            }
        rows.append(row)
    note = "Medians of the features over resamples; empty where they cannot be computed."
    return Table(_EVERY, "The features of every reading", pl.DataFrame(rows, infer_schema_length=None), note)


def _column(feature: str, definition: str) -> str:
    return f"{feature}, {definition}"


def fingerprint_section(evidence: Evidence) -> Section:
    """Which readings could have printed the paper's Table 2, and what holds in them."""
    tables = {table.name: table for table in evidence.tables}
    every = tables[_EVERY].frame
    accepted = every.filter(pl.col("accepted") != "")
    found = f"No reading of ours.{_missed(tables[_CALIBRATION].frame)}"
    if accepted.height:
        held_out = tables[_HELD_OUT].frame
        lower = held_out.filter(pl.col("S_SRG / S_SVR [95 %]").str.split(" ").list.first().cast(float) < 1).height
        ahead = held_out.filter(pl.col("difference [95 %]").str.starts_with("+")).height
        found = (
            f"{accepted.height} of {every.height} readings could have, by at least one of four definitions of the "
            f"standard deviation ({held_out.height} pairs of a reading and a definition). In these, which were not "
            f"chosen by it, SRG-DQN's standard deviation is the lower in {lower} of {held_out.height}, and its reward "
            f"the higher in {ahead}."
        )
    return Section(
        name="fingerprint",
        title="The fingerprint: which reading could have printed Table 2?",
        paper_says="Forty standard deviations (Table 2), the only measurements that it prints as numbers.",
        found=found + evidence.made(),
        charts=(_chart(every),),
        tables=tuple(
            # A note that was released may be older than what is known now.
            dataclasses.replace(table, note=_CALIBRATION_NOTE) if table.name == _CALIBRATION else table
            for table in evidence.tables
            if table.name != _EVERY  # which the figure shows
        ),
    )


def _missed(calibration: pl.DataFrame) -> str:
    """How often a reading accepts a table of its own, as a sentence that follows another; nothing if always."""
    found = [re.search(r"\((\d+)%\)", text) for text in calibration[_BY_ITSELF]]
    shares = sorted({int(each[1]) for each in found if each})
    if not shares or shares[0] == 100:
        return ""
    span = f"{shares[0]} to {shares[-1]}" if len(shares) > 1 else f"{shares[0]}"
    return f" A reading accepts a table of its own in {span} % of cases, so that it may be missed."


def _chart(every: pl.DataFrame) -> Chart:
    panels = []
    for feature, value in zip(FEATURES, PAPER, strict=True):
        series = [Series("the paper", Style(BLACK, ":"), {"share": np.array([0.0, 100.0])}, np.full(2, value))]
        for name, style in zip(NAMES.values(), _STYLES, strict=True):
            values = np.sort(every[_column(feature, name)].cast(float).drop_nulls().to_numpy())
            if len(values):
                shares = 100 * (np.arange(len(values)) + 0.5) / len(values)
                series.append(Series(name, style, {"share": shares}, values))
        panels.append(Panel(feature, f"{feature} of log S", {"share": "% of the readings, sorted"}, tuple(series)))
    caption = (
        "Four features of Table 2, of every reading and by four definitions of the standard deviation, beside the "
        "paper's. Late: the mean of log S over the last 10,000 steps; fall: how far it is above that before, from step "
        "2,000 to 10,000; start: how far the first number is from the latter; scatter: the residual standard deviation."
    )
    return Chart("fingerprint", "Features of Table 2 over all readings", caption, tuple(panels), columns=2)
