"""Algorithm 1: networks, gradients, estimators, optimiser, replay, exploration, and the `outer_iteration` of them all."""
