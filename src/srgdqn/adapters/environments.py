"""The source of an environment (an id, a factory or an instance), and how copies of it are made and closed."""

from __future__ import annotations

import copy
import dataclasses
import functools
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv, VectorWrapper

from srgdqn.adapters.atari import SKIP, image_wrappers, is_picture, make_atari, make_atari_vector
from srgdqn.adapters.failures import RAISED, described
from srgdqn.adapters.registry import known_identifier
from srgdqn.adapters.spaces import space_of
from srgdqn.config import TaskSettings
from srgdqn.config.identifiers import as_given, is_identifier, options_of, plain, with_options
from srgdqn.errors import InputError

# Steps of an episode of evaluation where the environment has no limit.
UNLIMITED_EVALUATION = 1_000
_CLOSING_SECONDS = 5.0

# What Gymnasium needs for some of its environments, and the extra that brings it.
_EXTRAS = {"box2d": "box2d", "ale": "atari", "pygame": "box2d"}


@dataclass(frozen=True, eq=False)
class Source:
    """How copies of an environment are made."""

    name: str
    """Its name in logs and results."""
    make: Callable[[str | None], gym.Env] | None
    """From a render mode (None: not rendered) to a new copy; None where only the given one exists."""
    given: gym.Env | VectorEnv | None = None
    """The instance that was given, if one was."""
    make_vector: Callable[[int], VectorEnv] | None = None
    """From a number to a vector environment of so many copies, where the environment has its own, faster one."""
    recipe: Any = None
    """The id, factory or spec from which `source_of` makes the same source in another process."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process makes it from its recipe, and from the registered spec if it does not know the id."""
        if self.recipe is None:
            raise TypeError(f"the environment {self.name} was given as an instance that cannot be remade")
        specs = {name: spec for name, spec in gym.registry.items() if name == plain(self.name)}
        return _source_elsewhere, (self.recipe, specs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Source:
        """A copy in this process, with a copy of the instance that was given."""
        return dataclasses.replace(self, given=copy.deepcopy(self.given, memo))

    def fresh(self, render_mode: str | None = None) -> gym.Env:
        """A new copy."""
        if self.make is None:
            raise InputError(
                f"the environment {self.name} cannot be made from its name (as it was given as an instance, or is not "
                "registered here), and a copy is needed. Give the environment again, or a function that makes it."
            )
        return self.make(render_mode)


Environment: TypeAlias = str | EnvSpec | gym.Env | VectorEnv | Callable[[], gym.Env]
"""A Gymnasium id or spec, an environment, or a function that makes one."""


def source_of(environment: Environment) -> Source:
    """The source of an environment given as a Gymnasium id, as an instance, or as a function that makes it."""
    if isinstance(environment, str):
        return source_named(known_identifier(environment))
    if isinstance(environment, EnvSpec):
        return _source_of_spec(environment)
    if isinstance(environment, gym.Env | VectorEnv):
        return _source_of_instance(environment)
    if callable(environment):
        return _source_of_factory(environment)
    raise InputError(
        f"the environment is {environment!r}, which is neither a Gymnasium id, nor an environment, nor a function that "
        "makes one. Pass an id such as 'CartPole-v1', an environment, or a factory."
    )


def _source_elsewhere(recipe: Any, specs: dict[str, EnvSpec]) -> Source:
    for identifier, spec in specs.items():
        gym.registry.setdefault(identifier, spec)
    return source_of(recipe)


def source_named(identifier: str) -> Source:
    """The source of an id that need not be known before the first copy is made."""
    return Source(
        identifier,
        lambda mode: _made(known_identifier(identifier), mode),
        make_vector=_vector_maker(identifier),
        recipe=identifier,
    )


def _made(identifier: str, render_mode: str | None) -> gym.Env:
    name, options = plain(identifier), options_of(identifier)
    try:
        if name.startswith("ALE/"):
            return make_atari(name, render_mode=render_mode, **options)
        # Its checker checks the first step alone, and we every one.
        made = gym.make(name, disable_env_checker=True, **_rendered(render_mode), **options)
        return image_wrappers(made) if is_picture(made.observation_space) else made
    except gym.error.DependencyNotInstalled as error:
        extra = next((extra for word, extra in _EXTRAS.items() if word in str(error).lower()), None)
        fix = f"Install it: pip install 'srgdqn[{extra}]'." if extra else "Install what it needs."
        raise InputError(f"{identifier} cannot be made: {error}. {fix}") from error
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{identifier} cannot be made: {type(error).__name__}: {error}. Try {_call(identifier)} by itself."
        ) from error


def _call(identifier: str) -> str:
    options = "".join(f", {name}={value!r}" for name, value in options_of(identifier).items())
    return f"gymnasium.make({identifier.partition(',')[0]!r}{options})"


def _vector_maker(identifier: str) -> Callable[[int], VectorEnv] | None:
    """Games have their own vector environment, which does not take all the options that a single one does."""
    if not identifier.startswith("ALE/") or options_of(identifier):
        return None
    return functools.partial(make_atari_vector, identifier)


def _source_of_spec(spec: EnvSpec) -> Source:
    def make(mode: str | None) -> gym.Env:
        return gym.make(_without_mode(spec), **_rendered(mode))

    probe = make(None)
    name = _name_of(probe)
    close(probe, name)
    return Source(name, make, recipe=spec)


def _source_of_instance(environment: gym.Env | VectorEnv) -> Source:
    spec, name = environment.spec, _name_of(environment)
    if isinstance(environment, VectorEnv):
        single = (lambda mode: _made(name, mode)) if is_identifier(name) else None
        return Source(name, single, environment)

    def remade(mode: str | None) -> gym.Env:
        if spec is not None:
            try:
                return gym.make(_unrecorded(spec), **_rendered(mode))
            except Exception:  # a wrapper or an argument that a spec cannot hold: then a copy of the instance
                pass
        try:
            return copy.deepcopy(environment)
        except Exception as error:
            raise InputError(
                f"the environment {name} was given as an instance that can neither be remade nor copied "
                f"({type(error).__name__}: {error}), and another copy is needed. Give a function that makes it."
            ) from error

    # Another process cannot make wrappers whose arguments are not in the spec.
    recipe = None if spec is None else _unrecorded(spec)
    if recipe is not None and any(wrapper.kwargs is None for wrapper in recipe.additional_wrappers):
        recipe = None
    return Source(name, remade, environment, recipe=recipe)


# Wrappers that record, of which a copy would write into the same files.
_RECORDERS = ("RecordVideo", "RecordEpisodeStatistics", "HumanRendering", "RenderCollection")


def _unrecorded(spec: EnvSpec) -> EnvSpec:
    """The spec without the wrappers that record."""
    others = tuple(wrapper for wrapper in spec.additional_wrappers if wrapper.name not in _RECORDERS)
    return dataclasses.replace(_without_mode(spec), additional_wrappers=others)


# What a vector's spec has beside the arguments of each environment in it.
_OF_VECTORS = ("num_envs", "vectorization_mode", "vector_kwargs")


def _name_of(environment: gym.Env | VectorEnv) -> str:
    """The id that makes the same environment, or a name that says that none does."""
    spec = environment.spec
    if spec is None:
        kind = type(environment if isinstance(environment, VectorEnv) else environment.unwrapped)
        return f"{kind.__module__}.{kind.__qualname__}"
    registered = gym.registry.get(spec.id)
    if registered is None or spec.entry_point != registered.entry_point or _unrecorded(spec).additional_wrappers:
        return as_given(spec.id)
    # A vector's spec does not name its wrappers, and by an id images and games would be preprocessed.
    preprocessed = spec.namespace == "ALE" or is_picture(space_of(environment, "observation"))
    if isinstance(environment, VectorWrapper) or preprocessed:
        return as_given(spec.id)
    before = {**registered.kwargs, "max_episode_steps": registered.max_episode_steps}
    now = {**_without_mode(spec).kwargs, "max_episode_steps": spec.max_episode_steps}
    changed = {name: now[name] for name in now if name not in _OF_VECTORS and not _same(before.get(name), now[name])}
    return with_options(spec.id, changed) or as_given(spec.id)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(np.all(one == other))


def _without_mode(spec: EnvSpec) -> EnvSpec:
    others = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
    return dataclasses.replace(spec, kwargs=others)


def _rendered(mode: str | None) -> dict[str, Any]:
    """The argument for a render mode; without a mode none at all, as some environments do not take it."""
    return {} if mode is None else {"render_mode": mode}


def _source_of_factory(factory: Callable[[], gym.Env]) -> Source:
    probe = factory()
    if not isinstance(probe, gym.Env | VectorEnv):
        raise InputError(
            f"the function given makes {probe!r}, which is no Gymnasium environment. Return a gymnasium.Env from it."
        )
    named = _name_of(probe)
    close(probe, named)
    if isinstance(probe, VectorEnv):
        raise InputError(
            f"the function given makes the vector environment {named}. Give that itself for a single round, or a "
            "function that makes one environment, and environments=… for how many to step side by side."
        )

    def make(mode: str | None) -> gym.Env:
        made = factory()
        if mode is not None and made.render_mode != mode:
            close(made, named)
            raise InputError(
                f"the function given makes {named} with render_mode={made.render_mode!r}, and {mode!r} is needed. "
                f"Give one that makes it with render_mode={mode!r}."
            )
        return made

    return Source(named, make, recipe=factory)


def limited(environment: gym.Env, settings: TaskSettings, cap: int | None = None) -> gym.Env:
    """The environment with episodes truncated at the time limit of the settings, or at a cap where it has no limit."""
    if settings.time_limit is not None:
        return gym.wrappers.TimeLimit(environment, settings.time_limit)
    if cap is not None and own_limit(environment) is None:
        return gym.wrappers.TimeLimit(environment, cap)
    return environment


def own_limit(environment: gym.Env | VectorEnv) -> int | None:
    """The steps after which it truncates an episode, if its spec says so."""
    spec = environment.spec
    if spec is None:
        return None
    frames = spec.kwargs.get("max_num_frames_per_episode")  # as Atari games have it
    return frames // SKIP if spec.max_episode_steps is None and frames else spec.max_episode_steps


def close(environment: gym.Env | VectorEnv, name: str) -> None:
    """Closes an environment; one that raises or does not return is left behind with a warning."""
    problem: list[str] = []

    def attempt() -> None:
        try:
            environment.close()
        except RAISED as error:
            problem.append(f"raised {described(error)}")

    closing = threading.Thread(target=attempt, daemon=True, name=f"closing {name}")
    closing.start()
    closing.join(_CLOSING_SECONDS)
    if closing.is_alive():
        problem.append(f"has not come back after {_CLOSING_SECONDS:.0f} seconds and was left behind")
    if problem:
        warnings.warn(f"closing the environment {name} {problem[0]}", RuntimeWarning, stacklevel=2)
