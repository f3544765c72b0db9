"""Options of the loss and its gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from srgdqn.config.numbers import number


@dataclass(frozen=True)
class GradientSettings:
    """The Bellman error of one transition, and what its gradient is taken of."""

    gamma: float = number(0.9)
    """Discount factor γ."""
    target: Literal["current", "outer", "hard", "polyak"] = "current"
    """Parameters behind the target y: each gradient's own; those at the start of the outer iteration; or a target
    network, copied at intervals (hard) or drifting (polyak)."""
    target_period: int = number(100)
    """Outer iterations between two copies of a hard target network."""
    target_tau: float = number(0.005)
    """Share of the way a polyak target network moves in one outer iteration."""
    mask_terminal: bool = True
    """Stop bootstrapping where an episode terminates (never where it is only truncated)."""
    loss: Literal["squared", "huber"] = "squared"
    """Loss of one transition: the squared Bellman error, or Huber's (equal to it up to huber_delta, linear beyond)."""
    huber_delta: float = number(1.0)
    """Bellman error beyond which the Huber loss is linear."""
    differentiation: Literal["auto", "closed-form", "autodiff"] = "auto"
    """How gradients are computed: in closed form (perceptrons only), by automatic differentiation, or the first
    that fits."""
