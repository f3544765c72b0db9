"""Stopwatches: an environment that times itself (CartPole-v1 under an id of its own), and any function's."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium

WATCHED = "WatchedCartPole-v1"


@dataclass
class Watch:
    """What was spent so far, by everything that has this watch."""

    seconds: float = 0.0
    calls: int = 0

    def time(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        @functools.wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            outcome = function(*given, **named)
            self.seconds += time.perf_counter() - began
            self.calls += 1
            return outcome

        return timed


def watched_environment(resets: Watch, steps: Watch) -> str:
    """The id of an environment that has these watches. Gymnasium's usual wrappers are timed, too."""

    def make(**options: Any) -> gymnasium.Env:
        environment = gymnasium.Wrapper(gymnasium.make("CartPole-v1", **options))
        environment.reset = resets.time(environment.env.reset)
        environment.step = steps.time(environment.env.step)
        return environment

    gymnasium.register(WATCHED, entry_point=make, disable_env_checker=True, order_enforce=False)
    return WATCHED


def watch_function(place: str, watch: Watch) -> None:
    """Has a function timed from now on, given its place: `module:function` or `module:Class.method`."""
    module, path = place.split(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    setattr(owner, name, watch.time(getattr(owner, name)))
