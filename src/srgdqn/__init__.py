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
    from srgdqn.adapters.failures import EnvironmentFailedError as EnvironmentFailedError
    from srgdqn.agent import Agent as Agent
    from srgdqn.api import load as load
    from srgdqn.api import train as train
    from srgdqn.errors import InputError as InputError
    from srgdqn.inspection.replay_round import Replay as Replay
    from srgdqn.inspection.replay_round import replay_round as replay_round
    from srgdqn.inspection.verify import Verification as Verification
    from srgdqn.inspection.verify import verify as verify
    from srgdqn.integrations.export import export as export
    from srgdqn.integrations.video import video as video
    from srgdqn.learner.estimators import Estimator as Estimator
    from srgdqn.learner.estimators import register_estimator as register_estimator
    from srgdqn.learner.own_rules import Drawing as Drawing
    from srgdqn.learner.own_rules import Drawn as Drawn
    from srgdqn.learner.own_rules import register_bootstrap as register_bootstrap
    from srgdqn.learner.own_rules import register_sampling as register_sampling
    from srgdqn.results.comparison import compare as compare
    from srgdqn.results.paired import paired as paired
    from srgdqn.results.result import Result as Result
    from srgdqn.sweeps.run import search as search
    from srgdqn.sweeps.run import sweep as sweep
    from srgdqn.sweeps.sweep import Sweep as Sweep
    from srgdqn.sweeps.sweep import load_sweep as load_sweep

_HOMES = {
    "Agent": "srgdqn.agent",
    "Drawing": "srgdqn.learner.own_rules",
    "Drawn": "srgdqn.learner.own_rules",
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
    "paired": "srgdqn.results.paired",
    "register_bootstrap": "srgdqn.learner.own_rules",
    "register_estimator": "srgdqn.learner.estimators",
    "register_sampling": "srgdqn.learner.own_rules",
    "replay_round": "srgdqn.inspection.replay_round",
    "search": "srgdqn.sweeps.run",
    "sweep": "srgdqn.sweeps.run",
    "train": "srgdqn.api",
    "verify": "srgdqn.inspection.verify",
    "video": "srgdqn.integrations.video",
}

__all__ = ["configure", *_HOMES]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'srgdqn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
