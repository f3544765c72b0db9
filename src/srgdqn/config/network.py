"""Options of the Q-network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BUILT_IN_NETWORKS = ("mlp", "cnn")
"""Others are modules of the user's, passed in Python."""


@dataclass(frozen=True)
class NetworkSettings:
    """The network from an observation to one Q-value per action."""

    hidden: tuple[int, ...] = (20,)
    """Widths of the hidden layers."""
    activation: Literal["relu", "tanh", "softplus"] = "relu"
    """Activation of the hidden layers."""
    initialisation: Literal["lecun-uniform", "normal"] = "lecun-uniform"
    """Weights at the start: LeCun uniform with zero biases, or normal(0, 0.3) with biases of 0.1."""
    network: str = "mlp"
    """The built-in perceptron (mlp), the built-in convolutional network for images (cnn), or the name of the module
    passed in Python."""
