"""Estimators and rules of the user's own, checked where they are called: what is wrong with them is said in a sentence
that names them, before anything is trained.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from srgdqn.errors import UserCodeError, shown
from srgdqn.learner.estimator import Direction, Estimator


def guarded(name: str, each: Estimator, *, adam_steps: bool = True) -> Estimator:
    """The estimator, whose functions raise nothing but a `UserCodeError` and give what they should. `adam_steps`:
    whether steps along its directions are Adam's.
    """
    whose = f"of the estimator {name!r}"

    def called(part: str) -> Any:
        function = getattr(each, part)
        return None if function is None else calling(f"{part} {whose}", function)

    def direction(state: Any, theta: Any, previous: Any, query: Any) -> Direction:
        made = called("direction")(state, theta, previous, query)
        if not isinstance(made, Direction):
            raise UserCodeError(f"direction {whose} gives a {type(made).__name__}. Return Direction(Δ, g, state).")
        if not adam_steps and not (made.first is None and made.second is None):
            raise UserCodeError(
                f"direction {whose} says what enters Adam's moments, but steps are -ηΔ. Give step = 'adam', or let it "
                "return a direction alone."
            )
        for label, part in (("Δ", made.delta), ("g", made.gradient), ("first", made.first), ("second", made.second)):
            if part is not None:
                require_form(f"{label} {whose}", part, theta, "the parameters θ", types=True)
        require_form(f"the state after direction {whose}", made.state, state, "the state before it")
        return made

    def evaluated(memory: Any, theta: Any) -> Any:
        given = called("evaluated")(memory, theta)
        require_form(f"what evaluated {whose} gives", given, theta, "the parameters θ")
        return given

    def logged(column: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def number(memory: Any, theta: Any) -> Any:
            value = calling(f"{column!r} in logged {whose}", function)(memory, theta)
            if jnp.ndim(value) if isinstance(value, jax.Array | np.ndarray) else not isinstance(value, int | float):
                raise UserCodeError(f"{column!r} in logged {whose} gives {_kind(value)}. Return a single number.")
            return value

        return number

    def count(part: str) -> Callable[..., Any]:
        def number(work: Any) -> Any:
            value = called(part)(work)
            if not isinstance(value, int | float | np.number | jax.Array):
                raise UserCodeError(f"{part} {whose} gives {shown(value)}. Return the number of gradients.")
            return value

        return number

    return each._replace(
        direction=direction,
        queries=count("queries"),
        evaluations=count("evaluations"),
        logged=tuple((column, logged(column, function)) for column, function in each.logged),
        evaluated=None if each.evaluated is None else evaluated,
        **{part: called(part) for part in ("begin", "init", "finish", "replay_rows")},
    )


def calling(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose errors are a `UserCodeError` that says what it is, and the line."""

    @functools.wraps(function)
    def call(*given: Any) -> Any:
        try:
            return function(*given)
        except UserCodeError:
            raise
        except Exception as error:
            words = " ".join(str(error).split())
            first = words if len(words) <= 200 else f"{words[:200]}…"
            raise UserCodeError(
                f"{what} raised {type(error).__name__}: {first.rstrip('.')}{_line(error, function)}. Correct it."
            ) from error

    return call


def require_form(what: str, found: Any, expected: Any, likeness: str, *, types: bool = False) -> None:
    """A `UserCodeError` where a pytree has another structure than the one expected, or arrays of other shapes (or, with
    `types`, of other types).
    """
    forms: list[Any] = [jax.tree.structure(each) for each in (found, expected)]
    if forms[0] != forms[1]:
        mine, its = _in_words(found), _in_words(expected)
        other = " with other settings" if mine == its else ""
        raise UserCodeError(f"{what} is {mine}{other}, but {likeness} is {its}. Give both the same structure.")
    for (path, leaf), other in zip(jax.tree.leaves_with_path(found), jax.tree.leaves(expected), strict=True):
        if jnp.shape(leaf) != jnp.shape(other) or (types and jnp.result_type(leaf) != jnp.result_type(other)):
            where = jax.tree_util.keystr(path)
            raise UserCodeError(
                f"{what} has {_kind(leaf)}{f' at {where}' if where else ''}, where {likeness} has {_kind(other)}. Give "
                "both the same."
            )


def _kind(value: Any) -> str:
    if isinstance(value, jax.Array | np.ndarray | int | float):
        return f"an array of shape {jnp.shape(value)} and type {jnp.result_type(value)}"
    return f"a {type(value).__name__}"


class _Word:
    """Stands in a pytree for what is in its place."""

    def __init__(self, part: Any) -> None:
        arrays = len(jax.tree.leaves(part))
        self.word = f"{type(part).__name__} of {arrays} arrays" if isinstance(part, eqx.Module) else "*"

    def __repr__(self) -> str:
        return self.word


def _in_words(tree: Any) -> str:
    """The structure of a pytree: * for an array, and a module by its name."""
    text = repr(jax.tree.map(_Word, tree, is_leaf=lambda part: isinstance(part, eqx.Module)))
    return text if len(text) <= 120 else f"{text[:120]}…"


def _line(error: Exception, function: Any) -> str:
    """Where the user's own code was, if that can be told."""
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == file]
    return f" (line {lines[-1]} of {Path(str(file)).name})" if lines else ""
