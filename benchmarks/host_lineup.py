"""Who steps Gymnasium's environment on the host, what each is a multiple of, and what is aimed at."""

from __future__ import annotations

from typing import NamedTuple

from arrangements import ALONE
from lineup import ONE_THREAD, Contender

HOST = "one round on the host"

ENVIRONMENT, BASELINE, PLAIN, OURS = "environment", "stable-baselines3", "plain-pytorch", "srgdqn-adam"


def _contender(name: str, label: str, module: str, *arguments: str, ours: bool = False) -> Contender:
    return Contender(name, label, f"contenders.{module}", HOST, (ALONE,), ONE_THREAD, arguments, ours)


def _ours(name: str, label: str, *arguments: str) -> Contender:
    return _contender(name, f"srgdqn, {label}", "host_srgdqn", *arguments, ours=True)


HOST_CONTENDERS = (
    _contender(ENVIRONMENT, "the environment alone", "host_environment"),
    _contender(BASELINE, "Stable-Baselines3, DQN", "stable_baselines3"),
    _contender(PLAIN, "plain PyTorch, DQN", "plain_pytorch"),
    _ours(OURS, "dqn-adam", "--algorithm", "dqn-adam"),
    _ours("srgdqn-srg", "srg-dqn", "--algorithm", "srg-dqn"),
    _ours("srgdqn-svr", "svr-dqn", "--algorithm", "svr-dqn"),
    _ours("srgdqn-adam-8", "dqn-adam, 8 environments side by side", "--algorithm", "dqn-adam", "--environments", "8"),
)

TO_BASELINE, TO_PLAIN, TO_ENVIRONMENT = "to_stable_baselines3", "to_plain_pytorch", "to_environment"
HOST_COMPARISONS = {TO_BASELINE: {HOST: BASELINE}, TO_PLAIN: {HOST: PLAIN}, TO_ENVIRONMENT: {HOST: ENVIRONMENT}}


class Aim(NamedTuple):
    """A ratio that is to be reached."""

    words: str
    contender: str
    comparison: str
    at_least: float


AIMS = (
    Aim("dqn-adam beside Stable-Baselines3", OURS, TO_BASELINE, 5.0),
    Aim("dqn-adam beside plain PyTorch", OURS, TO_PLAIN, 3.0),
)
