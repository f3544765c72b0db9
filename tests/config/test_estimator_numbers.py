"""The numbers that estimators have of their own: their names, and their values as options."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest

import srgdqn
from srgdqn.cli.parsing import own_options
from srgdqn.cli.sweep import Sweep
from srgdqn.cli.train import Train
from srgdqn.config import option_names
from srgdqn.config.checks import check_definition
from srgdqn.config.configure import configure, named_options
from srgdqn.config.estimator_numbers import CURVES_COLUMNS, RESERVED, Number, every_number
from srgdqn.errors import InputError
from srgdqn.learner.estimators import ESTIMATORS, register_estimator
from srgdqn.results.comparison import departures, differing_options
from srgdqn.runs.tables import SCHEMAS


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    estimators = dict(ESTIMATORS)
    yield
    ESTIMATORS.clear()
    ESTIMATORS.update(estimators)


def test_numbers_are_options_of_their_estimator_with_its_defaults() -> None:
    configuration = configure("CartPole", "dqn-storm", a=1)
    assert configuration.options()["a"] == 1.0
    assert repr(configuration.estimator.own) == "(('a', 1.0), ('reset', 1.0))"
    assert configuration.numbers()["a"] == 1.0
    sized = configure("CartPole", estimator="page", anchor_batches=4.0)
    assert repr(sized.estimator.own) == "(('refresh', 0.0625), ('anchor_batches', 4))"
    assert "anchor_batches" not in sized.numbers()
    assert sized.shape() == configure("CartPole", estimator="page", anchor_batches=4, refresh=0.5).shape()
    assert sized.shape() != configure("CartPole", estimator="page", anchor_batches=5).shape()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (dict(a=1.5), "a is 1.5, but must be from 0 to 1 (Weight of the new gradient"),
        (dict(a="0.5"), "a is '0.5', which is not a number"),
        (dict(a=True), "a is True, which is not a number"),
        (dict(a=math.nan), "a is nan, which is not a finite number"),
        (dict(a=None), "a is None, which is not a number"),
        (dict(a=10**400), "which is not a finite number"),
        (dict(svrg_start=1), "svrg_start is a number of the estimator 'alpha_svrg', but estimator = 'storm'. Give"),
        (dict(resett=1), "unknown option 'resett'. Did you mean 'reset'?"),
        (dict(own=()), "unknown option 'own'"),
        (dict(estimator="strm", a=0.5), "unknown estimator 'strm'. Did you mean 'storm'?"),
        (dict(estimator="page", anchor_batches=2.5), "anchor_batches is 2.5, but must be a whole number from 1 to"),
        (dict(estimator="page", anchor_batches=0), "anchor_batches is 0, but must be a whole number from 1 to 10000"),
    ],
)
def test_values_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        configure("CartPole", "dqn-storm", **options)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (Number("alpha", 0.5, ""), "has a number called 'alpha', which means something else already"),
        (Number("steps", 1, ""), "'steps', which means something else already"),
        (Number("out", 1, ""), "'out', which means something else already"),
        (Number("score", 1, ""), "'score', which means something else already"),
        (Number("lambda", 1, ""), "'lambda', which means something else already"),
        (Number("a b", 1, ""), "'a b', which is no option's name"),
        (Number("_a", 1, ""), "'_a', which is no option's name"),
        (Number("", 1, ""), "'', which is no option's name"),
        (Number("a" * 50, 1, ""), "which is no option's name"),
        (Number("rate", 2, "", 0, 1), "rate is 2, but must be from 0 to 1"),
        (Number("rate", math.nan, ""), "rate is nan, which is not a finite number"),
        (Number("rate", 2.5, "", size=True), "rate is 2.5, but must be"),
        (Number("rate", 2**31, "", size=True), "rate is 2147483648, but must be"),
    ],
)
def test_a_number_that_no_estimator_may_have(number: Number, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        register_estimator("mine", ESTIMATORS["srg"]._replace(numbers=(Number("first", 1, ""), number)))
    assert "mine" not in ESTIMATORS


def test_no_estimator_has_a_number_twice() -> None:
    twice = (Number("rate", 1, ""), Number("rate", 2, ""))
    with pytest.raises(InputError, match="has a number called 'rate' twice"):
        register_estimator("mine", ESTIMATORS["srg"]._replace(numbers=twice))


def test_the_numbers_of_the_built_in_estimators_may_be_called_so() -> None:
    for name, each in ESTIMATORS.items():
        check_definition(name, each)


def test_every_argument_and_column_is_reserved() -> None:
    functions = (srgdqn.train, srgdqn.sweep, srgdqn.search, srgdqn.Agent.__init__)
    names = {name for function in functions for name in inspect.signature(function).parameters}
    names |= {name.rstrip("_") for form in (Train, Sweep) for name in own_options(form)}
    swept = srgdqn.sweep("CartPole", "dqn-sgd", {"eta": [0.0]}, steps=1_008, evaluation_episodes=1, progress=False)
    names |= set(swept.table.columns)
    assert names - option_names().keys() <= RESERVED


def test_a_number_of_several_estimators_is_whole_where_it_is_a_size_of_all() -> None:
    register_estimator("mine", ESTIMATORS["srg"]._replace(numbers=(Number("anchor_batches", 1.5, ""),)))
    assert every_number()["a"] is float
    assert every_number()["anchor_batches"] is float
    del ESTIMATORS["mine"]
    assert every_number()["anchor_batches"] is int


def test_names_stand_for_the_numbers_defaults_and_departures_are_from_these() -> None:
    assert named_options("CartPole", "dqn-storm", "corrected")["a"] == 0.1
    assert departures(configure("CartPole", "dqn-storm")) == {}
    assert departures(configure("CartPole", "dqn-storm", a=0.3)) == {"a": (0.3, 0.1)}
    other = departures(configure("CartPole", estimator="storm_inner", a=0.3))
    assert other == {"estimator": ("storm_inner", "srg"), "a": (0.3, 0.1)}


def test_numbers_are_compared_among_those_that_have_them() -> None:
    srg = configure("CartPole")
    one, other = (configure("CartPole", estimator="storm_inner", a=a) for a in (0.3, 0.5))
    assert differing_options([srg, one]) == differing_options([one, srg]) == ["estimator"]
    assert differing_options([srg, one, other]) == ["estimator", "a"]
    assert differing_options([one, other]) == ["a"]


def test_what_is_logged_cannot_be_called_as_a_column_of_the_curves() -> None:
    assert {*SCHEMAS["curves"], "iterations"} == CURVES_COLUMNS
