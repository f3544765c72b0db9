"""What a result was computed from, and its hash: the configuration, and what can be told of the user's own parts.

A network, an estimator or an environment that is the user's own is a program, of which a run keeps nothing. So that two
runs can be told apart by what they were made with, its qualified name and a digest of its source file are kept. No path
is.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from srgdqn.config import Configuration
from srgdqn.runs import configurations

_LENGTH = 16  # letters of a digest
_UNTOLD = "its source file cannot be found, so that a change of it would not be seen"


def inputs_of(configuration: Configuration, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The inputs of a run, as JSON values: the digest of its configuration, what is told of each of the user's `own`
    parts (by `told`; none where a part is None), and the `digest` of both.
    """
    parts = {name: part for name, part in (own or {}).items() if part is not None}
    return hashed({"configuration": _digest(configurations.dumps(configuration).encode()), "own": parts})


def hashed(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs that are JSON values, with the digest of all of them."""
    return {"digest": _digest(json.dumps(inputs, sort_keys=True).encode()), **inputs}


def told(thing: Any, values: Callable[[], str] | None = None) -> dict[str, Any]:
    """What can be told of a class, a function or an instance: its name and the digest of its source file; `values`
    gives the digest of the numbers in it, where it has any.
    """
    its = _definition(thing)
    source = _source(its)
    about = {"name": f"{its.__module__}.{its.__qualname__}", "source": source}
    if source is None:
        about["untold"] = _UNTOLD
    if values is not None:
        about["values"] = values()
    return about


def told_of_environment(environment: Any) -> dict[str, Any]:
    """What can be told of an environment: of its class, and of every wrapper's around it, outermost first."""
    layers = [environment]
    while hasattr(layers[-1], "env") and layers[-1].env is not layers[-1]:
        layers.append(layers[-1].env)
    *wrappers, core = [told(layer) for layer in layers]
    return {**core, "wrappers": wrappers} if wrappers else core


def told_of_entry_point(entry_point: Any, made_of: str | None = None) -> dict[str, Any]:
    """What can be told of what an id is registered with: `module:name`, whose module need not be imported, or a
    function. The version of the distribution that it comes with, or is `made_of`, is told, too.
    """
    if not isinstance(entry_point, str):
        return told(entry_point)
    module, _, name = entry_point.partition(":")
    source = _module_source(module)
    about: dict[str, Any] = {"name": f"{module}.{name}", "source": source}
    if source is None:
        about["untold"] = _UNTOLD
    versions = _versions(module.partition(".")[0] if made_of is None else made_of)
    return {**about, "versions": versions} if versions else about


def digest_of_bytes(data: bytes) -> str:
    """The digest by which inputs are told apart."""
    return _digest(data)


@functools.cache
def _versions(package: str) -> dict[str, str]:
    """The version of the distribution of that name or, where there is none, of those that have a package of it."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return {package: metadata.version(package)}
    names = metadata.packages_distributions().get(package, [])  # which looks through all that is installed
    return {name: metadata.version(name) for name in dict.fromkeys(names)}


def _definition(thing: Any) -> Any:
    """The class or the function that a thing is, or is an instance of."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    return thing if hasattr(thing, "__qualname__") else type(thing)


def _source(its: Any) -> str | None:
    try:
        file = inspect.getsourcefile(its)
        return None if file is None else _digest(Path(file).read_bytes())
    except (TypeError, OSError):  # made by a compiled module, or typed at a prompt
        return None


def _module_source(module: str) -> str | None:
    """Of a module's source file, which is looked for below its first package: Python's own way would run those between,
    and whatever they import.
    """
    first, *rest = module.split(".")
    try:
        spec = find_spec(first)
        if spec is None or spec.origin is None:
            return None
        place = Path(spec.origin)
        if rest:
            place = place.parent.joinpath(*rest)
            place = place / "__init__.py" if place.is_dir() else place.with_name(f"{place.name}.py")
        return _digest(place.read_bytes())
    except (ImportError, ValueError, OSError):
        return None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_LENGTH]
