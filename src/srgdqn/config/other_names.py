"""What other libraries call our options, and what to give here in their place: Stable-Baselines3 and its zoo, CleanRL,
Tianshou, RLlib, Dopamine. Consulted where a name is unknown, so that a name of ours always comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from srgdqn.errors import InputError, unknown

# Another name for the same thing.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "learning_rate": ("eta", "alpha"),
    "lr": ("eta", "alpha"),
    "step_size": ("eta", "alpha"),
    "discount": ("gamma",),
    "discount_factor": ("gamma",),
    "total_timesteps": ("steps",),
    "timesteps": ("steps",),
    "n_timesteps": ("steps",),
    "total_steps": ("steps",),
    "n_episodes": ("episodes",),
    "num_episodes": ("episodes",),
    "buffer_size": ("replay_capacity",),
    "memory_size": ("replay_capacity",),
    "replay_size": ("replay_capacity",),
    "min_replay_history": ("learning_starts",),
    "minibatch_size": ("batch_size",),
    "train_batch_size": ("batch_size",),
    "train_freq": ("learning_frequency",),
    "train_frequency": ("learning_frequency",),
    "update_period": ("learning_frequency",),
    "updates_per_step": ("gradient_steps",),
    "net_arch": ("hidden",),
    "hidden_sizes": ("hidden",),
    "hiddens": ("hidden",),
    "activation_fn": ("activation",),
    "target_network_frequency": ("target_update_interval",),
    "target_network_update_freq": ("target_update_interval",),
    "target_update_period": ("target_update_interval",),
    "target_update_freq": ("target_period", "target_update_interval"),
    "exploration_fraction": ("epsilon_fraction",),
    "exploration_initial_eps": ("epsilon_start",),
    "exploration_final_eps": ("epsilon_end",),
    "start_e": ("epsilon_start",),
    "end_e": ("epsilon_end",),
    "epsilon_min": ("epsilon_end",),
    "eps_start": ("epsilon_start",),
    "eps_end": ("epsilon_end",),
    "adam_eps": ("adam_epsilon",),
    "seeds": ("rounds", "seed"),
    "n_envs": ("environments",),
    "num_envs": ("environments", "rounds"),
    "max_episode_steps": ("time_limit",),
    "eval_freq": ("evaluation_interval",),
    "n_eval_episodes": ("evaluation_episodes",),
    "reward_scaling": ("reward_scale",),
    "reward_normalization": ("normalise_rewards",),
    "normalize_rewards": ("normalise_rewards",),
    "normalize_observations": ("normalise_observations",),
}

_DOUBLE = "Give bootstrap = 'double' and a target network: target = 'hard' or 'polyak'."
_N_STEP = "Give n_step, the steps whose rewards y adds up before it bootstraps."
_PRIORITISED = "Give sampling = 'prioritised'; its numbers are options of their own, which srgdqn train --help shows."
_DUELING = "Give dueling = True."
_NOISY = "Give noisy = True."
_C51 = "Give loss = 'c51'; its atoms are options of their own, which srgdqn train --help shows."
_POLYAK = (
    "For a target network that drifts, give target = 'polyak' and target_tau; with tau = 1 it is copied: give target = "
    "'hard' and target_update_interval, in environment steps."
)
_CLIP = (
    "Give clip_norm. The squared loss here is e², not e²/2, and so are gradients twice as long: clip_norm = 20 is a "
    "max_grad_norm of 10."
)
_DECLINE = (
    "ε falls linearly from epsilon_start to epsilon_end. Give epsilon_fraction, the share of the budget that it takes."
)
_OPTIMISER = "The algorithm decides it: 'dqn-adam' steps by Adam, 'dqn-sgd' along plain gradients."
_NORMALISE = "Give normalise_observations = True, or normalise_rewards = True, or both."
_NETWORK = "Give its entries as options: hidden = (64, 64) for net_arch, activation = 'relu' for activation_fn."
_FOLDER = "Give out = 'runs/a' (--out runs/a on the command line), the folder that a run is saved in."
_DEVICE = "Leave it out: everything runs on the processor."

# What is more than another name. Each is what to give here, in one or two sentences.
ANSWERS: dict[str, str] = {
    **dict.fromkeys(("double", "double_q", "double_dqn", "is_double", "ddqn", "use_double"), _DOUBLE),
    **dict.fromkeys(("n_steps", "nstep", "multi_step", "update_horizon", "estimation_step"), _N_STEP),
    **dict.fromkeys(("prioritized_replay", "prioritised_replay", "prioritized", "per", "use_per"), _PRIORITISED),
    **dict.fromkeys(("prioritized_replay_alpha", "prioritized_replay_beta", "prioritized_replay_eps"), _PRIORITISED),
    **dict.fromkeys(("dueling_dqn", "dueling_network", "use_dueling"), _DUELING),
    **dict.fromkeys(("noisy_net", "noisy_nets", "noisy_networks", "noisy_dqn"), _NOISY),
    **dict.fromkeys(("distributional", "categorical", "n_atoms", "num_atoms"), _C51),
    **dict.fromkeys(("tau", "soft_update", "soft_update_tau"), _POLYAK),
    "polyak": "Give target = 'polyak' and target_tau = 1 - polyak, the share of the way that the target moves.",
    **dict.fromkeys(("max_grad_norm", "grad_clip", "gradient_clip"), _CLIP),
    "epsilon": "Give epsilon_start and epsilon_end, between which ε falls over epsilon_fraction of the budget.",
    **dict.fromkeys(("epsilon_decay", "epsilon_decay_period", "eps_decay", "exploration_decay"), _DECLINE),
    "epsilon_eval": "Leave it out: evaluations are greedy.",
    **dict.fromkeys(("optimizer", "optimizer_class"), _OPTIMISER),
    "optimizer_kwargs": "Give its entries as options: adam_epsilon for eps, beta1 and beta2 for betas, weight_decay.",
    **dict.fromkeys(("huber", "huber_loss", "smooth_l1", "clip_loss_grad"), "Give loss = 'huber'."),
    "loss_fn": "Give loss = 'squared' or loss = 'huber'.",
    **dict.fromkeys(("policy_kwargs", "model_config", "model"), _NETWORK),
    "policy": "Leave it out, or give network = 'mlp' (for vectors) or network = 'cnn' (for images).",
    "features_extractor_class": "Give network = an equinox module of your own, in Python.",
    "normalize_images": "Leave it out: the convolutional network divides images by 255.",
    **dict.fromkeys(("normalize", "normalize_advantage"), _NORMALISE),
    "optimize_memory_usage": "Leave it out: frames that transitions share are always stored once.",
    **dict.fromkeys(("replay_buffer_class", "replay_buffer_kwargs", "replay_buffer_config"), "Give sampling = a rule."),
    "env_wrapper": "Wrap the environment, and give a function that makes it, in Python.",
    "frame_stack": "Wrap the environment in gymnasium.wrappers.FrameStackObservation; Atari games are stacked already.",
    "tensorboard_log": "Give loggers = [srgdqn.integrations.TensorBoard(folder)] (--tensorboard on the command line).",
    "verbose": "Give progress = True or False (--quiet on the command line); Agent.learn has progress_bar.",
    "stats_window_size": "Leave it out: every episode is a row of result.episodes. Curves have window, in steps.",
    "log_interval": "Give window, the environment steps in one row of the curves.",
    **dict.fromkeys(("device", "cuda", "use_gpu"), _DEVICE),
    **dict.fromkeys(("save_model", "save_path", "log_folder"), _FOLDER),
}


def answer(name: str, written: Callable[[str], str] = str) -> str | None:
    """What to give here for what another library calls `name`, with underscores or hyphens; None where none is known.

    >>> answer("learning-rate")
    'It is called eta or alpha here.'
    """
    plain = name.strip("-").replace("-", "_").lower()
    if plain in SYNONYMS:
        return f"It is called {' or '.join(map(written, SYNONYMS[plain]))} here."
    return ANSWERS.get(plain)


def unknown_option(name: str, known: Iterable[str], kind: str = "option") -> InputError:
    """The error for an option that does not exist: what other libraries mean by it, or else the nearest of ours."""
    said = answer(name)
    return unknown(kind, name, known) if said is None else InputError(f"unknown {kind} {name!r}. {said}")
