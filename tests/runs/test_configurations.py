import tomllib
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from srgdqn.config import Configuration, sections
from srgdqn.config.checks import check_stored
from srgdqn.config.coercion import option_annotations
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.runs.configurations import dumps, loads, options_from_toml

NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12)
# Numbers that every option of their kind may be.
KINDS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(2, 1_000),
    float: st.floats(0.001, 0.999),
    bool: st.booleans(),
    str: NAMES,
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """What an option may be by itself, from its declaration."""
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is tuple:
        return st.lists(st.integers(1, 10_000), max_size=4).map(tuple)
    if NoneType in get_args(hint):
        return st.none() | st.one_of(values(each) for each in get_args(hint) if each is not NoneType)
    return KINDS[hint]


OPTIONS = {name: values(hint) for name, hint in option_annotations().items()}


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    return Configuration(draw(NAMES), draw(NAMES)).with_options(draw(st.fixed_dictionaries(OPTIONS)))


@settings(max_examples=100, deadline=None)
@given(configurations())
def test_what_was_written_is_read(configuration: Configuration) -> None:
    text = dumps(configuration)
    assert loads(text) == configuration
    assert repr(loads(text)) == repr(configuration)  # types as well
    file = options_from_toml(text)
    assert (file.algorithm, file.readings, file.task) == (
        configuration.algorithm,
        configuration.readings,
        configuration.task.task,
    )
    assert {**file.options, "task": file.task} == configuration.options()


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_partial_file_may_name_sections_or_not(data: st.DataObject) -> None:
    options = data.draw(st.fixed_dictionaries({}, optional=OPTIONS))
    lone = {name: value for name, value in options.items() if name not in sections()}
    whole = tomllib.loads(dumps(Configuration().with_options(options)))
    in_sections = {section: {n: v for n, v in whole[section].items() if n in lone} for section in sections()}
    at_top = {name: value for table in in_sections.values() for name, value in table.items()}
    for document in (in_sections, at_top):
        assert options_from_toml(tomli_w.dumps(document)) == (None, None, None, lone)


def test_names_of_sections_and_options_alike() -> None:
    top = options_from_toml('task = "CartPole"\nnetwork = "mine"\nestimator = "none"')
    assert top == (None, None, "CartPole", dict(network="mine", estimator="none"))
    inner = options_from_toml('[task]\ntask = "CartPole"\n[network]\nnetwork = "mine"\n[estimator]\nestimator = "none"')
    assert inner == top


def test_files_from_before_there_was_a_kernel_mean_that_xla_ran() -> None:
    lines = [line for line in dumps(Configuration()).splitlines() if not line.startswith("kernel")]
    assert loads("\n".join(lines)) == Configuration().with_options({"kernel": "xla"})


WHOLE = dumps(configure("MountainCar"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("eta = 0.01", "etta = 0.01", "unknown option in [optimiser] 'etta'. Did you mean 'eta'?"),
        ("eta = 0.01", "gamma = 0.5", "gamma = 0.5 stands in [optimiser], but its table is [gradients]. Move it"),
        ("eta = 0.01", 'eta = "0.01"', "eta is '0.01', which is not a number. Write it without quotes"),
        ("eta = 0.01", "eta = nan", "eta is nan, which is not a finite number"),
        ("seed = 0", "seed = 1.0", "seed is 1.0, which is not a whole number. Write it as 1."),
        ("seed = 0", f"seed = {'9' * 5000}", "this is not TOML"),
        ('loss = "squared"', 'loss = "sqared"', "unknown loss 'sqared'. Did you mean 'squared'?"),
        ("mask_terminal = true", "mask_terminal = 1", "mask_terminal is 1, which is not true or false"),
        ("[optimiser]", "[optimizer]", "unknown key in the configuration 'optimizer'. Did you mean 'optimiser'?"),
        ('algorithm = "srg-dqn"', "algorithm = 3", "algorithm is 3, which is not a name. Write it in quotes"),
        ('algorithm = "srg-dqn"', "", "the configuration has no 'algorithm'"),
        ('readings = "corrected"', 'reading = "corrected"', "'reading'. Did you mean 'readings'?"),
        ('algorithm = "srg-dqn"', 'algorithm = "srg-dqn"\neta = 1', "unknown key in the configuration 'eta'"),
        ('algorithm = "srg-dqn"', "x = " + "[" * 50_000, "this is not TOML"),
        ('algorithm = "srg-dqn"', "#" * 70_000, "characters, and a configuration at most 65536"),
    ],
)
def test_a_wrong_configuration_is_refused_by_its_key(old: str, new: str, said: str) -> None:
    assert old in WHOLE
    with pytest.raises(InputError) as caught:
        loads(WHOLE.replace(old, new, 1))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("etta = 1", "unknown key 'etta'. Did you mean 'eta'?"),
        ("[optimizer]\neta = 1", "unknown table 'optimizer'. Did you mean 'optimiser'?"),
        ("[replay]\neta = 0.5", "eta = 0.5 stands in [replay], but its table is [optimiser]. Move it there."),
        ("eta = 0.5\n[optimiser]\neta = 0.25", "eta is given twice, as 0.5 and as 0.25. Keep one of them."),
        ("readings = true", "readings is True, which is not a name"),
        ("eta 3", "this is not TOML"),
    ],
)
def test_a_wrong_users_file_is_refused_by_its_key(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        options_from_toml(text)
    assert said in str(caught.value)


def test_a_section_is_a_table() -> None:
    start, end = WHOLE.index("[replay]"), WHOLE.index("[normalisation]")
    with pytest.raises(InputError, match=r"replay is 3, which is not a table\. Write its options below \[replay\]"):
        loads("replay = 3\n" + WHOLE[:start] + WHOLE[end:])


STORM = dumps(configure("CartPole", "dqn-storm", a=0.25))
OWN = "[estimator.own]\na = 0.25\n"


@pytest.mark.parametrize("text", [STORM, STORM.replace('estimator = "storm"', 'estimator = "not here"')])
def test_an_estimators_own_numbers_are_read_as_they_were_written(text: str) -> None:
    configuration = loads(text)
    assert configuration.options()["a"] == 0.25
    assert dumps(check_stored(configuration)) == text
    assert options_from_toml(text).options["a"] == 0.25


def test_sizes_are_whole_also_where_their_estimator_is_not_known() -> None:
    text = dumps(configure("CartPole", estimator="page", anchor_batches=4))
    assert "anchor_batches = 4\n" in text
    for each in (text, text.replace('estimator = "page"', 'estimator = "not here"')):
        assert repr(loads(each).options()["anchor_batches"]) == "4"
        assert dumps(check_stored(loads(each))) == each


def test_a_file_from_before_an_estimator_had_a_number_has_its_default() -> None:
    assert loads(STORM.replace("reset = 1.0\n", "")) == loads(STORM)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ('a = "0.25"', "a is '0.25', which is not a number"),
        ("a = nan", "a is nan, which is not a finite number"),
        ("a = 1e300", "a is 1e+300, which is not a finite number"),
        (f"a = {'9' * 100}", "which is not a finite number"),
        (f"a = {'9' * 5000}", "this is not TOML"),
        ("a = true", "a is True, which is not a number"),
        ("a = [1]", "a is [1], which is not a number"),
        ("a = {b = 1}", "a is {'b': 1}, which is not a number"),
        ('"a b" = 1', "[estimator.own] has 'a b', which is no name of a number"),
        ('"" = 1', "[estimator.own] has '', which is no name of a number"),
        ("a-b = 1", "[estimator.own] has 'a-b', which is no name of a number"),
        ('"a\\u001b" = 1', "which is no name of a number"),
        (f"{'a' * 101} = 1", "which is no name of a number"),
        ("alpha = 1", "alpha stands in [estimator.own], but is no number of an estimator"),
        ("steps = 1", "steps stands in [estimator.own], but is no number of an estimator"),
        ("algorithm = 1", "algorithm stands in [estimator.own], but is no number of an estimator"),
        ("\n".join(f"a{each} = 1" for each in range(101)), "which is not a table of at most 100 numbers"),
        ("\n".join(f"a{each} = 1" for each in range(100_000)), "and a configuration at most 65536"),
    ],
)
def test_what_no_estimators_own_number_can_be(own: str, said: str) -> None:
    for name in ("storm", "not here"):
        text = STORM.replace('estimator = "storm"', f'estimator = "{name}"').replace(OWN, f"[estimator.own]\n{own}\n")
        assert own in text
        with pytest.raises(InputError) as caught:
            check_stored(loads(text))
        assert said in str(caught.value)
        with pytest.raises(InputError) as caught:
            options_from_toml(text)
        assert said in str(caught.value)


def test_own_numbers_of_a_built_in_estimator_are_those_it_has() -> None:
    with pytest.raises(InputError, match=r"unknown number of the estimator 'storm' 'aa'\. Did you mean 'a'"):
        loads(STORM.replace(OWN, "[estimator.own]\naa = 0.25\n"))
    with pytest.raises(InputError, match=r"a is 2\.0, but must be from 0 to 1"):
        check_stored(loads(STORM.replace(OWN, "[estimator.own]\na = 2.0\n")))
    with pytest.raises(InputError, match="own is 3, which is not a table of at most 100 numbers"):
        loads(STORM.replace(OWN, "").replace("reset = 1.0\n", "").replace('"storm"', '"storm"\nown = 3'))


def test_a_users_file_may_have_own_numbers_among_the_options() -> None:
    for text in ("a = 0.5", "[estimator]\na = 0.5", "[estimator.own]\na = 0.5"):
        assert options_from_toml(text).options == {"a": 0.5}
    assert repr(options_from_toml("anchor_batches = 4").options) == "{'anchor_batches': 4}"
    with pytest.raises(InputError, match=r"a is given twice, as 0\.5 and as 0\.25"):
        options_from_toml("a = 0.25\n[estimator.own]\na = 0.5")
