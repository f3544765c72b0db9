"""Configurations: options, presets, algorithms and readings; no jax."""

from srgdqn.config.options import (
    ActingSettings,
    Configuration,
    EstimatorSettings,
    GradientSettings,
    NetworkSettings,
    NormalisationSettings,
    OptimiserSettings,
    ReplaySettings,
    TaskSettings,
    TrainingSettings,
    option_names,
    sections,
)

__all__ = [
    "ActingSettings",
    "Configuration",
    "EstimatorSettings",
    "GradientSettings",
    "NetworkSettings",
    "NormalisationSettings",
    "OptimiserSettings",
    "ReplaySettings",
    "TaskSettings",
    "TrainingSettings",
    "option_names",
    "sections",
]
