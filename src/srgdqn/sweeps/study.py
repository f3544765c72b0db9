"""An Optuna study that batches of trials are asked of and told to, and that outlives the process that does so."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from srgdqn.errors import InputError
from srgdqn.sweeps.grid import Values
from srgdqn.sweeps.notation import written
from srgdqn.sweeps.ranges import Choice, Range
from srgdqn.sweeps.search_plan import SearchPlan

_NAME = "search"
# Attributes of trials: that one was under way when its process ended, why its environment made it fail, and which one a
# trial repeats.
_LOST, _FAILURE, _REPEATS = "lost", "failure", "repeats"


class Study:
    """The trials of a search."""

    def __init__(self, optuna: Any, study: Any, plan: SearchPlan) -> None:
        self._optuna, self._study, self._plan = optuna, study, plan
        self._state = optuna.trial.TrialState
        self._distributions = {name: _distribution(optuna, part) for name, part in plan.space.items()}

    @property
    def told(self) -> int:
        """Trials that have ended, be it with a score or without, and are not made again."""
        trials = self._study.get_trials(deepcopy=False)
        repeated = _repeated(trials)
        return len([trial for trial in trials if self._has_ended(trial) and trial.number not in repeated])

    def values(self) -> list[Values]:
        """The values of every trial that has a score, in order."""
        complete = self._study.get_trials(deepcopy=False, states=(self._state.COMPLETE,))
        return [self._values(trial) for trial in complete]

    def failures(self) -> list[tuple[Values, str]]:
        """The values of every trial whose environment misbehaved and that is not made again, and what it did."""
        trials = self._study.get_trials(deepcopy=False)
        repeated = _repeated(trials)
        failed = (trial for trial in trials if _FAILURE in trial.user_attrs and trial.number not in repeated)
        return [(self._values(trial), trial.user_attrs[_FAILURE]) for trial in failed]

    def ask(self) -> dict[int, Values]:
        """The values of the next trials, by their numbers."""
        # With those that are made again: no two batches may draw the same numbers.
        ended = len([trial for trial in self._study.get_trials(deepcopy=False) if self._has_ended(trial)])
        self._study.sampler = _sampler(self._optuna, (self._plan.sampler_seed, ended))
        count = min(self._plan.at_once, self._plan.trials - self.told)
        asked = [self._study.ask(self._distributions) for _ in range(count)]
        return {trial.number: self._values(trial) for trial in asked}

    def tell(self, number: int, score: float | None) -> None:
        """Ends a trial; one without a score counts as failed."""
        if score is None:
            self._study.tell(number, state=self._state.FAIL)
        else:
            self._study.tell(number, score)

    def fail(self, number: int, reason: str) -> None:
        """Ends a trial whose environment misbehaved; another process makes it again."""
        self._end(self._study.get_trials(deepcopy=False)[number], _FAILURE, reason)

    def repeat_unfinished(self) -> None:
        """Ends what an earlier process left running, and sees to it that each of these, and each whose environment
        misbehaved, is asked for again, once.
        """
        for trial in self._study.get_trials(deepcopy=False, states=(self._state.RUNNING,)):
            self._end(trial, _LOST, True)
        trials = self._study.get_trials(deepcopy=False)
        repeated = _repeated(trials)
        for trial in trials:
            if {_LOST, _FAILURE} & trial.user_attrs.keys() and trial.number not in repeated:
                self._study.enqueue_trial(trial.params, user_attrs={_REPEATS: trial.number})

    def _end(self, trial: Any, attribute: str, value: Any) -> None:
        # A trial of the study's own, as the stored one can be told nothing.
        self._optuna.Trial(self._study, trial._trial_id).set_user_attr(attribute, value)
        self._study.tell(trial.number, state=self._state.FAIL)

    def _has_ended(self, trial: Any) -> bool:
        return trial.state.is_finished() and not trial.user_attrs.get(_LOST)

    def _values(self, trial: Any) -> Values:
        return {name: _value(part, trial.params[name]) for name, part in self._plan.space.items()}


def _repeated(trials: list[Any]) -> set[int]:
    """The numbers of the trials that others repeat."""
    return {trial.user_attrs[_REPEATS] for trial in trials if _REPEATS in trial.user_attrs}


@contextlib.contextmanager
def open_study(path: Path | None, plan: SearchPlan) -> Iterator[Study]:
    """The study in a file, which is made if there is none, or one in memory."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # the search has a bar and a table of its own
    storage = None if path is None else _storage(optuna, path)
    try:
        study = optuna.create_study(
            storage=storage,
            study_name=_NAME,
            direction="maximize",
            load_if_exists=True,
            sampler=_sampler(optuna, (plan.sampler_seed, 0)),
        )
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
    except Exception as error:  # of sqlalchemy or of Optuna, by what is wrong with the file
        raise InputError(
            f"{path} cannot be used as Optuna's storage ({error}). Restore it from a copy, or search in another folder."
        ) from error


def _sampler(optuna: Any, seed: tuple[int, int]) -> Any:
    word = int(np.random.SeedSequence(seed).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of constant_liar, before Optuna 5
        return optuna.samplers.TPESampler(seed=word, constant_liar=True)


def _distribution(optuna: Any, part: Range | Choice) -> Any:
    kinds = optuna.distributions
    if isinstance(part, Choice):
        return kinds.CategoricalDistribution([written(value) for value in part.values])
    kind = kinds.IntDistribution if part.whole else kinds.FloatDistribution
    return kind(part.low, part.high, log=part.log)


def _value(part: Range | Choice, told: Any) -> Any:
    if isinstance(part, Range):
        return told
    return next(value for value in part.values if written(value) == told)
