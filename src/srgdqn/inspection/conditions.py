"""What bits depend on beside a configuration: as it was when a run was made, and as it is here."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from srgdqn.api import provenance_of
from srgdqn.inspection.saved_run import Subject
from srgdqn.runs.provenance import what_bits_depend_on
from srgdqn.runs.user_code import own_parts

_YOURS = "your "
_ALWAYS = ("machine", "instruction_sets", "compiler", "backend", "computation")


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
    found += [
        Condition(name.replace("_", " "), then.get(name), now.get(name))
        for name in _ALWAYS
        if then.get(name) != now.get(name)
    ]
    return found + _other_parts(subject)


def only_sources(conditions: list[Condition]) -> bool:
    """Whether nothing differs but the package's version or the user's code, which may well compute the same."""
    named = ("computation", "version of srgdqn")
    return all(each.name in named or each.name.startswith(_YOURS) for each in conditions)


def _other_parts(subject: Subject) -> list[Condition]:
    """The user's own parts that are told of otherwise now. One that only one of the two tells of may be the same, such
    as an environment that was given as an instance and is made from its id now.
    """
    then = what_bits_depend_on(subject.result.run.provenance)["own"]
    now = own_parts(subject.configuration, subject.network, subject.environment)
    return [
        Condition(f"{_YOURS}{name}", _part(then[name]), _part(now[name]))
        for name in now
        if name in then and then[name] != now[name]
    ]


def _part(told: dict[str, Any]) -> str:
    digests = [str(told[name]) for name in ("source", "values") if told.get(name) is not None]
    return " ".join([str(told.get("name")), *digests])


def _shown(value: Any) -> str:
    if value is None:
        return "not told"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return str(value)
