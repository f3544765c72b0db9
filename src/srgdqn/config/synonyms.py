"""What other libraries call our options, for those who come from them."""

from __future__ import annotations

SYNONYMS: dict[str, tuple[str, ...]] = {
    "learning_rate": ("eta", "alpha"),
    "lr": ("eta", "alpha"),
    "step_size": ("eta", "alpha"),
    "discount": ("gamma",),
    "total_timesteps": ("steps",),
    "timesteps": ("steps",),
    "buffer_size": ("replay_capacity",),
    "train_freq": ("learning_frequency",),
    "train_frequency": ("learning_frequency",),
    "net_arch": ("hidden",),
    "tau": ("target_tau",),
    "target_update_interval": ("target_period",),
    "target_network_frequency": ("target_period",),
    "exploration_fraction": ("epsilon_fraction",),
    "exploration_initial_eps": ("epsilon_start",),
    "exploration_final_eps": ("epsilon_end",),
    "start_e": ("epsilon_start",),
    "end_e": ("epsilon_end",),
    "max_grad_norm": ("clip_norm",),
    "seeds": ("rounds", "seed"),
    "num_envs": ("rounds",),
}


def called_here(name: str) -> tuple[str, ...]:
    """Our options for what another library calls `name`, written with underscores or hyphens.

    >>> called_here("learning-rate")
    ('eta', 'alpha')
    """
    return SYNONYMS.get(name.strip("-").replace("-", "_").lower(), ())
