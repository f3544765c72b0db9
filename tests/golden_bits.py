"""Golden bits: a digest of a small result of every computation that has a version (`srgdqn.runs.provenance`).

`tests/golden_bits.json` has those of the present versions. Bits of training and measurements depend on the machine's
kind and on the versions of packages, so they are recorded by kind of machine; the claims' are the same everywhere.

    python tests/golden_bits.py --record

records what is missing. Bits that differ from the recorded ones are refused as long as the version is the same.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import srgdqn
from host_environments import SMALL, Slope
from srgdqn.config import Configuration
from srgdqn.config.algorithms import PAPER
from srgdqn.kernel.build import NoKernelError, toolchain
from srgdqn.paper import confirmation, fingerprint, tuning_search
from srgdqn.paper.claims import verdicts
from srgdqn.paper.claims.cases import judged
from srgdqn.paper.factorial import arms, design
from srgdqn.paper.measurements import (
    anchors,
    dose_errors,
    exact_anchors,
    gradient_spread,
    step_times,
    theorem_1,
)
from srgdqn.paper.studies import training_time
from srgdqn.runs.provenance import VERSIONS, provenance, version_of
from synthetic_cases import diverging, opposite, world
from tiny import TINY, tiny

FILE = Path(__file__).with_name("golden_bits.json")
TASK = "srgdqn.environments:srgdqn/MountainCar-v0"
"""One of the package's tasks as an ordinary environment."""
EVERYWHERE = ("claims",)
"""Computed by NumPy in double precision, and rounded."""
_RESAMPLES = 500
_DIGITS = 9  # significant ones: far more than any change of a rule leaves alone, far fewer than rounding touches


# What is computed


def _training() -> Iterable[bytes]:
    tasks = ("CartPole", "MountainCar", "Pendulum")
    asked: list[tuple[str, str, str]] = [
        *(("native", task, algorithm) for task, algorithm in itertools.product(tasks, (*PAPER, "dqn-adam"))),
        ("xla", "CartPole", "srg-dqn"),
        ("xla", "Pendulum", "svr-dqn"),
    ]
    for kernel, task, algorithm in asked:
        options = {**TINY, "rounds": 2, "kernel": kernel, "evaluation_interval": 100}
        yield from _bits_of_run(srgdqn.train(task, algorithm, progress=False, **options))


def _host() -> Iterable[bytes]:
    for environment, kernel in ((Slope, "native"), (Slope, "xla"), (TASK, "native")):
        yield from _bits_of_run(srgdqn.train(environment, "srg-dqn", steps=64, progress=False, kernel=kernel, **SMALL))


def _measured(module: Any, plan: Any, without: str = "") -> Callable[[], Iterable[bytes]]:
    """The tables of a measurement; `without` a column of them."""

    def computed() -> Iterable[bytes]:
        for name, table in sorted(module.measure(plan, lambda share: None, threading.Event()).items()):
            yield from _bits_of_table(name, table.drop(without, strict=False))

    return computed


def _claims() -> Iterable[bytes]:
    # Verdicts are not current once something is measured otherwise.
    yield repr({name: version for name, version in VERSIONS.items() if name.startswith("measurement.")}).encode()
    yield from what_is_run_for_verdicts()
    yield resources.files("srgdqn.paper.evidence").joinpath("thresholds.json").read_bytes()
    yield from judgements()


def judgements() -> Iterable[bytes]:
    """Those of made-up worlds, with all intervals and p-values; of fewer resamples than in earnest."""
    yield repr((verdicts.RESAMPLES, training_time.first_steps(np.eye(4), np.arange(16).reshape(4, 4), 0.5))).encode()
    for found in (world(), opposite(), diverging()):
        for judgement in judged(found, "corrected", _RESAMPLES):
            contrasts = (
                tuple(map(_rounded, (*each.interval, each.p_holds, each.p_fails, each.margin)))
                for each in judgement.contrasts
            )
            yield repr((judgement.name, judgement.verdict, judgement.marks, *contrasts)).encode()


def what_is_run_for_verdicts() -> Iterable[bytes]:
    """The configuration or plan of every cell that real verdicts are taken on, and the other studies' designs."""
    for given in confirmation.SETS:
        yield from map(_question, confirmation.cells(confirmation.CONFIRMATION, given))
        yield from map(_question, confirmation.task_cells(confirmation.PILOT, given))
    yield repr((design.FACTORS, arms.WHOLE, arms.ARMS)).encode()
    table = fingerprint.FINGERPRINT
    yield repr((tuning_search.PROCEDURE, table.seed, table.spread_rounds, table.spread_steps)).encode()


_STEPS = (96, 192)
COMPUTATIONS: Mapping[str, Callable[[], Iterable[bytes]]] = {
    "training": _training,
    "host": _host,
    "measurement.anchors": _measured(anchors, anchors.Plan(tiny(rounds=2)[0], _STEPS)),
    "measurement.dose_errors": _measured(
        dose_errors, dose_errors.Plan(tiny("sgd-inner-adam", rounds=2)[0], _STEPS, ((0.0, 1), (1.0, 4)), 2)
    ),
    "measurement.exact_anchors": _measured(
        exact_anchors, exact_anchors.Plan(tiny("svr-dqn-no-adam", rounds=2, steps=128, evaluation_interval=64)[0])
    ),
    "measurement.gradient_spread": _measured(
        gradient_spread, gradient_spread.Plan(tiny(rounds=2)[0], _STEPS, window=48, batches=3, picks=2)
    ),
    # Seconds are nobody's bits: of these only the rows are compared.
    "measurement.step_times": _measured(step_times, step_times.Plan({"tiny": tiny()[0]}, 2, 4), "seconds_per_step"),
    "measurement.theorem_1": _measured(
        theorem_1,
        dataclasses.replace(
            theorem_1.TheoremPlan.quick(),
            outer_loops=(2,),
            multiples=(1.0,),
            replications=4,
            precisions=(1e-1,),
            query_replications=2,
            query_budget=600,
            step_sizes=2,
            growth_precisions=(1e-1,),
        ),
    ),
    "claims": _claims,
}


def bits_of(computation: str) -> str:
    """The digest of a small result of a computation."""
    digest = hashlib.sha256()
    for part in COMPUTATIONS[computation]():
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _bits_of_run(result: srgdqn.Result) -> Iterable[bytes]:
    for name, table in sorted(result.run.tables.items()):
        if name != "timings":
            yield from _bits_of_table(name, table)
    for name, array in sorted(result.run.parameters.items()):
        yield name.encode()
        yield np.ascontiguousarray(array).tobytes()


def _bits_of_table(name: str, table: pl.DataFrame) -> Iterable[bytes]:
    yield repr((name, table.columns)).encode()
    yield repr(table.rows()).encode()  # of a float as many digits as identify it


# Options that are younger than the records; at their defaults they ask for what was asked before.
_YOUNGER = {
    *("scale_observations", "gradient_steps", "bootstrap", "own", "direction_errors", "uniform_start", "weight_decay"),
    *("target_update_interval", "target_networks", "reward_estimation", "reward_alpha", "adam_at_copy", "keep_best"),
    *("priority_exponent", "importance_exponent", "priority_floor"),
    *("munchausen_share", "munchausen_temperature", "munchausen_floor", "n_step"),
    *("value_min", "value_max", "atoms", "hl_gauss_sigma", "action_masks"),
    *("dueling", "layer_norm", "dropout", "noisy", "noisy_sigma"),
}
_DEFAULTS: dict[str, Any] = {**Configuration().options(), "own": ()}


def _question(cell: Any) -> bytes:
    asked = dataclasses.asdict(cell.configuration if hasattr(cell, "configuration") else cell.plan)
    return json.dumps([cell.name, _as_recorded(asked)], sort_keys=True).encode()


def _as_recorded(value: Any) -> Any:
    """A question without the younger options at their defaults."""
    if not isinstance(value, dict):
        return value
    return {
        name: _as_recorded(inner) for name, inner in value.items() if name not in _YOUNGER or inner != _DEFAULTS[name]
    }


def _rounded(value: float) -> str:
    return f"{value:.{_DIGITS}g}"


# What is recorded


def kind_of_machine() -> dict[str, Any]:
    """What bits depend on beside the computation; this package's own version is none of it."""
    here = provenance()
    try:
        compiler = toolchain()
    except NoKernelError:
        compiler = None
    versions = {name: version for name, version in here["versions"].items() if name != "srgdqn"}
    return {
        "machine": here["machine"],
        "instruction_sets": here["instruction_sets"],
        "compiler": compiler,
        "versions": versions,
    }


def recorded(computation: str, entries: list[dict[str, Any]], kind: dict[str, Any]) -> dict[str, str] | None:
    """The recorded digests by version, for this kind of machine; None where nothing was recorded for it."""
    wanted = "everywhere" if computation in EVERYWHERE else kind
    return next((entry["bits"] for entry in entries if entry["kind"] == wanted), None)


def only_elsewhere(computation: str, entries: list[dict[str, Any]], kind: dict[str, Any]) -> bool:
    """Whether the present version of a computation was recorded, but on other kinds of machines only."""
    its = version_of(computation)
    return its not in (recorded(computation, entries, kind) or {}) and any(its in each["bits"] for each in entries)


def problem(computation: str, known: dict[str, str], found: str) -> str | None:
    """What is wrong if a computation has these bits; None if nothing is."""
    its = version_of(computation)
    if its not in known:
        return f"{its} has no golden bits. Run: python tests/golden_bits.py --record"
    if known[its] != found:
        return (
            f"the bits of {its} have changed. If that is meant, raise VERSIONS[{computation!r}] in runs/provenance.py "
            "and run: python tests/golden_bits.py --record"
        )
    return None


def with_record(
    entries: list[dict[str, Any]], kind: dict[str, Any], found: Mapping[str, str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The entries with what was found, and what of it was refused, as its version was not raised."""
    refused, entries = [], [{**entry, "bits": dict(entry["bits"])} for entry in entries]
    for computation, bits in found.items():
        its = version_of(computation)
        known = recorded(computation, entries, kind)
        if known is None:
            known = {}
            entries.append({"kind": "everywhere" if computation in EVERYWHERE else kind, "bits": known})
        if known.get(its, bits) != bits:
            refused.append(f"{its}: other bits are recorded. Raise VERSIONS[{computation!r}] first.")
            continue
        for older in [name for name in known if name.split()[0] == computation]:
            del known[older]
        known[its] = bits
    return entries, refused


def main() -> None:
    """Compares all bits with the recorded ones, or records them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--record", action="store_true", help="write the bits of versions that have none recorded")
    record = parser.parse_args().record
    entries = json.loads(FILE.read_text("utf-8")) if FILE.exists() else []
    kind, found = kind_of_machine(), {name: bits_of(name) for name in COMPUTATIONS}
    if record:
        entries, wrong = with_record(entries, kind, found)
        FILE.write_text(json.dumps(entries, indent=1) + "\n", "utf-8")
    else:
        problems = (problem(name, recorded(name, entries, kind) or {}, bits) for name, bits in found.items())
        wrong = [each for each in problems if each is not None]
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
