"""Optuna's study of a search: proposes trials in batches, and stores them.

The sampler of a batch is seeded by the search's seed and the number of trials before it, and a resumed search finishes
the trials it was asked for: it gives the same trials as one that was never interrupted. A trial whose environment
misbehaved is repeated, but only by the next process.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from srgdqn.errors import InputError, shown
from srgdqn.sweeps.folder import Failure
from srgdqn.sweeps.grid import Values, written
from srgdqn.sweeps.space import MOST_AT_ONCE, Choice, Range, SearchPlan

_NAME = "search"
# Attributes of trials: the batch (the number of its first trial, and its size), what its environment did to make it
# fail, and the trial that it repeats.
_BATCH, _FAILURE, _REPEATS = "batch", "failure", "repeats"


class Study:
    """The trials of a search.

    Each change is one transaction of the storage, and what is asked for next follows from the trials before it alone:
    a process that ends between any two of them can be resumed by another, to the same trials.
    """

    def __init__(self, optuna: Any, study: Any, plan: SearchPlan) -> None:
        self._optuna, self._study, self._plan = optuna, study, plan
        self._state = optuna.trial.TrialState
        # Sorted: options draw their values one after the other, and may be given in any order.
        self._distributions = {name: _distribution(optuna, part) for name, part in sorted(plan.space.items())}

    @property
    def ended(self) -> int:
        """Trials that have ended, with a score or without, and are not repeated."""
        trials = self._trials()
        repeated = _repeated(trials)
        return len([trial for trial in trials if trial.state.is_finished() and trial.number not in repeated])

    def values(self) -> list[Values]:
        """The values of every trial that has a score, in order."""
        return [self._values(trial) for trial in self._trials(self._state.COMPLETE)]

    def failures(self) -> list[Failure]:
        """Every trial whose environment misbehaved and that is not repeated."""
        return [Failure(self._values(trial), trial.user_attrs[_FAILURE]) for trial in self._failed()]

    def resume(self) -> None:
        """Completes the batch that an earlier process was asking for, and repeats, once, its trials whose environment
        misbehaved.
        """
        trials = self._trials()
        batches = [self._batch_of(trial) for trial in trials if _BATCH in trial.user_attrs]
        if batches:
            self._ask_for(*batches[-1], there=batches.count(batches[-1]))
        for trial in self._failed():
            self._add(trial.params, {_REPEATS: trial.number})

    def ask(self) -> dict[int, Values]:
        """The values of the next trials by number: first those that were asked for and have not ended."""
        if not self._trials(self._state.RUNNING):
            self._ask_for(len(self._trials()), min(self._plan.at_once, self._plan.planned - self.ended))
        return {trial.number: self._values(trial) for trial in self._trials(self._state.RUNNING)}

    def end(self, number: int, score: float | None) -> None:
        """Ends a trial; one without a score counts as failed."""
        if score is None:
            self._study.tell(number, state=self._state.FAIL)
        else:
            self._study.tell(number, score)

    def fail(self, number: int, reason: str) -> None:
        """Ends a trial whose environment misbehaved; the next process repeats it."""
        # A Trial, as the stored FrozenTrial takes no attributes.
        trial = self._optuna.Trial(self._study, self._trials()[number]._trial_id)
        trial.set_user_attr(_FAILURE, reason)
        self.end(number, None)

    def _ask_for(self, first: int, count: int, there: int = 0) -> None:
        """Adds the trials of a batch that are not there yet, as Optuna proposes them from all trials before its first.

        Optuna is asked in a separate study in memory, so that its proposals do not depend on how often it is asked.
        """
        if there == count:
            return
        sampler = _sampler(self._optuna, (self._plan.sampler_seed, first))
        proposing = self._optuna.create_study(direction="maximize", sampler=sampler)
        proposing.add_trials(self._trials()[:first])
        for trial in [proposing.ask(self._distributions) for _ in range(count)][there:]:
            self._add(trial.params, {_BATCH: [first, count]})

    def _add(self, values: dict[str, Any], attributes: dict[str, Any]) -> None:
        trial = self._optuna.create_trial(
            state=self._state.RUNNING, params=values, distributions=self._distributions, user_attrs=attributes
        )
        self._study.add_trial(trial)

    def _trials(self, *states: Any) -> list[Any]:
        found: list[Any] = self._study.get_trials(deepcopy=False, states=states or None)
        return found

    def _failed(self) -> list[Any]:
        repeated = _repeated(self._trials())
        failed = self._trials(self._state.FAIL)
        return [trial for trial in failed if _FAILURE in trial.user_attrs and trial.number not in repeated]

    def _batch_of(self, trial: Any) -> tuple[int, int]:
        match trial.user_attrs[_BATCH]:
            case [int(first), int(count)] if 0 <= first <= trial.number and 1 <= count <= MOST_AT_ONCE:
                return first, count
            case other:
                raise InputError(
                    f"trial {trial.number} has the batch {shown(other)}, which no search writes. Restore "
                    "Optuna's storage from a copy, or search in another folder."
                )

    def _values(self, trial: Any) -> Values:
        return {name: _value(part, trial.params[name]) for name, part in self._plan.space.items()}


def _repeated(trials: list[Any]) -> set[int]:
    """The numbers of the trials that others repeat."""
    return {trial.user_attrs[_REPEATS] for trial in trials if _REPEATS in trial.user_attrs}


@contextlib.contextmanager
def open_study(path: Path | None, plan: SearchPlan) -> Iterator[Study]:
    """The study in a file, created if there is none, or in memory."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # the search shows its own progress
    storage = None if path is None else _storage(optuna, path)
    try:
        study = optuna.create_study(storage=storage, study_name=_NAME, direction="maximize", load_if_exists=True)
        yield Study(optuna, study, plan)
    finally:
        if storage is not None:
            storage.remove_session()
            storage.engine.dispose()
        optuna.logging.set_verbosity(verbosity)


def _storage(optuna: Any, path: Path) -> Any:
    from sqlalchemy.engine import URL

    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise InputError(f"{path} is not an ordinary file. Restore it from a copy, or search in another folder.")
    try:
        return optuna.storages.RDBStorage(URL.create("sqlite", database=str(path)).render_as_string())
    except Exception as error:  # sqlalchemy's or Optuna's, depending on what is wrong with the file
        raise InputError(
            f"{path} cannot be used as Optuna's storage ({error}). Restore it from a copy, or search in another folder."
        ) from error


def _sampler(optuna: Any, seed: tuple[int, int]) -> Any:
    word = int(np.random.SeedSequence(seed).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # for constant_liar, before Optuna 5
        return optuna.samplers.TPESampler(seed=word, constant_liar=True)


def _distribution(optuna: Any, part: Range | Choice) -> Any:
    kinds = optuna.distributions
    if isinstance(part, Choice):
        return kinds.CategoricalDistribution([written(value) for value in part.values])
    kind = kinds.IntDistribution if part.whole else kinds.FloatDistribution
    return kind(part.low, part.high, log=part.log)


def _value(part: Range | Choice, given: Any) -> Any:
    if isinstance(part, Range):
        return given
    return next(value for value in part.values if written(value) == given)
