"""Rounds in ordinary Gymnasium environments, stepped on the host."""
