"""What bits depend on beside a configuration: as it was when a run was made, and as it is here."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from srgdqn.again.subject import Subject
from srgdqn.api import provenance_of
from srgdqn.store.provenance import what_bits_depend_on
from srgdqn.user_code import user_code

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
    return found + _other_code(subject)


def only_sources(conditions: list[Condition]) -> bool:
    """Whether nothing differs but the package's version or the user's code, which may well compute the same."""
    named = ("computation", "version of srgdqn")
    return all(each.name in named or each.name.startswith(_YOURS) for each in conditions)


def _other_code(subject: Subject) -> list[Condition]:
    """The parts of the user's code that have another identity now, or one that cannot be told. A part that only one of
    the two tells of may be the same, such as an environment that was given as an instance and is made from its id now.
    """
    then = what_bits_depend_on(subject.result.run.provenance)["user_code"]
    now = user_code(subject.configuration, subject.network, subject.environment)
    return [
        Condition(f"{_YOURS}{name}", _part(then[name]), _part(now[name]))
        for name in now
        if name in then and (then[name] != now[name] or "untold" in now[name])
    ]


def _part(told: dict[str, Any]) -> str:
    digests = [str(told[name]) for name in ("source", "values") if told.get(name) is not None]
    why = [f"({told['untold']})"] if "untold" in told else []
    return " ".join([str(told.get("name")), *digests, *why])


def _shown(value: Any) -> str:
    if value is None:
        return "not told"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return str(value)
