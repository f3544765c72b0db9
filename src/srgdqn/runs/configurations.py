"""Configurations as TOML: whole, as a run stores them, or partial, as users write them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

import tomli_w

from srgdqn.config import Configuration, option_names, sections
from srgdqn.config.coercion import coerce, coerce_number
from srgdqn.config.discovery import BUILT_IN_ESTIMATORS
from srgdqn.config.estimator_numbers import every_number, is_number, numbers_of_estimator
from srgdqn.config.other_names import unknown_option
from srgdqn.errors import InputError, shown, unknown

# What stands at the top of the file, above the sections' tables.
_LABELS = ("algorithm", "readings")

LONGEST = 2**16
"""Characters that a configuration may have; a whole one has 3,000."""

_MOST_DOTS = 500

_OWN = "own"  # the table, within that of the estimator, of the numbers that only this estimator has
_MOST_OWN, _LONGEST_NAME = 100, 100

# What an option that is younger than a file stood for before there was such an option, where that is not its default.
_BEFORE: dict[str, Any] = {"kernel": "xla"}


class UserOptions(NamedTuple):
    """What a user's file says; None for the names that it leaves out."""

    algorithm: str | None
    readings: str | None
    task: str | None
    options: dict[str, Any]


def dumps(configuration: Configuration) -> str:
    """The whole configuration: one table per section, every option in it, "none" where an option is off."""
    tables: dict[str, dict[str, Any]] = {section: {} for section in sections()}
    own = dict(configuration.estimator.own)
    for name, section in option_names().items():
        value = coerce(name, getattr(getattr(configuration, section), name))
        tables[section][name] = "none" if value is None else value
    if own:
        tables["estimator"][_OWN] = {name: coerce_number(name, value) for name, value in own.items()}
    return tomli_w.dumps({**{label: getattr(configuration, label) for label in _LABELS}, **tables})


def loads(text: str) -> Configuration:
    """The configuration that `dumps` wrote, each option in its section's table and of its type.

    An option that the file lacks is younger than the file: it gets the value of what was done before.
    """
    document = _parse(text)
    stray = [key for key in document if key not in (*_LABELS, *sections())]
    if stray:
        raise unknown("key in the configuration", stray[0], (*_LABELS, *sections()))
    for label in _LABELS:
        if label not in document:
            raise InputError(f"the configuration has no {label!r}. Give a whole one, as a run's folder has it.")
    for section in sections():
        if not isinstance(document.get(section, {}), dict):
            raise InputError(
                f"{section} is {shown(document[section])}, which is not a table. Write its options below [{section}]."
            )
    algorithm, readings = (_label(label, document[label]) for label in _LABELS)
    own = _own_numbers(document)
    options = {**_BEFORE, **dict(_options(document, stored=True))}
    chosen = options.get("estimator", Configuration().estimator.estimator)
    declared = numbers_of_estimator(chosen)
    for name in own:
        if chosen in ("none", *BUILT_IN_ESTIMATORS) and name not in declared:
            raise unknown(f"number of the estimator {chosen!r}", name, declared)
    return Configuration(algorithm, readings).with_options(options, own)


def options_from_toml(text: str) -> UserOptions:
    r"""What a user's file says: any options, each in the table of its section or at the top.

    >>> options_from_toml('algorithm = "svr-dqn"\neta = 0.1\n[task]\ntask = "CartPole"')
    UserOptions(algorithm='svr-dqn', readings=None, task='CartPole', options={'eta': 0.1})
    """
    document = _parse(text)
    labels = {label: _label(label, document[label]) for label in _LABELS if label in document}
    options: dict[str, Any] = {}
    for name, value in (*_own_numbers(document).items(), *_options(document)):
        if name in options:
            raise InputError(
                f"{name} is given twice, as {shown(options[name])} and as {shown(value)}. Keep one of them."
            )
        options[name] = value
    return UserOptions(labels.get("algorithm"), labels.get("readings"), options.pop("task", None), options)


def _own_numbers(document: dict[str, Any]) -> dict[str, float]:
    """Takes the table of an estimator's own numbers, which need not be known here, out of the document."""
    section = document.get("estimator")
    own = section.pop(_OWN, {}) if isinstance(section, dict) else {}
    if not isinstance(own, dict) or len(own) > _MOST_OWN:
        table = f"a table of at most {_MOST_OWN} numbers"
        raise InputError(f"estimator.{_OWN} is {shown(own)}, which is not {table}. Correct the file.")
    for name in own:
        if not name.isidentifier() or not name.isprintable() or len(name) > _LONGEST_NAME:
            raise InputError(f"[estimator.{_OWN}] has {shown(name)}, which is no name of a number. Correct the file.")
        if name in (*option_names(), *_LABELS):
            raise InputError(f"{name} stands in [estimator.{_OWN}], but is no number of an estimator. Move it.")
    return {name: coerce_number(name, value) for name, value in own.items()}


def _options(document: dict[str, Any], *, stored: bool = False) -> Iterator[tuple[str, Any]]:
    """Every option in the document. Three names are an option's and a section's: there a table is the section. In a
    `stored` one an estimator's own numbers stand in their own table alone, so that no package is asked for them.
    """
    homes = option_names()
    for key, value in document.items():
        if key in _LABELS:
            continue
        if isinstance(value, dict):
            if key not in sections():
                raise unknown("table", key, sections())
            for name, inner in value.items():
                yield _option(name, inner, section=key, stored=stored)
        elif key in homes or is_number(key):
            yield key, coerce(key, value)
        else:
            raise unknown_option(key, (*_LABELS, *homes, *every_number()), "key")


def _option(name: str, value: Any, section: str, stored: bool) -> tuple[str, Any]:
    homes = option_names()
    if section == "estimator" and not stored and name not in homes and is_number(name):
        return name, coerce(name, value)
    if name not in homes:
        raise unknown_option(name, homes, f"option in [{section}]")
    if homes[name] != section:
        raise InputError(
            f"{name} = {shown(value)} stands in [{section}], but its table is [{homes[name]}]. Move it there."
        )
    return name, coerce(name, value)


def _label(label: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise InputError(f"{label} is {shown(value)}, which is not a name. Write it in quotes.")
    return value


def _parse(text: str) -> dict[str, Any]:
    # The parser's time and memory grow faster than a text, and than the parts of a dotted name.
    if len(text) > LONGEST:
        raise InputError(f"this has {len(text)} characters, and a configuration at most {LONGEST}. Correct the file.")
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise InputError("this is not TOML of ours: a line has too many dots. Correct the file.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError also stands for integers of too many digits
        raise InputError(f"this is not TOML: {error}. Correct the file, or write a new one.") from error
