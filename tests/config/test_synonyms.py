import pytest

from srgdqn.cli import main
from srgdqn.config import option_names
from srgdqn.config.configure import configure
from srgdqn.config.synonyms import SYNONYMS
from srgdqn.errors import InputError


def test_synonyms_lead_to_options_and_are_none_themselves() -> None:
    assert {ours for options in SYNONYMS.values() for ours in options} <= option_names().keys()
    assert not SYNONYMS.keys() & option_names().keys()


@pytest.mark.parametrize("name", SYNONYMS)
def test_what_others_call_an_option_is_told_in_our_words(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=f"{name}.*called {SYNONYMS[name][0]}"):
        configure("CartPole", **{name: 1})
    flag = f"--{name.replace('_', '-')}"
    assert main(["train", "CartPole", flag, "1"]) == 2
    error = capsys.readouterr().err
    assert all(f"--{ours.replace('_', '-')}" in error for ours in SYNONYMS[name])
