"""`srgdqn show`: what a saved run was, and what it came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from srgdqn.cli.options import SavedRun
from srgdqn.cli.parsing import parse
from srgdqn.config import Configuration, option_names
from srgdqn.config.checks import BUDGETS
from srgdqn.config.presets import PRESETS

if TYPE_CHECKING:
    from srgdqn.results.result import Result


@dataclass(frozen=True)
class Show:
    """Shows what a saved run was, and what it came to."""

    run: SavedRun
    """Folder that a run was saved in."""
    json: bool = False
    """Print everything as JSON on standard output."""


def run(words: Sequence[str]) -> int:
    """Shows a run."""
    asked = parse(Show, words)

    from srgdqn.cli.presentation import phase_seconds, print_json, print_rows, print_summary
    from srgdqn.results.comparison import departures, summarise
    from srgdqn.results.result import load_result

    result = load_result(asked.run)
    summary = summarise(result)
    configuration = result.configuration
    if asked.json:
        changed = {
            name: {"value": value, "default": default} for name, (value, default) in departures(configuration).items()
        }
        print_json(
            {
                "run": str(asked.run),
                "configuration": {
                    "algorithm": configuration.algorithm,
                    "readings": configuration.readings,
                    **configuration.options(),
                },
                "departures": changed,
                "provenance": result.run.provenance,
                "summary": summary.as_dict(),
                "phase_seconds": phase_seconds(result),
            }
        )
        return 0
    print_rows(str(asked.run), _about(result))
    print_summary(result, summary)
    return 0


def _about(result: Result) -> list[tuple[str, str]]:
    """A run's configuration and provenance in brief."""
    from srgdqn.cli.presentation import NOTHING
    from srgdqn.results.comparison import departures, option_text

    configuration, provenance = result.configuration, result.run.provenance
    versions: dict[str, Any] = provenance.get("versions", {})
    changed = [
        f"{name} {option_text(value)}"
        + (f" (not {option_text(default)})" if default is not None or name in option_names() else "")
        for name, (value, default) in departures(configuration).items()
        if name not in (*BUDGETS, "rounds", "seed")
    ]
    return [
        ("task", configuration.task.task),
        ("algorithm", configuration.algorithm),
        ("readings", configuration.readings),
        ("budget", _budget(configuration)),
        ("rounds", f"{configuration.training.rounds}, from seed {configuration.training.seed}"),
        ("other than preset", ", ".join(changed) or "nothing"),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items() if version) or NOTHING),
        ("host", _host(provenance) or NOTHING),
        ("engine", str(provenance.get("engine") or NOTHING)),
        ("inputs", _inputs(provenance) or NOTHING),
    ]


def _host(provenance: Mapping[str, Any]) -> str:
    """What kind of machine it was made on, and with which compiler where that matters."""
    machine = [str(provenance[key]) for key in ("processor", "machine", "system") if provenance.get(key)]
    sizes = [
        f"{provenance[key]} {unit}" for key, unit in (("cores", "cores"), ("memory_gib", "GiB")) if provenance.get(key)
    ]
    computed = [str(provenance[key]) for key in ("precision", "backend") if provenance.get(key)]
    compiler = [str(provenance["compiler"]).split(",")[0]] if provenance.get("compiler") else []
    return ", ".join([*machine, *provenance.get("instruction_sets", []), *sizes, *computed, *compiler])


def _inputs(provenance: Mapping[str, Any]) -> str:
    """The hash of what it was computed from, and the user's code among that."""
    inputs = provenance.get("inputs")
    if not isinstance(inputs, dict):
        return ""
    code = inputs.get("user_code")
    known = {name: part for name, part in code.items() if isinstance(part, dict)} if isinstance(code, dict) else {}
    parts = [f"{name} {part.get('name')} (source {part.get('source') or 'unknown'})" for name, part in known.items()]
    configuration = [f"configuration {inputs['configuration']}"] if "configuration" in inputs else []
    return ", ".join([str(inputs.get("digest")), *configuration, *parts])


def _budget(configuration: Configuration) -> str:
    from srgdqn.cli.presentation import budget

    spent = budget(configuration.options())
    named = PRESETS.get(configuration.task.task)
    return spent if named is None or budget(named) == spent else f"{spent} (preset: {budget(named)})"
