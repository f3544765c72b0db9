"""Checks of a configuration before any work starts: each option by itself, and the options beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from keyword import iskeyword
from types import SimpleNamespace
from typing import Any

from srgdqn.config.coercion import check_name, coerce, coerce_number
from srgdqn.config.discovery import (
    BOOTSTRAPS,
    COMPILED_TASKS,
    ESTIMATORS,
    NETWORKS,
    OWN_RULES,
    SAMPLINGS,
    estimator_names,
    known_estimator,
)
from srgdqn.config.estimator_numbers import CURVES_COLUMNS, RESERVED, Number, numbers_of_estimator
from srgdqn.config.options import Configuration, option_names, rules
from srgdqn.errors import InputError, shown, unknown

# The options that say how long a round is: exactly one of them is given.
BUDGETS = ("steps", "outer_iterations", "episodes")


def check(configuration: Configuration) -> Configuration:
    """The configuration, with every value in its option's own type; an `InputError` where it could not be run."""
    configuration = _check_each(configuration)
    name = configuration.estimator.estimator
    check_estimator(name)
    options = SimpleNamespace(**configuration.options())
    for option, built_in in (("sampling", SAMPLINGS), ("bootstrap", BOOTSTRAPS)):
        rule, known = getattr(options, option), (*built_in, *OWN_RULES[option])
        if rule not in known:
            hint = "One of your own must be registered first: import its module (--import my_module)."
            raise InputError(f"{unknown(option, rule, known)} {hint}")
    for problem in _contradictions(options):
        raise InputError(problem)
    chosen = ESTIMATORS.get(name)
    if chosen is not None and chosen.problem is not None and (problem := chosen.problem(options)):
        raise InputError(problem)
    return configuration


def check_estimator(name: str) -> None:
    """An `InputError` if there is no estimator of that name; an installed package's is imported."""
    if not known_estimator(name):
        hint = "One of your own must be registered first: import its module (--import my_module)."
        raise InputError(f"{unknown('estimator', name, estimator_names())} {hint}")


def check_definition(estimator: str, new: Any) -> None:
    """An `InputError` if an estimator cannot be registered as it is."""
    if not isinstance(estimator, str) or not estimator.isprintable() or len(estimator.split()) != 1:
        raise InputError(f"the name of an estimator is {shown(estimator)}. Give one of characters without spaces.")
    if new.per not in ("pick", "batch"):
        raise InputError(
            f"the estimator {estimator!r} has a direction per {shown(new.per)}. Give per = 'pick', for one on every "
            "pick from D, or per = 'batch', for one on every D."
        )
    if new.per == "batch" and new.reference is not None:
        raise InputError(
            f"the estimator {estimator!r} has a direction per batch, whose reference is of another outer iteration and "
            "not traced. Leave reference out."
        )
    logged = [name for name, _ in new.logged]
    for index, name in enumerate(logged):
        whose = f"the estimator {estimator!r} logs {shown(name)}"
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"{whose}, which is no column's name. Give it one of letters and underscores.")
        if name in CURVES_COLUMNS:
            raise InputError(f"{whose}, which is a column of every run's curves already. Give it another name.")
        if name in logged[:index]:
            raise InputError(f"{whose} twice. Give each a name of its own.")
    _check_numbers(estimator, new.numbers)


def _check_numbers(estimator: str, numbers: Sequence[Number]) -> None:
    for index, number in enumerate(numbers):
        if not isinstance(number, Number):
            raise InputError(
                f"the estimator {estimator!r} has {shown(number)} among its numbers. Give Number(name, default, "
                "meaning) for each."
            )
        name, whose = number.name, f"the estimator {estimator!r} has a number called {shown(number.name)}"
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_") or len(name) > 40:
            raise InputError(f"{whose}, which is no option's name. Give it a short one of letters and underscores.")
        if name in option_names() or name in RESERVED or iskeyword(name):
            raise InputError(f"{whose}, which means something else already. Give it another name.")
        if name in (other.name for other in numbers[:index]):
            raise InputError(f"{whose} twice. Give each a name of its own.")
        _check_own(number, name, number.default)


def check_estimator_of_run(name: str) -> None:
    """An `InputError` if the estimator that a stored run was trained with is not known here."""
    if not known_estimator(name):
        raise InputError(
            f"it was trained with the estimator {name!r}, which is not registered. Import its module: --import "
            "my_module (in Python: import my_module)."
        )


def check_stored(configuration: Configuration) -> Configuration:
    """The same of a configuration that was run before, perhaps by another release: every value is possible, and there
    is one budget. What options are beside each other is not checked.
    """
    configuration = _check_each(configuration)
    if sum(getattr(configuration.training, name) is not None for name in BUDGETS) != 1:
        raise InputError(f"it has no budget, or several. Set exactly one of {', '.join(BUDGETS)}.")
    return configuration


def _check_each(configuration: Configuration) -> Configuration:
    for label in ("algorithm", "readings"):
        check_name(label, getattr(configuration, label))
    own = configuration.estimator.own
    declared = numbers_of_estimator(configuration.estimator.estimator)
    checked = {name: _check_own(declared.get(name), name, value) for name, value in own}
    general = {name: value for name, value in configuration.options().items() if name not in checked}
    checked |= {name: check_option(name, value) for name, value in general.items()}
    return configuration.with_options(checked)


def _check_own(declared: Number | None, name: str, given: Any) -> float:
    """The value of an estimator's own number; one that nobody declares is of an estimator that is not known here."""
    value = coerce_number(name, given)
    if declared is None:
        return value
    if not declared.allows(value):
        raise InputError(
            f"{name} is {shown(given)}, but must be {declared.expectation} ({declared.meaning.rstrip('.')}). Give such "
            f"a value, or leave {name} out."
        )
    return int(value) if declared.size else float(value)


def check_option(name: str, given: Any) -> Any:
    """The value in its option's own type; an `InputError` where the option cannot have it."""
    value, rule = coerce(name, given), rules().get(name)
    if rule is not None and not rule.allows(value):
        raise InputError(
            f"{name} is {shown(value)}, but must be {rule.expectation}. Give such a value, or leave {name} out."
        )
    return value


def _contradictions(o: SimpleNamespace) -> Iterator[str]:
    """What is wrong with options beside each other, and how to fix it; the first is reported."""
    yield from _of_the_budget(o)
    yield from _of_the_batch(o)
    yield from _of_the_network(o)
    yield from _of_the_learner(o)
    yield from _of_the_task(o)


def _of_the_budget(o: SimpleNamespace) -> Iterator[str]:
    given = [f"{name} = {getattr(o, name)}" for name in BUDGETS if getattr(o, name) is not None]
    if not given:
        yield (
            "No budget was given, so that it is not known how long a round is. Give one of steps, outer_iterations and "
            "episodes, such as steps = 100000."
        )
    if len(given) > 1:
        yield (
            f"{' and '.join(given)} were given, but a budget has one unit. Give one of steps, outer_iterations and "
            "episodes."
        )
    if o.outer_iterations is not None and o.outer_iterations % o.gradient_steps:
        yield (
            f"outer_iterations = {o.outer_iterations} is not a multiple of gradient_steps = {o.gradient_steps}, which "
            f"are made together. Give outer_iterations = {o.outer_iterations // o.gradient_steps * o.gradient_steps} "
            f"or {-(-o.outer_iterations // o.gradient_steps) * o.gradient_steps}."
        )
    first_step = max(1, -(-o.learning_starts // o.learning_frequency)) * o.learning_frequency
    first = (
        f"is too short a budget for a single outer iteration: with learning_frequency = {o.learning_frequency} and "
        f"learning_starts = {o.learning_starts} the first one is made at step {first_step}."
    )
    if o.steps is not None and o.steps < first_step:
        yield (
            f"steps = {o.steps} {first} Give steps = {first_step} or more, or lower learning_starts and "
            "learning_frequency."
        )
    if o.episodes is not None:
        longest = o.episode_cap if o.time_limit is None else o.time_limit
        if longest is None:
            yield (
                f"episodes = {o.episodes} may never be spent, because neither time_limit nor episode_cap ends an "
                "episode. Give one of them, such as episode_cap = 2000, or a budget in steps."
            )
        elif o.episodes * longest < first_step:
            yield (
                f"episodes = {o.episodes} of at most {longest} steps {first} Give more episodes or longer ones, or "
                "lower learning_starts and learning_frequency."
            )


def _of_the_batch(o: SimpleNamespace) -> Iterator[str]:
    if o.learning_frequency > o.replay_capacity:
        yield (
            f"learning_frequency = {o.learning_frequency} is more than replay_capacity = {o.replay_capacity}, so that "
            f"transitions would be lost before any batch could have them. Raise replay_capacity to "
            f"{o.learning_frequency} or more, or lower learning_frequency."
        )
    span = o.n_step * o.environments
    if o.n_step > 1 and span > o.replay_capacity:
        yield (
            f"n_step = {o.n_step} is more than the replay holds of an episode (replay_capacity = {o.replay_capacity}, "
            f"environments = {o.environments}). Raise replay_capacity to {span} or more, or lower n_step."
        )
    starts = max(1, -(-o.learning_starts // o.learning_frequency)) * o.learning_frequency
    if o.n_step > 1 and span > starts:
        yield (
            f"n_step = {o.n_step} is more steps than have been made when learning begins (learning_starts = "
            f"{o.learning_starts}, learning_frequency = {o.learning_frequency}, environments = {o.environments}). "
            f"Raise learning_starts to {span} or more, or lower n_step."
        )
    if o.learning_frequency % o.environments:
        yield (
            f"learning_frequency = {o.learning_frequency} is not a multiple of environments = {o.environments}, so "
            f"that an outer iteration would be due in the midst of their steps. Give learning_frequency = "
            f"{o.environments} or a multiple of it."
        )
    rows = o.batch_size + (2 * o.inner_batch * o.inner_iterations if o.single_step_matches == "queries" else 0)
    batch = (
        f"the batch of {rows} transitions (batch_size = {o.batch_size}, single_step_matches = "
        f"{o.single_step_matches!r})"
    )
    if o.replay_capacity < rows:
        yield (
            f"replay_capacity = {o.replay_capacity} is less than {batch}. Raise replay_capacity to {rows} or more, or "
            "lower batch_size."
        )
    if o.sampling in ("without-replacement", "newest") and max(o.learning_starts, o.learning_frequency) < rows:
        yield (
            f"learning_starts = {o.learning_starts} leaves too few transitions for {batch}, which sampling = "
            f"{o.sampling!r} needs to be different ones. Raise learning_starts to {rows} or more, lower batch_size, or "
            "give sampling = 'with-replacement'."
        )
    chosen = ESTIMATORS.get(o.estimator)
    if o.sampling == "prioritised" and chosen is not None and chosen.replay_rows is not None:
        yield (
            f"estimator = {o.estimator!r} compares D with rows drawn uniformly from the replay, but those of "
            "sampling = 'prioritised' have weights. Give sampling = 'with-replacement', or another estimator."
        )
    if o.inner_sampling != "with-replacement" and o.inner_batch > o.batch_size:
        yield (
            f"inner_batch = {o.inner_batch} is more than batch_size = {o.batch_size}, of which inner_sampling = "
            f"{o.inner_sampling!r} picks different transitions. Lower inner_batch to {o.batch_size} or less, or give "
            "inner_sampling = 'with-replacement'."
        )


def _of_the_network(o: SimpleNamespace) -> Iterator[str]:
    off = {"dueling": False, "layer_norm": False, "dropout": None, "noisy": False}
    given = {name: value for name, without in off.items() if (value := getattr(o, name)) != without}
    if not given:
        return
    parts, names = ", ".join(f"{name} = {value}" for name, value in given.items()), " and ".join(given)
    if o.network not in NETWORKS:
        yield (
            f"{parts} is for the built-in networks ({', '.join(NETWORKS)}), but network = {o.network!r} is a module of "
            f"your own. Leave {names} out and build them into the module, or leave the network out."
        )
    if not o.hidden and (given.keys() & {"layer_norm", "dropout"}):
        yield (
            f"{parts} is of hidden layers, but hidden = {o.hidden} has none. Give hidden layers, or leave {names} out."
        )
    if o.differentiation == "closed-form":
        yield (
            f"differentiation = 'closed-form' is for plain perceptrons, but {parts}. Give differentiation = 'auto', or "
            f"leave {names} out."
        )


def _of_the_learner(o: SimpleNamespace) -> Iterator[str]:
    chosen = ESTIMATORS.get(o.estimator)
    per_batch = chosen is not None and chosen.per == "batch"
    if not o.anchor_step and not per_batch and (o.estimator == "none" or o.inner_iterations == 0):
        yield (
            f"anchor_step is off and there are no inner iterations (estimator = {o.estimator!r}, inner_iterations = "
            f"{o.inner_iterations}), so that nothing would be learned. Switch anchor_step on, or give an estimator and "
            "inner_iterations = 1 or more."
        )
    if o.weight_decay is not None and o.step != "adam" and not o.adam_process:
        yield (
            f"weight_decay = {o.weight_decay} is of Adam's steps, but there are none (step = {o.step!r}, adam_process "
            "off). Leave weight_decay out, or give step = 'adam'."
        )
    if o.adam_at_copy != "keep":
        given = f"adam_at_copy = {o.adam_at_copy!r} is what a hard target network's copy does to Adam, but"
        if o.target != "hard":
            yield f"{given} target = {o.target!r}. Give target = 'hard', or adam_at_copy = 'keep'."
        if o.step != "adam" and not o.adam_process:
            yield (
                f"{given} there is none (step = {o.step!r}, adam_process off). Give step = 'adam' or switch "
                "adam_process on, or give adam_at_copy = 'keep'."
            )
    if o.single_step_matches != "nothing" and o.estimator != "none":
        yield (
            f"single_step_matches = {o.single_step_matches!r} is instead of inner iterations, but estimator = "
            f"{o.estimator!r} makes them. Give estimator = 'none', or single_step_matches = 'nothing'."
        )
    if o.bootstrap == "double" and o.target not in ("hard", "polyak"):
        yield (
            f"bootstrap = 'double' chooses actions by θ_0 and values them by a target network, but target = "
            f"{o.target!r} has none. Give target = 'hard' or 'polyak', or bootstrap = 'max'."
        )
    if o.bootstrap == "munchausen" and o.target == "current":
        yield (
            "bootstrap = 'munchausen' has a policy of the parameters behind y, which are to stand still, but target = "
            "'current' moves them with every gradient. Give target = 'hard', 'polyak' or 'outer', or bootstrap = 'max'."
        )
    if o.bootstrap == "munchausen" and o.action_masks:
        yield (
            "bootstrap = 'munchausen' has a policy over all actions, also in S, whose mask is not stored. Give "
            "bootstrap = 'max' or 'double', or switch action_masks off."
        )
    if o.reward_estimation and o.n_step > 1:
        yield (
            f"reward_estimation is of single rewards, but n_step = {o.n_step} sums several. Give n_step = 1, or switch "
            "reward_estimation off."
        )
    yield from _of_distributions(o)
    if o.target_update_interval is not None and o.target != "hard":
        yield (
            f"target_update_interval = {o.target_update_interval} is of a hard target network, but target = "
            f"{o.target!r}. Give target = 'hard', or leave target_update_interval out."
        )
    if o.target_networks > 1 and o.target != "hard":
        yield (
            f"target_networks = {o.target_networks} is of a hard target network, whose last copies are averaged, but "
            f"target = {o.target!r}. Give target = 'hard', or leave target_networks out."
        )
    if o.scale_observations and o.normalise_observations:
        yield (
            "scale_observations and normalise_observations are both on, but statistics undo whatever the constants do. "
            "Switch one of them off."
        )
    if o.differentiation == "closed-form" and o.network != "mlp":
        yield (
            f"differentiation = 'closed-form' is for the built-in perceptron, but network = {o.network!r}. Give "
            "differentiation = 'autodiff' or 'auto', or network = 'mlp'."
        )


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _of_distributions(o: SimpleNamespace) -> Iterator[str]:
    ends = {"value_min": o.value_min, "value_max": o.value_max}
    given = [f"{name} = {value}" for name, value in ends.items() if value is not None]
    if o.loss not in ("c51", "hl-gauss"):
        if given:
            yield (
                f"{' and '.join(given)} {_are(given)} of a distribution over atoms, but loss = {o.loss!r} has none. "
                "Give loss = 'c51' or 'hl-gauss', or leave it out."
            )
        return
    missing = [name for name, value in ends.items() if value is None]
    if missing:
        yield (
            f"loss = {o.loss!r} is of a distribution over {o.atoms} atoms, but {' and '.join(missing)} "
            f"{'was' if len(missing) == 1 else 'were'} not given. "
            "Give the least and the largest discounted return that can be, such as value_min = 0 and value_max = 100."
        )
    elif not o.value_min < o.value_max:
        yield f"{' and '.join(given)} leave no room for atoms between. Give a value_max above value_min."
    if o.loss == "c51" and o.bootstrap not in ("max", "double"):
        yield (
            f"bootstrap = {o.bootstrap!r} gives a value of S', but loss = 'c51' needs an action, whose distribution is "
            "the target. Give bootstrap = 'max' or 'double', or loss = 'hl-gauss'."
        )
    if o.loss == "c51" and o.target_networks > 1:
        yield (
            f"target_networks = {o.target_networks} averages Q-values, but with loss = 'c51' the target is a "
            "distribution. Give target_networks = 1, or loss = 'hl-gauss'."
        )
    if o.reward_estimation:
        yield (
            f"reward_estimation has a network like the Q-network, which with loss = {o.loss!r} gives distributions of "
            "returns. Switch it off, or give loss = 'squared' or 'huber'."
        )
    if o.differentiation == "closed-form":
        yield (
            f"differentiation = 'closed-form' is of a single Q-value per action, but loss = {o.loss!r}. Give "
            "differentiation = 'auto'."
        )


def _of_the_task(o: SimpleNamespace) -> Iterator[str]:
    task = COMPILED_TASKS.get(o.task)
    rewards = ("raw",) if task is None else task.rewards
    if o.reward not in rewards:
        yield f"reward = {o.reward!r} is not one that {o.task} has. Give one of: {', '.join(rewards)}."
    if o.environments > 1 and task is not None:
        yield (
            f"environments = {o.environments} is for Gymnasium environments, and the compiled task {o.task} has one "
            "per round. Leave environments out, or give more rounds."
        )
    if o.action_masks and task is not None:
        yield (
            f"action_masks is on, but is for Gymnasium environments whose info has an action_mask, and in the compiled "
            f"task {o.task} every action is allowed. Switch it off."
        )
    if o.action_bins is not None and task is not None:
        yield (
            f"action_bins = {o.action_bins} is for Gymnasium environments with continuous actions, and those of the "
            f"compiled task {o.task} are discrete. Leave action_bins out."
        )
    for owner, options in ((name, each.options) for name, each in COMPILED_TASKS.items()):
        for name, choices in options.items():
            value = getattr(o, name)
            if o.task != owner and value is not None:
                yield (
                    f"{name} = {value!r} is an option of {owner} alone, but task = {o.task!r}. Leave {name} out, or "
                    f"give task = {owner!r}."
                )
            if o.task == owner and value is None:
                yield f"{owner} needs {name}, which is None. Give {name} = {' or '.join(map(repr, choices))}."
