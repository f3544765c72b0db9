"""Every option: its default, what it may be, and one sentence, in the order of the algorithm.

Names are unique over all sections: users write `eta=0.01` or `--eta 0.01` and need not know the section. A *number* (a
step size, a discount) enters a compiled program as an argument, one value per lane, so that changing it never compiles
anew and a sweep runs the program of a single run. Everything else is *shape*: part of the program's identity.

Free of jax, so that a command line that only reads options starts at once.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from srgdqn.config.discovery import COMPILED_TASKS
from srgdqn.config.estimator_numbers import numbers_of_estimator
from srgdqn.config.other_names import unknown_option

if TYPE_CHECKING:
    Reward: TypeAlias = str
else:
    Reward = Literal[tuple(dict.fromkeys(name for task in COMPILED_TASKS.values() for name in task.rewards))]


@dataclass(frozen=True)
class Rule:
    """What one option must be by itself. None switches an option off, and obeys every rule."""

    holds: Callable[[Any], bool]
    expectation: str

    def allows(self, value: Any) -> bool:
        """Whether the value obeys the rule, a float also when it is rounded to a compiled program's precision:
        1 - 1e-9 is below 1, and 1e-50 above 0, but not there.
        """
        if isinstance(value, float):
            return self.holds(value) and self.holds(_single_precision(value))
        return value is None or self.holds(value)


def _single_precision(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded if abs(rounded) >= 2.0**-126 else 0.0  # compiled programs may flush subnormal numbers


def _whole(least: int, most: int = 2**31 - 1) -> Rule:
    """A whole number; the counters of compiled programs have 32 bits."""
    return Rule(lambda value: least <= value <= most, f"a whole number from {least} to {most}")


_COUNT = _whole(1)
_SEED = _whole(0, 2**32 - 1)
_BINS = _whole(2, 1_000)
_NOT_NEGATIVE = Rule(lambda value: value >= 0, "0 or more")
_NOT_POSITIVE = Rule(lambda value: value <= 0, "0 or less")
_POSITIVE = Rule(lambda value: value > 0, "above 0, also in single precision")
_NOT_ZERO = Rule(lambda value: value != 0, "another number than 0, also in single precision")
_SHARE = Rule(lambda value: 0 <= value <= 1, "from 0 to 1")
_POSITIVE_SHARE = Rule(lambda value: 0 < value <= 1, "above 0 (also in single precision) and at most 1")
_PROPER_SHARE = Rule(lambda value: 0 < value < 1, "above 0 and below 1 (also in single precision)")
_DECAY = Rule(lambda value: 0 <= value < 1, "at least 0 and below 1 (also in single precision)")
_WIDTHS = Rule(
    lambda widths: len(widths) <= 100 and all(map(_COUNT.holds, widths)),
    f"widths from 1 to {2**31 - 1} each, of 100 layers at most",
)


def option(default: Any, rule: Rule | None = None) -> Any:
    """Declares a dataclass field with a rule."""
    return field(default=default, metadata={"rule": rule})


def number(default: float | int | None, rule: Rule | None = None) -> Any:
    """Declares a dataclass field as a number (None: the option is off, and its being off is shape)."""
    return field(default=default, metadata={"rule": rule, "number": True})


@dataclass(frozen=True)
class TaskSettings:
    """The task and the readings of the paper that concern it."""

    task: str = "MountainCar"
    """Name of the task."""
    reward: Reward = "raw"
    """Reward learned from: Gymnasium's own (raw), or another that the task has; srgdqn list shows their formulas."""
    reward_scale: float = number(1.0, _NOT_ZERO)
    """Factor on the reward as it enters the replay; logs show rewards unscaled."""
    reward_clip: float | None = number(None, _POSITIVE)
    """Largest size of a reward as it enters the replay, before it is scaled; logs show rewards as they came (none:
    off)."""
    time_limit: int | None = option(None, _COUNT)
    """Steps after which an episode is truncated (none: never)."""
    torques: Literal["endpoints", "midpoints"] | None = None
    """Pendulum's 12 torques: equally spaced from -2 to 2 inclusive, or the midpoints of 12 equal intervals."""
    dynamics: Literal["v0", "v1"] | None = None
    """Pendulum's dynamics: v0 integrates the angle with the speed before it is clipped, v1 after."""
    action_bins: int | None = option(None, _BINS)
    """Actions per dimension that a Gymnasium environment's continuous actions are cut into, equally spaced with both
    ends (none: its actions are discrete)."""


@dataclass(frozen=True)
class NetworkSettings:
    """The network from an observation to one Q-value per action."""

    hidden: tuple[int, ...] = option((20,), _WIDTHS)
    """Widths of the hidden layers."""
    activation: Literal["relu", "tanh", "softplus"] = "relu"
    """Activation of the hidden layers."""
    initialisation: Literal["lecun-uniform", "normal", "pytorch"] = "lecun-uniform"
    """Weights at the start: LeCun uniform with zero biases, normal(0, 0.3) with biases of 0.1, or PyTorch's, weights
    and biases uniform within 1/√(a layer's inputs)."""
    network: str = "mlp"
    """The built-in perceptron (mlp), the built-in convolutional network for images (cnn), or the name of the module
    passed in Python."""
    dueling: bool = False
    """Give a built-in network two heads, of the state's value and of each action's advantage: Q = V + A - mean A."""
    layer_norm: bool = False
    """Normalise the units of a built-in network's hidden layers, each row for itself, before the activation."""
    dropout: float | None = number(None, _PROPER_SHARE)
    """Probability with which a hidden unit of a built-in network is left out of a gradient (none: off); acting and
    evaluations have all units."""
    noisy: bool = False
    """Give the affine layers of a built-in network factorised Gaussian noise of learned size (NoisyNet), which acting
    has too, and evaluations have not."""
    noisy_sigma: float = option(0.5, _POSITIVE)
    """σ_0: the noise of a noisy layer with p inputs begins at σ_0/√p."""

    @property
    def has_noise(self) -> bool:
        """Whether gradients depend on random numbers of the network's own."""
        return self.noisy or self.dropout is not None

    @property
    def has_parts(self) -> bool:
        """Whether a built-in network has more than its plain layers."""
        return self.dueling or self.layer_norm or self.has_noise


@dataclass(frozen=True)
class ActingSettings:
    """The ε-greedy policy: ε falls linearly over a share of the budget, measured in the budget's own unit."""

    epsilon_start: float = number(0.1, _SHARE)
    """Probability of a uniformly random action at the start."""
    epsilon_end: float = number(0.001, _SHARE)
    """Probability of a uniformly random action once the decline is over."""
    epsilon_fraction: float = number(1.0, _POSITIVE_SHARE)
    """Share of the budget over which the probability declines."""
    uniform_start: bool = False
    """Act uniformly at random until the first outer iteration, whatever the probability."""
    action_masks: bool = False
    """Choose only actions that info["action_mask"] of a Gymnasium environment allows, also in y."""


@dataclass(frozen=True)
class ReplaySettings:
    """The first-in-first-out memory and how the batch D is drawn from it."""

    replay_capacity: int = option(3_000, _COUNT)
    """Transitions stored; the oldest is overwritten."""
    batch_size: int = option(64, _COUNT)
    """N, the transitions in one batch D."""
    sampling: str = "with-replacement"
    """How D is drawn: uniformly (with-replacement or without-replacement), the N newest transitions (newest), by the
    size of their Bellman errors (prioritised), or by a rule of your own that is registered by this name."""
    priority_exponent: float = number(0.6, _SHARE)
    """α of prioritised replay: 0 draws uniformly, 1 in proportion to Bellman errors."""
    importance_exponent: float = number(0.4, _SHARE)
    """β of prioritised replay at the start, rising to 1 over the budget: 1 makes up for drawing some more often."""
    priority_floor: float = number(1e-6, _POSITIVE)
    """ε of prioritised replay, added to every size of a Bellman error."""
    n_step: int = option(1, _whole(1, 1_000))
    """n, the steps of an episode that a drawn transition spans at most: its target is the n-step return."""


VARIANCE_FLOOR = 1e-8
"""Added to variances, so that a feature that never varies is divided by something."""


@dataclass(frozen=True)
class NormalisationSettings:
    """Running statistics, or constants, that observations and rewards are divided by; all are off by default."""

    normalise_observations: bool = False
    """Give the network observations with running mean 0 and standard deviation 1."""
    scale_observations: bool = False
    """Give the network observations whose bounds are -1 and 1; numbers without bounds, or with bounds of a million or
    more, stay as they are."""
    normalise_rewards: bool = False
    """Divide rewards in D by the running standard deviation of the discounted return."""


@dataclass(frozen=True)
class GradientSettings:
    """The Bellman error of one transition, and what its gradient is taken of."""

    gamma: float = number(0.9, _SHARE)
    """Discount factor γ."""
    target: Literal["current", "outer", "hard", "polyak"] = "current"
    """Parameters behind the target y: each gradient's own; those at the start of the outer iteration; or a target
    network, copied at intervals (hard) or drifting (polyak)."""
    bootstrap: str = "max"
    """Value of S' in y: its largest Q-value (max), the target network's of the action that is best at θ_0 (double:
    Double DQN), the soft value of π = softmax(Q/τ) with log π(A|S) beside R (munchausen: Munchausen DQN), or by a rule
    of your own that is registered by this name."""
    munchausen_share: float = number(0.9, _SHARE)
    """Munchausen DQN's α: the share of τ log π(A|S) that is added to R."""
    munchausen_temperature: float = number(0.03, _POSITIVE)
    """Munchausen DQN's temperature τ, in units of Q."""
    munchausen_floor: float = number(-1.0, _NOT_POSITIVE)
    """Munchausen DQN's least value of τ log π(A|S)."""
    reward_estimation: bool = False
    """Put into y, in the place of R, an estimate of it from S and A, by a network like the Q-network that one step of
    Adam fits to the rewards in D before every outer iteration (Romoff et al.)."""
    reward_alpha: float = number(1e-3, _NOT_NEGATIVE)
    """Step size of the Adam that fits estimated rewards."""
    target_period: int = number(100, _COUNT)
    """Outer iterations between two copies of a hard target network."""
    target_update_interval: int | None = number(None, _COUNT)
    """The same in environment steps, counted from the first of the round: copied before the learning at a multiple of
    it, or the first thereafter (none: target_period counts)."""
    target_networks: int = option(1, _whole(1, 100))
    """K, the networks behind y: it has the mean of the Q-values of the last K copies of a hard target network
    (Averaged-DQN; 1: of the last alone)."""
    target_tau: float = number(0.005, _POSITIVE_SHARE)
    """Share of the way a polyak target network moves in one outer iteration."""
    mask_terminal: bool = True
    """Stop bootstrapping where an episode terminates (never where it is only truncated)."""
    loss: Literal["squared", "huber", "c51", "hl-gauss"] = "squared"
    """Loss of one transition: the squared Bellman error; Huber's (equal to it up to huber_delta, linear beyond); or the
    cross entropy of a distribution over atoms to that of S' (c51), or to a histogram around y (hl-gauss)."""
    huber_delta: float = number(1.0, _POSITIVE)
    """Bellman error beyond which the Huber loss is linear."""
    atoms: int = option(51, _whole(2, 1_000))
    """Atoms of the distribution that a network gives for each action with loss = 'c51' or 'hl-gauss'."""
    value_min: float | None = number(None)
    """Value of the least atom: what no return is below."""
    value_max: float | None = number(None)
    """Value of the largest atom: what no return is above."""
    hl_gauss_sigma: float = number(0.75, _POSITIVE)
    """Standard deviation of the histogram of loss = 'hl-gauss', in widths of a bin."""
    differentiation: Literal["auto", "closed-form", "autodiff"] = "auto"
    """How gradients are computed: in closed form (perceptrons only), by automatic differentiation, or the first
    that fits."""

    @property
    def is_distributional(self) -> bool:
        """Whether the network gives a distribution for each action."""
        return self.loss in ("c51", "hl-gauss")

    @property
    def outputs_per_action(self) -> int:
        """Of the network."""
        return self.atoms if self.is_distributional else 1


@dataclass(frozen=True)
class EstimatorSettings:
    """The direction Δ_m of the inner iterations."""

    estimator: str = "srg"
    """Estimator of the inner iterations (none: only the full-batch step)."""
    inner_iterations: int = option(16, _whole(0))
    """M, the inner iterations in one outer iteration."""
    inner_batch: int = option(1, _COUNT)
    """b, the transitions picked from D for one inner iteration."""
    inner_sampling: Literal["with-replacement", "without-replacement"] = "with-replacement"
    """How the b transitions of one pick are drawn from D."""
    coefficient: float = number(1.0)
    """c in Δ_m = g(θ_m) - c (g(θ_ref) - anchor): 1 is full variance reduction, 0 none."""
    anchor_step: bool = True
    """Step along the full gradient before the inner iterations (Algorithm 1, line 6). An estimator with a direction per
    batch has neither."""
    own: tuple[tuple[str, float], ...] = field(default=(), metadata={"own": True})
    """The numbers that this estimator has of its own, by name: options like the others, but of no other estimator."""


@dataclass(frozen=True)
class OptimiserSettings:
    """What is done with a direction: the step η, and the Adam process that may end an outer iteration."""

    eta: float = number(1e-2, _NOT_NEGATIVE)
    """Step size η of every step along Δ_m."""
    step: Literal["gradient", "adam"] = "gradient"
    """Each step is -ηΔ_m, or Adam's with step size alpha."""
    adam_process: bool = True
    """End each outer iteration with the Adam process (Algorithm 1, lines 16 to 21)."""
    alpha: float = number(1e-3, _NOT_NEGATIVE)
    """Adam's step size α."""
    beta1: float = number(0.9, _DECAY)
    """Adam's decay of the first moment, β1."""
    beta2: float = number(0.999, _DECAY)
    """Adam's decay of the second moment, β2."""
    adam_epsilon: float = number(1e-8, _POSITIVE)
    """ϵ in Adam's denominator."""
    adam_at_copy: Literal["keep", "reset", "restart-clock"] = "keep"
    """What a hard target network's copy does to Adam: nothing; m, v and s begin anew from 0 (reset); or s alone, by
    which the biases of both are corrected (restart-clock: Adam-Rel)."""
    adam_input: Literal["delta", "gradient"] = "delta"
    """What enters the Adam process: Δ_M, or the raw gradient g_M as line 16 prints."""
    adam_from: Literal["last", "previous"] = "last"
    """Where the Adam process steps from: θ after the last inner step, or before it as line 21 prints."""
    adam_denominator: Literal["elementwise", "norm"] = "elementwise"
    """Adam's denominator: the root of each element of v, or of the norm of all of v as line 21 prints."""
    single_step_matches: Literal["nothing", "length", "queries"] = "nothing"
    """What the full-batch step takes over from the inner iterations that are not made: nothing, their length
    (a step of (M + 1)η), or their gradient queries (a batch of N + 2bM)."""
    weight_decay: float | None = number(None, _POSITIVE)
    """λ: each of Adam's steps also takes αλθ away (AdamW's decoupled decay; none: off)."""
    clip_norm: float | None = number(None, _POSITIVE)
    """Largest global norm of a direction as it is applied; the recursion itself is not clipped (none: off)."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How η and α change over the budget."""
    schedule_end: float = number(0.0, _SHARE)
    """Share of η and α that is left when the budget is."""


@dataclass(frozen=True)
class TrainingSettings:
    """The budget of a round, how many rounds, and what is recorded on the way."""

    steps: int | None = option(None, _COUNT)
    """Budget in environment steps."""
    outer_iterations: int | None = option(None, _COUNT)
    """Budget in outer iterations."""
    episodes: int | None = option(None, _COUNT)
    """Budget in episodes."""
    episode_cap: int | None = option(2_000, _COUNT)
    """Under an episode budget, steps after which an episode without a time limit is cut and counted as censored."""
    rounds: int = option(1, _COUNT)
    """Independent repetitions, each with a seed of its own."""
    environments: int = option(1, _COUNT)
    """Copies of a Gymnasium environment that a round steps side by side; compiled tasks have one."""
    seed: int = option(0, _SEED)
    """Seed that every round's own seed is derived from."""
    learning_frequency: int = option(16, _COUNT)
    """Environment steps between two times of learning."""
    gradient_steps: int = option(1, _whole(1, 10_000))
    """Outer iterations after every learning_frequency environment steps, each on a batch of its own."""
    learning_starts: int = option(1_000, _whole(0))
    """Environment steps before the first outer iteration."""
    lanes: int = option(25, _COUNT)
    """Rounds that one program compiled by XLA runs side by side; part of a round's identity there, as other widths may
    round differently. 1 is fastest for a single round."""
    kernel: Literal["auto", "native", "xla"] = "auto"
    """What runs the loop: the fused C kernel (native; compiled tasks and perceptrons with ReLU), a program compiled
    by XLA (anything), or native where it can. A run's own configuration says which it was; they round differently."""
    window: int = option(1_000, _COUNT)
    """Environment steps averaged into one row of the curves."""
    evaluation_interval: int | None = option(10_000, _COUNT)
    """Environment steps between two greedy evaluations on the raw reward (none: only one, at the end)."""
    evaluation_episodes: int = option(5, _COUNT)
    """Episodes in one greedy evaluation, from the same starts for every round and algorithm."""
    evaluation_limit: int | None = option(None, _COUNT)
    """Steps after which an episode of evaluation is cut (none: Gymnasium's own limit of compiled tasks; the time
    limit of a task of your own, or else 1,000)."""
    direction_errors: bool = False
    """Measure at every evaluation how far the estimator's last direction is from the gradient over the whole replay."""
    keep_best: bool = False
    """Keep each round's best policy by these evaluations beside the last one, and play both from fresh starts at the
    end: four times evaluation_episodes episodes each."""

    @property
    def first_learning_block(self) -> int:
        """The blocks of `learning_frequency` steps before the first that ends with an outer iteration: the first whose
        end is not before `learning_starts`.
        """
        return max(0, -(-self.learning_starts // self.learning_frequency) - 1)


@dataclass(frozen=True)
class Configuration:
    """Everything that determines a run: with the version it gives the same bits on the same instruction set."""

    algorithm: str = "srg-dqn"
    """The named composition these settings started from."""
    readings: str = "corrected"
    """The named set of readings these settings started from."""
    task: TaskSettings = field(default_factory=TaskSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    acting: ActingSettings = field(default_factory=ActingSettings)
    replay: ReplaySettings = field(default_factory=ReplaySettings)
    normalisation: NormalisationSettings = field(default_factory=NormalisationSettings)
    gradients: GradientSettings = field(default_factory=GradientSettings)
    estimator: EstimatorSettings = field(default_factory=EstimatorSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def with_options(self, options: Mapping[str, Any], own: Mapping[str, float] | None = None) -> Configuration:
        """A copy in which the named options have other values, whatever their section. `own` are numbers of the
        estimator's own, which then need not be known here.
        """
        names = option_names()
        chosen = options.get("estimator", self.estimator.estimator)
        declared = numbers_of_estimator(chosen) if isinstance(chosen, str) else {}
        stored = dict(self.estimator.own) if chosen == self.estimator.estimator else {}
        stored |= {} if own is None else own
        numbers = {name: number.default for name, number in declared.items()} | stored
        homes: dict[str, dict[str, Any]] = {"estimator": {}}
        for name, value in options.items():
            if name in numbers:
                numbers[name] = value
            elif name not in names:
                raise unknown_option(name, {*names, *numbers})
            else:
                homes.setdefault(names[name], {})[name] = value
        homes["estimator"]["own"] = tuple(numbers.items())
        changed = {section: dataclasses.replace(getattr(self, section), **values) for section, values in homes.items()}
        return dataclasses.replace(self, **changed)

    def options(self) -> dict[str, Any]:
        """Every option and its value, flat; the estimator's own numbers last."""
        general = {name: getattr(getattr(self, section), name) for name, section in option_names().items()}
        return {**general, **dict(self.estimator.own)}

    def numbers(self) -> dict[str, float]:
        """The options that enter a compiled program as arguments."""
        return {name: value for section in sections() for name, value in _numbers_of(getattr(self, section)).items()}

    def shape(self) -> Configuration:
        """The configuration with its numbers zeroed: what the identity of a compiled program may depend on."""
        return dataclasses.replace(self, **{section: shape_of(getattr(self, section)) for section in sections()})

    def with_numbers(self, numbers: Mapping[str, Any]) -> Configuration:
        """The configuration with its numbers replaced (by floats, or by the traced scalars of one lane)."""

        def replaced(section: Any) -> Any:
            return _with_numbers(section, {name: numbers[name] for name in _numbers_of(section)})

        return dataclasses.replace(self, **{section: replaced(getattr(self, section)) for section in sections()})


Section = TypeVar("Section")


def shape_of(section: Section) -> Section:
    """One section with every number set to 0: equal for two of them exactly if one program serves both."""
    return _with_numbers(section, dict.fromkeys(_numbers_of(section), 0.0))


def _with_numbers(section: Section, numbers: Mapping[str, Any]) -> Section:
    """A section with other numbers, among them an estimator's own."""
    own = tuple((name, numbers.get(name, value)) for name, value in getattr(section, "own", ()))
    general = {name: value for name, value in numbers.items() if name not in dict(own)}
    return dataclasses.replace(section, **general, **({"own": own} if own else {}))  # type: ignore[type-var]


def _numbers_of(section: Any) -> dict[str, float]:
    """The numbers of one section that are in use, by option name."""
    general = {
        each.name: getattr(section, each.name)
        for each in dataclasses.fields(section)
        if each.metadata.get("number") and getattr(section, each.name) is not None
    }
    if not getattr(section, "own", ()):
        return general
    declared = numbers_of_estimator(section.estimator)
    sizes = {name for name, number in declared.items() if number.size}
    return general | {name: value for name, value in section.own if name not in sizes}


def sections() -> tuple[str, ...]:
    """The fields of `Configuration` that hold a section's options."""
    return tuple(each.name for each in dataclasses.fields(Configuration) if each.name not in ("algorithm", "readings"))


def option_names() -> dict[str, str]:
    """Every option's name and its section."""
    return {each.name: section for section, each in _declared()}


def rules() -> dict[str, Rule]:
    """The rule of every option that has one."""
    return {each.name: each.metadata["rule"] for _, each in _declared() if each.metadata.get("rule") is not None}


@functools.cache
def _declared() -> list[tuple[str, dataclasses.Field[Any]]]:
    every = [(section, each) for section in sections() for each in dataclasses.fields(getattr(_DEFAULT, section))]
    return [(section, each) for section, each in every if not each.metadata.get("own")]


_DEFAULT = Configuration()
