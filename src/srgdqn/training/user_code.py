"""The identity of the user's own code in a run: a network, an estimator, an environment.

Of a program a run stores nothing but its identity: a name, a digest of its source file, and a digest of its `values`.
These are whatever it was made with: the code of functions, their defaults, closures and the globals they use, what is
bound by `functools.partial`, and the state of objects. Arrays count with all their bytes. The identity is the same in
another process.

An object whose state cannot be read (a generator, an open file, an object of a compiled library) cannot be compared.
Then the identity says so (`unidentified`), and equals none (`runs.provenance`).
"""

from __future__ import annotations

import ast
import contextlib
import copyreg
import dis
import enum
import functools
import hashlib
import inspect
import json
import logging
import pathlib
import struct
import sys
import sysconfig
import threading
import types
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.experimental.functional import FuncEnv

from srgdqn.adapters.environments import Source
from srgdqn.config import Configuration
from srgdqn.config.discovery import OWN_RULES
from srgdqn.config.identifiers import plain
from srgdqn.learner.estimators import Estimator, definition_of, own_estimators
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.provenance import digest_of_bytes

_OURS = "srgdqn"
_PACKAGE = Path(__file__).parents[1]
# Of Gymnasium's own environments, whose version every run records, these are made of other packages, too.
_MADE_OF = {"gymnasium.envs.box2d": "Box2D", "gymnasium.envs.mujoco": "mujoco"}
_FROZEN = "<frozen "  # how the files of modules begin that Python has within it
_NO_SOURCE = "its source file cannot be found, so that a change of it would not be seen"

# Reading stops here, some seconds on: what is larger is unidentified.
_MOST_BYTES, _MOST_OBJECTS, _DEEPEST = 2**30, 250_000, 100


def user_code(
    configuration: Configuration,
    network: eqx.Module | NetworkFactory | None = None,
    environment: FuncEnv | Source | None = None,
) -> dict[str, Any]:
    """The identity of each part that is the user's own, by its name, as JSON values; an id of Gymnasium's counts as
    such, as anybody may register one. Nothing of networks, estimators and compiled tasks that come with the package.
    """
    estimator = own_estimators().get(configuration.estimator.estimator)
    parts = {
        "network": None if network is None else identity_of(network),
        "estimator": None if estimator is None else _estimator(estimator),
        "environment": _environment(environment),
        **{option: identity_of(rule) for option, rule in _rules(configuration)},
    }
    return {name: part for name, part in parts.items() if part is not None}


def _rules(configuration: Configuration) -> Iterator[tuple[str, Any]]:
    """The user's own rules that a configuration names, by option."""
    options = configuration.options()
    for option, rules in OWN_RULES.items():
        if options[option] in rules:
            yield option, rules[options[option]]


def modules_behind(parts: Iterable[Any]) -> list[types.ModuleType]:
    """The user's own modules that rules and the functions of estimators come from, and those of the user's that these
    import.
    """
    functions = [function for each in parts for function in _functions_of(each)]
    homes = {str(definition_of(function).__module__) for function in functions}
    names = {name for home in homes for name in _sources_behind(home)}
    return [sys.modules[name] for name in sorted(names) if name in sys.modules]


def _functions_of(part: Any) -> list[Any]:
    """A rule, or the functions of an estimator."""
    if not isinstance(part, Estimator):
        return [part]
    return [each for each in (*part, *(function for _, function in part.logged)) if callable(each)]


def code_of(
    configuration: Configuration,
    network: eqx.Module | NetworkFactory | None = None,
    environment: FuncEnv | None = None,
) -> str:
    """What tells compiled programs of the user's own code apart, beside the objects: these may change after a while."""
    return json.dumps(user_code(configuration, network, environment), sort_keys=True)


class Identity:
    """Makes any object a cache key: equal only to itself, and held for as long as the key is."""

    def __init__(self, item: object) -> None:
        self.item = item

    def __hash__(self) -> int:
        return id(self.item)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.item is other.item


def unreadable_parts(configuration: Configuration) -> tuple[Identity, ...]:
    """The user's own estimator and rules whose identity cannot be read: each is known only as the object that it is."""
    estimator = own_estimators().get(configuration.estimator.estimator)
    parts = [(estimator, _estimator(estimator))] if estimator is not None else []
    parts += [(rule, identity_of(rule)) for _, rule in _rules(configuration)]
    return tuple(Identity(part) for part, identity in parts if "unidentified" in identity)


def _estimator(estimator: Estimator) -> dict[str, Any]:
    """Under the name of its direction; the values are those of all its functions."""
    return {**identity_of(estimator.direction), **_values(estimator, "the estimator")}


def identity_of(part: Any) -> dict[str, Any]:
    """The identity of a function, a class or an object: its name, the digest of its source file (None where there is
    none), and the digest of its values; `unidentified` is why two such parts cannot be compared, where they cannot.
    """
    definition = definition_of(part)
    values = _values(part, definition.__qualname__)
    file = _file_of(definition)
    if _library(file) == _OURS:  # its version is that of the computation
        return {"name": f"{_OURS}.{definition.__qualname__}", "source": None, **values}
    return {"name": f"{definition.__module__}.{definition.__qualname__}", "source": _source(file), **values}


def _values(part: Any, where: str) -> dict[str, str]:
    reader = _Reader()
    digest = reader.digest(part, where).hex()[:16]
    return (
        {"values": digest} if reader.unidentified is None else {"values": digest, "unidentified": reader.unidentified}
    )


def _environment(environment: FuncEnv | Source | None) -> dict[str, Any] | None:
    if environment is None:
        return None
    if not isinstance(environment, Source):
        return identity_of(environment)
    if environment.given is not None:
        return _of_instance(environment.given)
    recipe = environment.recipe
    if callable(recipe) and not isinstance(recipe, EnvSpec):
        return identity_of(recipe)
    spec = recipe if isinstance(recipe, EnvSpec) else gym.registry.get(plain(environment.name))
    return None if spec is None else _of_spec(spec)


def _of_instance(environment: Any) -> dict[str, Any]:
    """The identity of the environment within all wrappers, with the names of these; the values are those of all."""
    layers = [environment]
    while hasattr(layers[-1], "env") and layers[-1].env is not layers[-1]:
        layers.append(layers[-1].env)
    *wrappers, core = layers
    about = {**identity_of(core), **_values(environment, "the environment")}
    names = [f"{type(each).__module__}.{type(each).__qualname__}" for each in wrappers]
    return {**about, "wrappers": names} if names else about


def _of_spec(spec: EnvSpec) -> dict[str, Any] | None:
    """The identity of what an id is registered with: `module:name`, whose module need not be imported, or a function;
    and the arguments it is made with.
    """
    entry_point = spec.entry_point
    if entry_point is None:
        return None
    options = {"kwargs": spec.kwargs, "steps": spec.max_episode_steps, "wrappers": spec.additional_wrappers}
    if not isinstance(entry_point, str):
        return {**identity_of(entry_point), **_values({"entry_point": entry_point, **options}, spec.id)}
    sources = _sources_behind(entry_point.partition(":")[0])
    return {**identity_of_entry_point(entry_point), **_values({"sources": sources, **options}, spec.id)}


def identity_of_entry_point(entry_point: str) -> dict[str, Any]:
    """The identity of `module:name`, whose module is not imported: its name, its source, and the version of the
    distribution that it comes with or is made of.
    """
    module, _, name = entry_point.partition(":")
    package = module.partition(".")[0]
    if package == _OURS:
        return {"name": f"{_OURS}.{name}", "source": None}
    about: dict[str, Any] = {"name": f"{module}.{name}", "source": _source(_file_of_module(module))}
    versions = _versions(next((its for start, its in _MADE_OF.items() if module.startswith(start)), package))
    if versions:
        about["versions"] = versions
    elif about["source"] is None:
        about["unidentified"] = _NO_SOURCE
    return about


# Reading values

_ATOMS = (type(None), bool, complex, range, type(Ellipsis), type(NotImplemented))
_BUILT_IN = (
    types.BuiltinFunctionType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodWrapperType,
)
# Of these no two differ in what they compute.
_ALIKE = (type(threading.Lock()), type(threading.RLock()))
# What Python writes into classes, some of it late.
_OF_CLASSES = frozenset(
    [
        "__module__",
        "__qualname__",
        "__doc__",
        "__dict__",
        "__weakref__",
        "__annotations__",
        "__annotate_func__",
        "__annotations_cache__",
        "__firstlineno__",
        "__static_attributes__",
        "__abstractmethods__",
        "_abc_impl",
        "__slotnames__",
        "__parameters__",
        "__orig_bases__",
        "__dataclass_fields__",
        "__dataclass_params__",
    ]
)
# Random numbers of an environment and its spaces, which every round seeds.
_SEEDED = frozenset({"_np_random", "_np_random_seed"})


class _Reader:
    """Reads a part with everything in it once, and makes digests of it.

    No digest depends on where an object lies in memory, on the order of a set, or on whether two equal objects are one.
    """

    def __init__(self) -> None:
        self.unidentified: str | None = None
        """The first object that could not be read, in words."""
        self._done: dict[int, tuple[Any, bytes]] = {}  # with the object, so that no other gets its id
        self._within: dict[int, int] = {}  # how deep the objects lie that are being read
        self._objects = self._bytes = 0

    def digest(self, part: Any, where: str) -> bytes:
        """The digest of a part; `where` says in words what it is."""
        if type(part) in _ATOMS:
            return self._hashed(type(part).__name__, repr(part).encode())
        if type(part) in (str, bytes, bytearray):
            self._count(size=len(part))
            data = part.encode("utf-8", "surrogatepass") if type(part) is str else part
            return self._hashed(type(part).__name__, data)
        if type(part) is int:
            return self._hashed("int", hex(part).encode())
        if type(part) is float:
            return self._hashed("float", struct.pack("<d", part))
        its = id(part)
        if its in self._done:
            return self._done[its][1]
        if its in self._within:
            return self._hashed("above", str(len(self._within) - self._within[its]).encode())
        if len(self._within) >= _DEEPEST:
            return self._cannot(f"{where} is nested more than {_DEEPEST} levels deep")
        self._within[its] = len(self._within)
        try:
            found = self._read(part, where)
        except _TooMuchError as error:
            if len(self._within) > 1:
                raise
            found = self._cannot(f"{where} {error}")
        except Exception as error:  # reading runs the user's code, such as __reduce__
            found = self._cannot(f"{where} cannot be read ({type(error).__name__}: {error})")
        finally:
            del self._within[its]
        self._done[its] = part, found
        return found

    def _read(self, part: Any, where: str) -> bytes:
        match part:
            case type():
                return self._class(part, where)
            case types.FunctionType():
                return self._function(part, where)
            case types.CodeType():
                return self._code(part, where)
            case types.MethodType():
                return self._all("method", (part.__func__, part.__self__), where)
            case types.CellType():
                return self._all("cell", _content(part), where)
            case types.ModuleType():
                return self._module(part, where)
            case staticmethod() | classmethod():
                return self._all(type(part).__name__, (part.__func__,), where)
            case property():
                return self._all("property", (part.fget, part.fset, part.fdel), where)
            case np.ma.MaskedArray():
                return self._all("masked", (np.ma.getdata(part), np.ma.getmaskarray(part)), where)
            case np.ndarray() | np.generic() | jax.Array():
                return self._array(part, where)
            case np.dtype():
                return self._hashed("dtype", repr(part.descr).encode())
            case enum.Enum():
                return self._all("enum", (type(part), part.name), where)
            case pathlib.PurePath() | logging.Logger():
                return self._all("named", (type(part).__name__, getattr(part, "name", ""), str(part)), where)
        if isinstance(part, _BUILT_IN):
            bound = getattr(part, "__self__", None)
            owner = None if isinstance(bound, types.ModuleType) else bound
            return self._all("builtin", (getattr(part, "__module__", None), part.__qualname__, owner), where)
        if isinstance(part, _ALIKE):
            return self._hashed("alike", type(part).__name__.encode())
        return self._object(part, where)

    def _module(self, module: types.ModuleType, where: str) -> bytes:
        """A library by its version, a user's module by all that is in it."""
        if (known := _library(getattr(module, "__file__", None))) is not None:
            return self._hashed("module", repr((module.__name__, known)).encode())
        inside = {name: value for name, value in vars(module).items() if not name.startswith("__")}
        return self._all("module", (module.__name__, self._named(inside.items(), where)), where)

    def _object(self, part: Any, where: str) -> bytes:
        kind = type(part)
        parts: list[Any] = [kind]
        if isinstance(part, tuple | list):
            fields = getattr(kind, "_fields", ())
            names = zip(fields, part, strict=True) if len(fields) == len(part) else None
            parts.append(self._all("items", part, where) if names is None else self._named(names, where))
        elif isinstance(part, dict | types.MappingProxyType):
            parts += [self._pairs(part, where), getattr(part, "default_factory", None)]
        elif isinstance(part, set | frozenset):
            parts.append(self._hashed("set", *sorted(self.digest(each, f"an element of {where}") for each in part)))
        elif isinstance(part, functools.partial):
            parts += [part.func, self._all("items", part.args, where), self._named(part.keywords.items(), where)]
        elif isinstance(part, memoryview):
            parts.append(bytes(part))
        elif _hides_state(kind):
            if "__wrapped__" in getattr(part, "__dict__", ()):  # compiled, or with a cache
                return self._all("wrapper", (kind, vars(part)["__wrapped__"]), where)
            parts.append(self._reduced(part, where))
        parts.append(self._named(_state(part).items(), where))
        return self._all("object", parts, where)

    def _reduced(self, part: Any, where: str) -> bytes:
        """What pickle would take of an object of a compiled type; what it refuses is unidentified."""
        try:
            registered = copyreg.dispatch_table.get(type(part))
            how = part.__reduce_ex__(4) if registered is None else registered(part)
        except Exception:
            kind = type(part)
            return self._cannot(f"{where} is a {kind.__module__}.{kind.__qualname__}, whose state cannot be read")
        if isinstance(how, str):
            return self._hashed("global", how.encode())
        made, arguments, *rest = how
        items = [list(each) if position and each is not None else each for position, each in enumerate(rest[:3])]
        return self._all("reduced", (made, arguments, *items), where)

    def _array(self, array: Any, where: str) -> bytes:
        if isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
            return self._all("key", (str(array.dtype), np.asarray(jax.random.key_data(array))), where)
        values = np.asarray(array)
        if values.dtype.hasobject:
            return self._all("array", (values.shape, values.tolist()), where)
        self._count(size=values.nbytes)
        about = repr((values.dtype.descr, values.shape)).encode()
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data if values.size else b""
        return self._hashed("array", about, data)

    def _function(self, function: types.FunctionType, where: str) -> bytes:
        name = function.__qualname__
        inside = where if where.endswith(name) else f"{where} ({name})"
        code, values = function.__code__, function.__globals__
        library = _library(code.co_filename)
        parts = [
            _shown_name(function),
            _source(code.co_filename) if library is None else library,
            None if library == _OURS else code,
            function.__defaults__,
            function.__kwdefaults__,
            self._named(zip(code.co_freevars, function.__closure__ or (), strict=True), inside),
        ]
        if library is None:
            used = dict(_reached(values, names) for names in _used(code) if names[0] in values)
            parts += [self._named(used.items(), inside), self._named(vars(function).items(), inside)]
            parts.append(self._named(self._imported(code, values, inside), inside))
        return self._all("function", parts, where)

    def _imported(self, code: types.CodeType, values: Mapping[str, Any], where: str) -> list[tuple[str, Any]]:
        """The user's modules that a function imports when it runs."""
        found = []
        for name in _imports(code, values.get("__package__")):
            module = sys.modules.get(name)
            if module is None and _library(_file_of_module(name)) is None:
                self._cannot(f"{where} imports {name} when it runs. Import it at the top of its file")
            elif module is not None:
                found.append((name, module))
        return found

    def _code(self, code: types.CodeType, where: str) -> bytes:
        about = (code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags)
        sizes = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
        return self._all("code", (*about, *sizes, getattr(code, "co_exceptiontable", b""), code.co_consts), where)

    def _class(self, kind: type, where: str) -> bytes:
        library = _library(_file_of(kind))
        name = _shown_name(kind)
        if library is not None:
            return self._hashed("class", repr((library, name)).encode())
        members = {key: value for key, value in vars(kind).items() if key not in _OF_CLASSES}
        return self._all(
            "class", (name, _source(_file_of(kind)), kind.__bases__, self._named(members.items(), name)), where
        )

    def _pairs(self, given: Mapping[Any, Any], where: str) -> bytes:
        """In their order, which may matter."""
        digests = (
            self.digest(key, f"a key of {where}") + self.digest(value, f"{where}[{_key(key)}]")
            for key, value in list(given.items())
        )
        return self._hashed("mapping", *digests)

    def _named(self, given: Iterable[tuple[str, Any]], where: str) -> bytes:
        pairs = sorted(given, key=lambda pair: str(pair[0]))
        return self._hashed(
            "named", *(str(name).encode() + b"\0" + self.digest(value, f"{where}.{name}") for name, value in pairs)
        )

    def _all(self, kind: str, parts: Iterable[Any], where: str) -> bytes:
        return self._hashed(kind, *[self.digest(part, where) for part in parts])

    def _hashed(self, kind: str, *parts: bytes | memoryview) -> bytes:
        self._count()
        digest = hashlib.sha256(kind.encode())
        for part in parts:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.digest()

    def _cannot(self, reason: str) -> bytes:
        self.unidentified = reason if self.unidentified is None else self.unidentified
        return b"?"

    def _count(self, size: int = 0) -> None:
        self._objects, self._bytes = self._objects + 1, self._bytes + size
        if self._bytes > _MOST_BYTES:
            raise _TooMuchError(f"holds more than {_MOST_BYTES / 2**30:g} GiB of arrays")
        if self._objects > _MOST_OBJECTS:
            raise _TooMuchError(f"holds more than {_MOST_OBJECTS:,} objects")


class _TooMuchError(Exception):
    """Reading on would take too long."""


def _content(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # it is empty
        return ()


def _state(part: Any) -> dict[str, Any]:
    """An object's attributes, in its dictionary or in slots, whatever its own `__getstate__` leaves out."""
    found = object.__getstate__(part)
    attributes, slots = found if isinstance(found, tuple) else (found, None)
    state = {**(slots or {}), **(attributes or {})}
    if isinstance(part, gym.Env | gym.Space | gym.vector.VectorEnv):
        kind: Any = type(part)
        passing = _SEEDED | _reset_by_library(kind)
        return {name: value for name, value in state.items() if name not in passing}
    return state


@functools.cache
def _reset_by_library(kind: type) -> frozenset[str]:
    """The attributes of an environment that a library's class, such as Gymnasium's own, sets anew in every episode."""
    methods = [
        vars(each)[name]
        for each in kind.__mro__
        for name in ("reset", "step", "render", "close")
        if name in vars(each) and _library(_file_of(each)) is not None
    ]
    codes = [each.__code__ for each in methods if isinstance(each, types.FunctionType)]
    instructions = (instruction for code in codes for instruction in dis.get_instructions(code))
    return frozenset(str(each.argval) for each in instructions if each.opname == "STORE_ATTR")


def _hides_state(kind: type) -> bool:
    """Whether objects of a type have more in them than attributes: those of a type that is written in C have."""
    slots = len(copyreg._slotnames(kind))  # type: ignore[attr-defined]
    known = slots + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__itemsize__ != 0 or kind.__basicsize__ > object.__basicsize__ + struct.calcsize("P") * known


def _used(code: types.CodeType) -> set[tuple[str, ...]]:
    """The globals that a function uses, or one that is defined in it, each with the attributes that are read from it:
    `a.b.c` is a name of three parts.
    """
    found, chain = set[tuple[str, ...]](), list[str]()
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain.append(str(each.argval))
            continue
        found.update([tuple(chain)] if chain else [])
        chain = [str(each.argval)] if each.opname in ("LOAD_GLOBAL", "LOAD_NAME") else []
    found.update([tuple(chain)] if chain else [])
    return found.union(*(_used(each) for each in code.co_consts if isinstance(each, types.CodeType)))


def _reached(values: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, Any]:
    """What a name of several parts leads to within the user's modules: a library, or a value, counts as it is."""
    value, done = values[names[0]], 1
    while isinstance(value, types.ModuleType) and _library(getattr(value, "__file__", None)) is None:
        if done == len(names) or not hasattr(value, names[done]):
            break
        value, done = getattr(value, names[done]), done + 1
    return ".".join(names[:done]), value


def _imports(code: types.CodeType, package: Any) -> set[str]:
    """The modules that a function imports when it runs, or one that is defined in it."""
    found, level = set[str](), 0
    for each in dis.get_instructions(code):
        if each.opname == "IMPORT_NAME":
            name = str(each.argval)
            found.add(resolve_name("." * level + name, package) if level and package else name)
        elif type(each.argval) is int and each.opname.startswith("LOAD_"):
            level = each.argval  # what comes before: the number of dots, and the names
    return found.union(*(_imports(each, package) for each in code.co_consts if isinstance(each, types.CodeType)))


def _key(key: Any) -> str:
    return repr(key) if isinstance(key, str | int) else type(key).__name__


# Where code comes from


def _shown_name(definition: Any) -> str:
    """The qualified name; of what comes with this package without the module, which may be renamed."""
    module = str(definition.__module__)
    return str(definition.__qualname__) if module.partition(".")[0] == _OURS else f"{module}.{definition.__qualname__}"


def _file_of(definition: Any) -> str | None:
    """The file that a class or a function was defined in, compiled ones included."""
    if isinstance(definition, types.FunctionType):
        return definition.__code__.co_filename
    with contextlib.suppress(TypeError, OSError, AttributeError):
        return inspect.getfile(inspect.unwrap(definition))
    module = str(getattr(definition, "__module__", None))
    if module.partition(".")[0] in sys.stdlib_module_names:
        return f"{_FROZEN}{module}>"
    while module:  # a part of a compiled module has no file of its own
        file = getattr(sys.modules.get(module), "__file__", None)
        if file is not None:
            return str(file)
        module = module.rpartition(".")[0]
    return None


def _source(file: str | None) -> str | None:
    """The digest of a file; None where there is none, as of what was typed at a prompt."""
    try:
        return None if file is None else digest_of_bytes(Path(file).read_bytes())
    except OSError:
        return None


@functools.cache
def _library(file: str | None) -> str | None:
    """The library that a file belongs to, with its version; None for the user's own. This package's version is that of
    the computation.
    """
    if file is None:
        return None
    if file.startswith(_FROZEN):
        return "python"
    place = Path(file)
    if place.is_relative_to(_PACKAGE):
        return _OURS
    for installed in ("site-packages", "dist-packages"):
        if installed in place.parts:
            package = place.parts[place.parts.index(installed) + 1].partition(".")[0]
            return repr((package, sorted(_versions(package).items())))
    paths = sysconfig.get_paths()
    return "python" if any(place.is_relative_to(paths[each]) for each in ("stdlib", "platstdlib")) else None


@functools.cache
def _versions(package: str) -> dict[str, str]:
    """The version of the distribution of that name or, where there is none, of those that have a package of it."""
    with contextlib.suppress(metadata.PackageNotFoundError, ValueError):
        return {package: metadata.version(package)}
    names = metadata.packages_distributions().get(package, [])  # which looks through all that is installed
    return {name: metadata.version(name) for name in dict.fromkeys(names)}


def _file_of_module(module: str) -> str | None:
    """The file of a module, which is looked for below its first package: Python's own way would run those between, and
    whatever they import.
    """
    first, *rest = module.split(".")
    if first in sys.stdlib_module_names:
        return f"{_FROZEN}{first}>"
    try:
        spec = find_spec(first)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    place = Path(spec.origin)
    if rest:
        place = place.parent.joinpath(*rest)
        place = place / "__init__.py" if place.is_dir() else place.with_name(f"{place.name}.py")
    return str(place)


def _sources_behind(module: str) -> dict[str, str | None]:
    """The digests of a user's module and of the user's modules that these import, by reading them: none is run."""
    found: dict[str, str | None] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = _file_of_module(name)
        if name in found or file is None or _library(file) is not None:
            continue
        found[name] = _source(file)
        package = name if file.endswith("__init__.py") else name.rpartition(".")[0]
        with contextlib.suppress(SyntaxError, ValueError, OSError):
            waiting += _imported_by(ast.parse(Path(file).read_bytes()), package)
        waiting += [".".join(name.split(".")[:parts]) for parts in range(1, name.count(".") + 1)]  # are run before it
    return found


def _imported_by(tree: ast.AST, package: str) -> Iterator[str]:
    """The names of modules that a source imports, and of what may be one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package) if node.level else str(node.module)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
