"""Runs on disk: a configuration, tables and parameters in open formats. Loading one never runs code."""
