"""A run from start to save: what it is known by, whether a stored one answers, training, saving."""
