"""What bits depend on beside a configuration: as it was when a run was made, and as it is here."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from srgdqn.again.subject import Subject
from srgdqn.api import provenance_of

_ALWAYS = ("machine", "instruction_sets", "compiler", "backend", "source")


class Condition(NamedTuple):
    """One that differs."""

    name: str
    then: Any
    now: Any

    @property
    def words(self) -> str:
        """Both in words."""
        return f"{self.name}: {_shown(self.then)} then, {_shown(self.now)} here"


def differing(subject: Subject) -> list[Condition]:
    """The conditions that are others here than when the run was made. None is what equal bits are promised for.

    What a run of an older release does not tell counts as another.
    """
    then = subject.result.run.provenance
    now = {
        **provenance_of(subject.configuration, on_host=subject.result.on_host),
        "backend": jax.default_backend(),
    }
    before, versions = then.get("versions") or {}, now["versions"]
    found = [
        Condition(f"version of {name}", before.get(name), versions.get(name))
        for name in dict.fromkeys((*before, *versions))
        if before.get(name) != versions.get(name)
    ]
    return found + [
        Condition(name.replace("_", " "), then.get(name), now.get(name))
        for name in _ALWAYS
        if then.get(name) != now.get(name)
    ]


def only_the_source(conditions: list[Condition]) -> bool:
    """Whether nothing differs but the package's own files, which may well compute the same."""
    return all(condition.name in ("source", "version of srgdqn") for condition in conditions)


def _shown(value: Any) -> str:
    if value is None:
        return "not told"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return str(value)
