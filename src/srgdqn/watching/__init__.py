"""Watching a run while it goes on: loggers that hear what each round does, and what `srgdqn watch` reads.

Nothing here imports jax, polars or an optional package before it is needed.
"""

from srgdqn.watching.json_lines import JsonLines
from srgdqn.watching.listen import listening
from srgdqn.watching.logger import Logger
from srgdqn.watching.tensorboard import TensorBoard
from srgdqn.watching.weights_and_biases import WeightsAndBiases

__all__ = ["JsonLines", "Logger", "TensorBoard", "WeightsAndBiases", "listening"]
