"""Loggers, exported policies, videos, progress bars and what `srgdqn watch` reads.

Nothing here imports jax, polars or an optional package before it is needed.
"""

from srgdqn.integrations.loggers import Logger, logging_to
from srgdqn.integrations.loggers.json_lines import JsonLines
from srgdqn.integrations.loggers.tensorboard import TensorBoard
from srgdqn.integrations.loggers.weights_and_biases import WeightsAndBiases

__all__ = ["JsonLines", "Logger", "TensorBoard", "WeightsAndBiases", "logging_to"]
