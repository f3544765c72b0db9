"""The identity of the user's own code: the same in any process, and another for whatever computes otherwise."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import hashlib
import importlib
import json
import operator
import os
import random
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srgdqn
from cut_short import CutShort, Killed
from host_environments import SMALL, Counting
from srgdqn.adapters.environments import source_of
from srgdqn.config.configure import configure
from srgdqn.config.discovery import OWN_RULES
from srgdqn.errors import InputError
from srgdqn.estimators import Direction, recursion
from srgdqn.learner.estimators import ESTIMATORS, Estimator, estimator
from srgdqn.runs.unfinished import beside, has_checkpoints
from srgdqn.session.cache import why_invalid
from srgdqn.training import program
from srgdqn.training.program import Once
from srgdqn.training.user_code import identity_of, identity_of_entry_point, unreadable_parts, user_code
from tiny import LEVERS, STUBBORN, TINY, Levers, Stubborn, outcome

MINE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]


def test_what_comes_with_the_package_is_nobodys_own_code() -> None:
    assert user_code(configure("CartPole")) == {}
    from srgdqn.tasks.cart_pole import CartPole

    for given in (CartPole(), source_of("srgdqn.environments:srgdqn/CartPole-v0")):
        told = user_code(configure("CartPole"), environment=given)["environment"]
        assert re.fullmatch(r"srgdqn\.CartPole\w*", told["name"])  # wherever it stands in the package
        assert told["source"] is None


def test_a_network_is_told_with_the_numbers_that_rounds_start_from() -> None:
    configuration = configure("CartPole")
    told = user_code(configuration, STUBBORN)["network"]
    assert told["name"] == "tiny.Stubborn"
    assert told["source"] is not None
    other = user_code(configuration, Stubborn(jnp.linspace(1.0, 0.5, 8)))["network"]
    assert told["values"] != other["values"]
    assert {**other, "values": told["values"]} == told
    made = user_code(configuration, lambda key: STUBBORN)["network"]
    assert made["values"] not in (told["values"], other["values"])


def test_environments_of_all_kinds() -> None:
    configuration = configure("CartPole")
    assert user_code(configuration, environment=LEVERS)["environment"]["name"] == "tiny.Levers"
    assert user_code(configuration, environment=source_of(Counting))["environment"]["name"].endswith("Counting")
    wrapped = user_code(configuration, environment=source_of(gym.wrappers.TimeLimit(Counting(), 3)))["environment"]
    assert wrapped["name"] == "host_environments.Counting"
    assert [each.rpartition(".")[2] for each in wrapped["wrappers"]] == ["TimeLimit"]


def test_versions_of_what_an_environment_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gymnasium's own version is told by every run; Box2D's is not."""
    lander = user_code(configure("CartPole"), environment=source_of("LunarLander-v3"))["environment"]
    assert lander["versions"] == {"Box2D": metadata.version("box2d")}
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)
    gym.register("Known-v0", "numpy:nothing")
    gym.register("Found-v0", "PIL:nothing")
    sources = source_of("Known-v0"), source_of("Found-v0")
    known, found = (user_code(configure("CartPole"), environment=source)["environment"] for source in sources)
    assert known["versions"] == {"numpy": metadata.version("numpy")}
    assert found["versions"] == {"pillow": metadata.version("pillow")}


def test_an_estimator_that_was_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    def direction(*arguments: object) -> object:
        return estimator("sgd").direction(*arguments)

    monkeypatch.setitem(ESTIMATORS, "mine", ESTIMATORS["sgd"]._replace(direction=direction))
    told = user_code(configure("CartPole", estimator="mine"))["estimator"]
    assert told["name"].endswith("direction")
    assert told["source"] is not None


def test_runs_and_agents_tell_engine_and_inputs() -> None:
    result = srgdqn.train(
        LEVERS, "dqn-sgd", network=STUBBORN, steps=64, progress=False, learning_frequency=16, learning_starts=32
    )
    told = result.run.provenance
    assert told["engine"] == "local"
    assert set(told["inputs"]["user_code"]) == {"network", "environment"}
    same = srgdqn.train(
        LEVERS, "dqn-sgd", network=STUBBORN, steps=64, progress=False, learning_frequency=16, learning_starts=32
    )
    assert same.run.provenance["inputs"] == told["inputs"]
    on_host = srgdqn.train(Counting, "dqn-sgd", steps=64, progress=False, **SMALL)
    assert on_host.run.provenance["inputs"]["user_code"]["environment"]["name"] == "host_environments.Counting"


# Names and sources


class Mine:
    """Something of the user's own."""


def make_mine() -> Mine:
    return Mine()


@pytest.mark.parametrize("thing", [Mine, Mine(), make_mine, functools.partial(functools.partial(make_mine))])
def test_a_thing_has_a_name_and_a_source_file(thing: object) -> None:
    found = identity_of(thing)
    assert found["name"].rpartition(".")[2] in ("Mine", "make_mine")
    assert found["source"] == MINE
    assert "unidentified" not in found


def test_what_has_no_source_file_is_told_by_its_code() -> None:
    def typed(text: str) -> dict[str, Any]:
        scope: dict = {"__name__": "typed"}
        exec(text, scope)
        return identity_of(scope["Typed"])

    found = typed("class Typed:\n  def f(self): return 1")
    assert (found["name"], found["source"]) == ("typed.Typed", None)
    assert "unidentified" not in found
    assert found == typed("class Typed:\n\n  def f(self): return 1")
    assert found != typed("class Typed:\n  def f(self): return 2")


def test_an_entry_point_is_read_without_importing_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "explosive.py").write_text("raise RuntimeError\n")
    monkeypatch.syspath_prepend(tmp_path)
    source = hashlib.sha256(b"raise RuntimeError\n").hexdigest()[:16]
    assert identity_of_entry_point("explosive:Env") == {"name": "explosive.Env", "source": source}
    assert "cannot be found" in identity_of_entry_point("nowhere_at_all:Env")["unidentified"]


def test_an_id_with_other_arguments_is_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)
    found = []
    for lengths in ((3,), (3,), (4,)):
        gym.registry.pop("Counted-v0", None)
        gym.register("Counted-v0", "host_environments:Counting", kwargs={"lengths": lengths})
        found.append(user_code(configure("CartPole"), environment=source_of("Counted-v0"))["environment"])
    assert found[0] == found[1] != found[2]
    assert found[0]["name"] == "host_environments.Counting"
    assert found[0]["source"] is not None


# Values


def closure(c: Any) -> Callable[[], Any]:
    return lambda: c


def nested(c: Any) -> Callable[[], Any]:
    def outer() -> Callable[[], Any]:
        return closure(c)

    return outer


def default(c: Any) -> Callable[..., Any]:
    def function(value: Any = c) -> Any:
        return value

    return function


def keyword(c: Any) -> Callable[..., Any]:
    def function(*, value: Any = c) -> Any:
        return value

    return function


def decorated(c: Any) -> Callable[..., Any]:
    inner = closure(c)

    @functools.wraps(inner)
    def function() -> Any:
        return inner()

    return function


@dataclasses.dataclass
class Data:
    c: Any

    def method(self) -> Any:
        return self.c


class Slotted:
    __slots__ = ("__hidden",)

    def __init__(self, c: Any) -> None:
        self.__hidden = c


class Module(eqx.Module):
    c: Any = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        return x


class Pair(NamedTuple):
    c: Any
    d: int = 0


class Word(str):
    __slots__ = ()


class Colour(enum.Enum):
    RED = 0.0
    BLUE = 0.95


def class_of(c: Any) -> type:
    class Made:
        def method(self) -> Any:
            return c

    return Made


def with_attribute(c: Any) -> type:
    class Made:
        gravity = c

    return Made


def cyclic(c: Any) -> list[Any]:
    found: list[Any] = [c, {"self": None}]
    found[1]["self"] = found
    return found


WAYS: list[Callable[[Any], Any]] = [
    closure,
    nested,
    default,
    keyword,
    decorated,
    class_of,
    with_attribute,
    Slotted,
    Module,
    Pair,
    cyclic,
    lambda c: (lambda: 0.0) if c == 0 else (lambda: 0.95),
    lambda c: functools.partial(print, c),
    lambda c: functools.partial(print, end=c),
    lambda c: functools.partial(closure(c)),
    lambda c: functools.update_wrapper(functools.partial(print, c), print),
    lambda c: Data(c).method,
    lambda c: jax.jit(closure(c)),
    lambda c: eqx.filter_jit(closure(c)),
    lambda c: functools.lru_cache(closure(c)),
    lambda c: staticmethod(closure(c)),
    lambda c: property(closure(c)),
    lambda c: {"a": [c, (1, 2)]},
    lambda c: {c, "b"},
    lambda c: collections.deque([c]),
    lambda c: collections.defaultdict(list, a=c),
    lambda c: Word(c),
    lambda c: np.array([1.0, c]),
    lambda c: np.array([1.0, c], object),
    lambda c: np.array([(c, 1)], [("a", float), ("b", int)]),
    lambda c: np.float64(c),
    lambda c: jnp.array([1.0, c]),
    lambda c: jax.random.key(int(100 * c)),
    lambda c: np.random.default_rng(int(100 * c)),
    lambda c: np.random.default_rng(int(100 * c)).normal,
    lambda c: random.Random(c),
    lambda c: operator.itemgetter(c),
    lambda c: re.compile(str(c)),
    lambda c: Path(str(c)),
    lambda c: range(int(100 * c)),
    lambda c: slice(c),
    lambda c: 10 ** int(6_000 + 100 * c),
    lambda c: Colour(c),
    lambda c: gym.spaces.Box(-1.0, 1.0 + c, (2,)),
    lambda c: gym.wrappers.TimeLimit(Counting((int(100 * c) + 1,)), 3),
    lambda c: Counting if c else Levers,
]


@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
def test_whatever_a_thing_was_made_with_belongs_to_its_identity(way: Callable[[Any], Any]) -> None:
    first, same, other = identity_of(way(0.0)), identity_of(way(0.0)), identity_of(way(0.95))
    assert "unidentified" not in first
    assert first == same
    assert first["values"] != other["values"]


GRAVITY = 9.81


def falls() -> float:
    return GRAVITY * factor()


def factor() -> float:
    return 0.5


def test_globals_that_a_function_uses_belong_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [identity_of(falls)]
    for name, value in (("GRAVITY", 1.62), ("factor", lambda: 0.25)):
        with monkeypatch.context() as patched:
            patched.setitem(globals(), name, value)
            found.append(identity_of(falls))
    assert len({each["values"] for each in found}) == 3
    monkeypatch.setitem(globals(), "MINE", "something else")
    assert identity_of(falls) == found[0]


LAB = {
    "lab/__init__.py": "",
    "lab/settings.py": "C = {c}\n",
    "lab/deep.py": "D = {c}\n",
    "lab/middle.py": "from lab.deep import D\n\ndef found():\n    return D\n",
    "lab/estimator.py": """
import lab.settings
import lab.middle
from lab import middle, settings

def of_a_package():
    return lab.settings.C

def of_a_module():
    return settings.C

def through_a_function():
    return middle.found()

def as_an_object():
    everything = settings
    return everything.C

def imported_within():
    from lab.deep import D
    return D

def imported_relatively():
    from . import settings as mine
    return mine.C

def unused():
    return 1.0
""",
}
USES = ("of_a_package", "of_a_module", "through_a_function", "as_an_object", "imported_within", "imported_relatively")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], ModuleType]]:
    """The module `lab.estimator` of a package of the user's, in which a number has this value."""

    def forget() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "lab"]:
            del sys.modules[name]

    def imported(c: float) -> ModuleType:
        for name, source in LAB.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(source.replace("{c}", str(c)))
        forget()
        importlib.invalidate_caches()
        return importlib.import_module("lab.estimator")

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    yield imported
    forget()


@pytest.mark.parametrize("use", USES)
def test_what_is_used_of_the_users_other_modules_belongs_to_it(use: str, lab: Callable[[float], ModuleType]) -> None:
    first, same, other = (identity_of(getattr(lab(c), use)) for c in (0.0, 0.0, 0.95))
    assert "unidentified" not in first
    assert first == same != other


def test_what_is_not_used_of_them_does_not(lab: Callable[[float], ModuleType]) -> None:
    assert identity_of(lab(0.0).unused) == identity_of(lab(0.95).unused)


def test_a_value_that_is_set_in_a_module_later_is_seen(lab: Callable[[float], ModuleType]) -> None:
    module = lab(0.0)
    before = identity_of(module.of_a_module)
    sys.modules["lab.settings"].C = 0.5  # type: ignore[attr-defined]
    assert identity_of(module.of_a_module) != before


def test_a_module_that_would_be_imported_later_cannot_be_compared(lab: Callable[[float], ModuleType]) -> None:
    module = lab(0.0)
    del sys.modules["lab.deep"]
    assert "imports lab.deep when it runs" in identity_of(module.imported_within)["unidentified"]


def test_an_environments_id_counts_with_what_its_module_imports(
    lab: Callable[[float], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = gym.envs.registration.EnvSpec("Lab-v0", entry_point="lab.estimator:Lab")
    monkeypatch.setitem(gym.registry, "Lab-v0", spec)
    found = []
    for c in (0.0, 0.0, 0.95):
        lab(c)
        found.append(user_code(configure("CartPole"), environment=source_of("Lab-v0")))
    assert found[0] == found[1] != found[2]


COEFFICIENT = 0.0


@pytest.mark.parametrize("task", ["CartPole", "CartPole-v1"])
def test_a_program_is_not_used_again_once_the_users_code_computes_otherwise(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it is the same object: a global that it uses has another value."""

    def direction(state: Any, theta: Any, delta: Any, query: Any) -> Direction:
        g, r = (query.dense(query.on_present(at)) for at in (theta, state[0]))
        return Direction(recursion(g, COEFFICIENT, r, state[1]), g, state)

    def norms() -> list[float]:
        how: dict[str, Any] = {"steps": 400, "learning_starts": 100, "evaluation_episodes": 1, "rounds": 1}
        result = srgdqn.train(task, "srg-dqn", estimator="mine", progress=False, **how)
        return [float(np.linalg.norm(array)) for array in result.run.parameters.values()]

    def begin(memory: Any, theta: Any, delta: Any, query: Any) -> Any:
        return theta, delta

    mine = Estimator(direction, lambda rows: 2, lambda rows: 2, begin=begin)
    monkeypatch.setitem(ESTIMATORS, "mine", mine)
    first = norms()
    assert norms() == first
    monkeypatch.setitem(globals(), "COEFFICIENT", 0.95)
    assert norms() != first


def test_equal_parts_need_not_be_the_same_object() -> None:
    part, equal = [1.5, "a"], [1.5, "a"]
    assert identity_of([part, part]) == identity_of([part, equal])
    assert identity_of([1.0]) != identity_of([1])
    assert identity_of([1, 2]) != identity_of((1, 2))
    assert identity_of({"a": 1, "b": 2}) != identity_of({"b": 2, "a": 1})  # the order of actions, say
    assert identity_of(functools.partial(dict, a=1, b=2)) == identity_of(functools.partial(dict, b=2, a=1))
    values = np.arange(3.0)
    assert identity_of(np.ma.array(values, mask=[0, 0, 1])) != identity_of(np.ma.array(values, mask=[0, 1, 0]))


def test_an_instance_that_gymnasium_has_reset_is_the_same_environment() -> None:
    environment = gym.make("CartPole-v1")
    told = user_code(configure("CartPole"), environment=source_of(environment))
    environment.reset(seed=3)
    environment.step(0)
    assert user_code(configure("CartPole"), environment=source_of(environment)) == told
    environment.unwrapped.gravity = 1.62  # type: ignore[attr-defined]
    assert user_code(configure("CartPole"), environment=source_of(environment)) != told


def test_the_identity_is_the_same_in_another_process(tmp_path: Path) -> None:
    text = """
        import functools, json, sys
        import equinox as eqx, gymnasium as gym, jax, jax.numpy as jnp, numpy as np
        from srgdqn.training.user_code import identity_of

        WORDS = {"one", "two", "three", "four"}

        class Mine:
            names = frozenset({"a", "b", "c"})
            def __init__(self, c):
                self.c, self.made = c, {w: len(w) for w in WORDS}
            def method(self):
                return [w for w in WORDS if w in {"five", "six", "seven"}]

        def make(c):
            def inner():
                return c, jnp.tanh, helper(), gym.spaces
            return inner

        def helper():
            return make

        key = jax.random.key(3)
        things = [
            Mine(1.5), Mine(2).method, make({"x", "y", object}), functools.partial(make, c=np.arange(5.0)), helper,
            eqx.nn.MLP(2, 2, 4, 1, key=key), jax.jit(make(jnp.ones(3))), gym.make("MountainCar-v0"),
            lambda: Mine(3), eqx.filter_jit(make(1)), jnp.add, np.add, jax.nn.relu,
        ]
        print(json.dumps([identity_of(thing) for thing in things]))
        """
    (tmp_path / "script.py").write_text(textwrap.dedent(text))

    def run(seed: str) -> list[dict[str, Any]]:
        given = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, str(tmp_path / "script.py")]
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    first = run("1")
    assert [each for each in first if "unidentified" in each] == []
    assert run("2") == first


# What cannot be told


class Peculiar:
    """What cannot be looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize(
    "make",
    [lambda: (number for number in range(3)), lambda: sys.__stdout__, threading.local, Peculiar],
    ids=["generator", "file", "local", "peculiar"],
)
def test_what_cannot_be_read_is_said_with_its_place(make: Callable[[], Any]) -> None:
    found = identity_of(closure(make()))
    assert "closure.<locals>.<lambda>.c " in found["unidentified"]
    assert "cannot be read" in found["unidentified"]


def test_what_is_too_large_or_too_deep_is_said_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    large = [[number] for number in range(500_000)]
    start = time.perf_counter()
    assert "levels deep" in identity_of(closure(deep))["unidentified"]
    assert "objects" in identity_of(closure(large))["unidentified"]
    monkeypatch.setattr("srgdqn.training.user_code._MOST_BYTES", 2**20)
    assert "of arrays" in identity_of(closure(np.zeros(2**18)))["unidentified"]
    assert "unidentified" not in identity_of(closure(np.zeros(2**16)))
    assert time.perf_counter() - start < 60


# Runs


HOW: dict[str, Any] = dict(algorithm="srg-dqn", progress=False, **TINY)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> CutShort:
    return CutShort(monkeypatch, "srgdqn.session.prepare.train_rounds")


def damped(c: Any, **changes: Any) -> Estimator:
    """A factory of estimators: SGD's direction times 1 - c, where c is a number."""
    plain = estimator("sgd")

    def direction(*given: Any) -> Any:
        found = plain.direction(*given)
        share = 1 - (c if isinstance(c, float) else 0.0)
        return found._replace(delta=jax.tree.map(lambda leaf: share * leaf, found.delta))

    return plain._replace(direction=direction, **changes)


def train(out: Path, made: Estimator, **options: Any) -> srgdqn.Result:
    """Trains with an estimator that is called `mine`, as a script of the user's would in a process of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ESTIMATORS, "mine", made)
        return srgdqn.train("CartPole", out=out, **{**HOW, "checkpoint_every": 0, "estimator": "mine", **options})


def files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def test_a_run_of_another_estimator_is_not_handed_out(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = train(out, damped(0.0))
    before = files(out)
    words = r"it is another run, which is finished \(the digest of the estimator's values was \w+, and now is \w+\)"
    for other in (damped(0.95), damped(0.0, finish=lambda state, theta: None)):
        with pytest.raises(InputError, match=words):
            train(out, other, resume=True)
    assert files(out) == before
    assert outcome(train(out, damped(0.0), resume=True)) == outcome(first)


def test_an_unfinished_run_is_not_resumed_with_another_estimator(tmp_path: Path, cut: CutShort) -> None:
    out = tmp_path / "run"
    cut.after = 3
    with pytest.raises(Killed):
        train(out, damped(0.0))
    with pytest.raises(InputError, match="since it was begun: the digest of the estimator's values was"):
        train(out, damped(0.95), resume=True)
    assert train(out, damped(0.0), resume=True).rounds["steps"].to_list() == [200]


def test_what_cannot_be_told_apart_is_not_resumed_and_nothing_is_overwritten(tmp_path: Path, cut: CutShort) -> None:
    out, handle = tmp_path / "run", sys.__stdout__
    cut.after = 3
    with pytest.raises(Killed):
        train(out, damped(handle))
    left = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    words = (
        r"cannot be resumed.*of your estimator, the estimator\.direction .*\.c is a _io\.TextIOWrapper, whose state "
        r"cannot be read\. Nothing was changed there\."
    )
    with pytest.raises(InputError, match=words):
        train(out, damped(handle), resume=True)
    assert has_checkpoints(beside(out))
    assert left.items() <= {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}.items()
    first = train(out, damped(handle), overwrite=True)
    before = files(out)
    with pytest.raises(InputError, match=words):
        train(out, damped(handle), resume=True)
    assert files(out) == before
    assert outcome(train(out, damped(handle), overwrite=True)) == outcome(first)
    elsewhere = train(tmp_path / "other", damped(handle), resume=True)  # where there is nothing yet
    assert outcome(elsewhere) == outcome(first)


def test_a_stored_cell_that_cannot_be_told_apart_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ESTIMATORS, "mine", damped(sys.__stdout__))
    result = srgdqn.train("CartPole", **HOW, estimator="mine")
    assert "would be made now: of your estimator" in str(why_invalid(result, result.configuration))
    monkeypatch.setitem(ESTIMATORS, "mine", damped(0.0))
    assert "another network, estimator or environment" in str(why_invalid(result, result.configuration))
    result = srgdqn.train("CartPole", **HOW, estimator="mine")
    assert why_invalid(result, result.configuration) is None


def test_a_run_in_an_environment_with_another_parameter_is_not_handed_out(tmp_path: Path) -> None:
    def environment(length: int) -> Callable[[], Any]:
        return lambda: Counting((length, 5, 2))

    how: dict[str, Any] = dict(algorithm="dqn-sgd", steps=64, progress=False, out=tmp_path / "run", **SMALL)
    first = srgdqn.train(environment(3), **how)
    before = files(tmp_path / "run")
    assert outcome(srgdqn.train(environment(3), resume=True, **how)) == outcome(first)
    with pytest.raises(InputError, match="it is another run"):
        srgdqn.train(environment(4), resume=True, **how)
    assert files(tmp_path / "run") == before


def test_verify_tells_of_another_estimator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path / "run", damped(0.0))
    monkeypatch.setitem(ESTIMATORS, "mine", damped(0.95))
    monkeypatch.setattr(program, "_cache", Once(8))  # within a process, a name stands for one estimator
    done = srgdqn.verify(tmp_path / "run", 0)
    assert done.verdict == "differs"
    assert [each.name for each in done.conditions] == ["your estimator"]
    monkeypatch.setitem(ESTIMATORS, "mine", damped(0.0))
    monkeypatch.setattr(program, "_cache", Once(8))
    done = srgdqn.verify(tmp_path / "run", 0)
    assert (done.verdict, done.conditions) == ("identical", ())


def test_parts_that_cannot_be_read_are_told_apart_by_the_object() -> None:
    """Two closures over generators have the same identity, which says that it could not be read."""

    def rule(numbers: Any) -> Any:
        return lambda q, frozen, online: q(frozen).max(-1) * next(numbers)

    configuration = configure("CartPole", "dqn-adam").with_options({"bootstrap": "unreadable"})
    found = []
    try:
        for value in (1.0, 2.0, 2.0):
            OWN_RULES["bootstrap"]["unreadable"] = rule(value for _ in range(9))
            found.append(unreadable_parts(configuration))
            assert found[-1] == unreadable_parts(configuration)
    finally:
        del OWN_RULES["bootstrap"]["unreadable"]
    assert len({len(each) for each in found}) == len(found[0]) == 1
    assert len(set(found)) == 3
    assert unreadable_parts(configure("CartPole", "dqn-adam")) == ()
