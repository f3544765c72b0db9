"""Variance-reduced deep Q-learning: SRG-DQN and its companions, measured honestly, many rounds at once.

    import srgdqn
    result = srgdqn.train("MountainCar", "srg-dqn", rounds=50, seed=0)

Names are imported when they are first used, so that the command line answers at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Not when it is first used, as its module has the same name and would take its place here.
from srgdqn.config.configure import configure

if TYPE_CHECKING:
    from srgdqn.adapters.failures import EnvironmentFailedError
    from srgdqn.agent import Agent
    from srgdqn.api import load, train
    from srgdqn.errors import InputError
    from srgdqn.inspection.replay_round import Replay, replay_round
    from srgdqn.inspection.verify import Verification, verify
    from srgdqn.integrations.export import export
    from srgdqn.integrations.video import video
    from srgdqn.learner.estimators import Estimator, register_estimator
    from srgdqn.results.comparison import compare
    from srgdqn.results.result import Result
    from srgdqn.sweeps.run import search, sweep
    from srgdqn.sweeps.sweep import Sweep, load_sweep

_HOMES = {
    "Agent": "srgdqn.agent",
    "EnvironmentFailedError": "srgdqn.adapters.failures",
    "InputError": "srgdqn.errors",
    "Estimator": "srgdqn.learner.estimators",
    "Replay": "srgdqn.inspection.replay_round",
    "Result": "srgdqn.results.result",
    "Sweep": "srgdqn.sweeps.sweep",
    "Verification": "srgdqn.inspection.verify",
    "compare": "srgdqn.results.comparison",
    "export": "srgdqn.integrations.export",
    "load": "srgdqn.api",
    "load_sweep": "srgdqn.sweeps.sweep",
    "register_estimator": "srgdqn.learner.estimators",
    "replay_round": "srgdqn.inspection.replay_round",
    "search": "srgdqn.sweeps.run",
    "sweep": "srgdqn.sweeps.run",
    "train": "srgdqn.api",
    "verify": "srgdqn.inspection.verify",
    "video": "srgdqn.integrations.video",
}

__all__ = [
    "Agent",
    "EnvironmentFailedError",
    "Estimator",
    "InputError",
    "Replay",
    "Result",
    "Sweep",
    "Verification",
    "compare",
    "configure",
    "export",
    "load",
    "load_sweep",
    "register_estimator",
    "replay_round",
    "search",
    "sweep",
    "train",
    "verify",
    "video",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'srgdqn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
