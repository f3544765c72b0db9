"""Watching a run while it goes on: loggers that hear what each round does, and what `srgdqn watch` reads.

Nothing here imports jax, polars or an optional package before it is needed.
"""

from srgdqn.integrations.json_lines import JsonLines
from srgdqn.integrations.listen import listening
from srgdqn.integrations.logger import Logger
from srgdqn.integrations.tensorboard import TensorBoard
from srgdqn.integrations.weights_and_biases import WeightsAndBiases

__all__ = ["JsonLines", "Logger", "TensorBoard", "WeightsAndBiases", "listening"]
