"""Who takes part, under which name, and in which arrangements: for each the ones that may serve it best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from arrangements import ALONE, ONE_PROCESS, PROCESS_PER_CORE, Arrangement

# What is stepped in Python trains one round per process and core. One program for all rounds may or may not be faster
# if it is split among the cores, so both are tried; this package splits rounds among threads by itself.
_STEPPED = (ALONE, PROCESS_PER_CORE)
_COMPILED = (ALONE, ONE_PROCESS, PROCESS_PER_CORE)
_OURS = (ALONE, ONE_PROCESS)

_ON_PROCESSORS = {"JAX_PLATFORMS": "cpu"}
# Matrices this small are slower on several threads.
ONE_THREAD = {
    **_ON_PROCESSORS,
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}

DQN, SRG_TWO, SRG_ONE = "DQN 20+20", "SRG-DQN 20+20", "SRG-DQN 20"


@dataclass(frozen=True)
class Contender:
    """A module among the contenders, and how it is called."""

    name: str
    label: str
    module: str
    job: str
    """Only those with the same job are compared."""
    arrangements: tuple[Arrangement, ...]
    environment: Mapping[str, str] = field(hash=False)
    arguments: tuple[str, ...] = ()
    ours: bool = False
    """Whether it is this package."""


def _stepped(name: str, label: str, module: str, job: str = DQN, *arguments: str) -> Contender:
    return Contender(name, label, f"contenders.{module}", job, _STEPPED, ONE_THREAD, arguments)


def _compiled(name: str, label: str, module: str, *arguments: str) -> Contender:
    return Contender(name, label, f"contenders.{module}", DQN, _COMPILED, ONE_THREAD, arguments)


def _ours(name: str, label: str, job: str, *arguments: str) -> Contender:
    return Contender(name, label, "contenders.srgdqn", job, _OURS, _ON_PROCESSORS, arguments, ours=True)


CONTENDERS = (
    _stepped("stable-baselines3", "Stable-Baselines3", "stable_baselines3"),
    _stepped("sbx", "sbx", "sbx"),
    _stepped("plain-pytorch", "plain PyTorch", "plain_pytorch"),
    _stepped("plain-jax", "plain JAX", "plain_jax"),
    _compiled("rejax", "rejax", "rejax"),
    _compiled("purejaxrl-style", "PureJaxRL style", "purejaxrl_style"),
    _compiled("purejaxrl-style-16", "PureJaxRL style, 16 environments", "purejaxrl_style", "--environments", "16"),
    _ours("srgdqn-adam", "srgdqn, dqn-adam", DQN, "--algorithm", "dqn-adam"),
    _ours("srgdqn-sgd", "srgdqn, dqn-sgd", DQN, "--algorithm", "dqn-sgd"),
    _ours("srgdqn-adam-xla", "srgdqn, dqn-adam by XLA", DQN, "--algorithm", "dqn-adam", "--kernel", "xla"),
    _stepped("plain-pytorch-srg", "plain PyTorch", "plain_pytorch_srg", SRG_TWO),
    _ours("srgdqn-srg", "srgdqn, srg-dqn", SRG_TWO, "--algorithm", "srg-dqn"),
    _ours("srgdqn-srg-xla", "srgdqn, srg-dqn by XLA", SRG_TWO, "--algorithm", "srg-dqn", "--kernel", "xla"),
    _stepped("plain-pytorch-srg-20", "plain PyTorch", "plain_pytorch_srg", SRG_ONE, "--hidden", "20"),
    _ours("srgdqn-srg-20", "srgdqn, srg-dqn", SRG_ONE, "--algorithm", "srg-dqn", "--hidden", "20"),
)

# What others are a multiple of, by job.
COMPARISONS = {
    "to_stable_baselines3": {DQN: "stable-baselines3"},
    "to_plain_pytorch": {DQN: "plain-pytorch", SRG_TWO: "plain-pytorch-srg", SRG_ONE: "plain-pytorch-srg-20"},
}
