"""Loggers, exported policies, videos, progress bars and what `srgdqn watch` reads.

Nothing here imports jax, polars or an optional package before it is needed.
"""

from srgdqn.integrations.json_lines import JsonLines
from srgdqn.integrations.loggers import Logger, LoggerWithOption, listening
from srgdqn.integrations.tensorboard import TensorBoard
from srgdqn.integrations.weights_and_biases import WeightsAndBiases

LOGGERS: dict[str, type[LoggerWithOption]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}
"""The loggers that `srgdqn train` has an option for, by its name."""

__all__ = ["LOGGERS", "JsonLines", "Logger", "TensorBoard", "WeightsAndBiases", "listening"]
