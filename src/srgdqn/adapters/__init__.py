"""Ordinary Gymnasium environments, stepped on the host with the same learner."""
