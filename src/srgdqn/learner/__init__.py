"""Algorithm 1: networks, gradients, estimators, optimiser, replay, exploration; `outer_iteration` joins them."""
