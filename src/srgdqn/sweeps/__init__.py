"""Sweeps: many cells of one question, over a grid of options or as Optuna asks for them."""
