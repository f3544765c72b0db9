"""Files from strangers: a small campaign, and faults that the fuzzer has to find; `make fuzz` runs a large one."""

from collections import Counter
from pathlib import Path

import pytest

from fuzz import campaign as campaigns
from fuzz.campaign import campaign, replay
from fuzz.corpus import make_corpus
from fuzz.inputs import make_input
from fuzz.reading import PLANTED
from fuzz.run import shares


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("fuzz") / "corpus")


def test_nothing_happens_but_reading(corpus: Path, tmp_path: Path) -> None:
    tallies = campaign(corpus, shares(110), seed=2, failures=tmp_path)
    assert [failure for tally in tallies.values() for failure in tally.failures] == []
    # Were all refused at the door, or none, then it would be the fuzzer that is wrong.
    outcomes = sum((tally.outcomes for tally in tallies.values()), Counter[str]())
    assert outcomes.total() >= 110
    assert outcomes["read"] > 20
    assert outcomes["refused"] > 40


FOUND = {
    "runs-code": "did what reading must not do: compile",
    "imports": "did what reading must not do: import",
    "starts-a-program": "subprocess.Popen",
    "allocates": "took 7",
    "asks-for-too-much": "asked for more memory than there is",
    "dies": "ended its process (11)",
    "writes-outside": "something was made or changed",
    "writes-inside": "to write",
    "connects": "socket",
    "raises": "raised KeyError",
    "reads-another-content": "read another content than was saved",
    "hangs": "took longer than 2 seconds",
}


def test_planted_faults_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FOUND.keys() == set(PLANTED)
    *quick, hanging = [(f"planted-{fault}", 1) for fault in FOUND]
    tallies = campaign(tmp_path, [("planted-nothing", 1), *quick], seed=0, failures=tmp_path)
    assert tallies.pop("planted-nothing").failures == []
    monkeypatch.setattr(campaigns, "SECONDS", 2.0)
    tallies |= campaign(tmp_path, [hanging], seed=0, failures=tmp_path)
    for fault, tally in tallies.items():
        [failure] = tally.failures
        assert FOUND[fault.removeprefix("planted-")] in failure
    assert "raised KeyError" in replay(tmp_path, tmp_path / "planted-raises-0-0.tar")["problem"]


def test_an_input_is_what_its_number_says(corpus: Path, tmp_path: Path) -> None:
    def contents(folder: str, number: int) -> tuple:
        made = make_input(corpus, "run", 3, number, tmp_path / folder)
        files = sorted(path for path in (tmp_path / folder).rglob("*") if path.is_file() and not path.is_symlink())
        return made, [(path.name, path.stat().st_size < 2**30 and path.read_bytes()) for path in files]

    assert contents("a", 5) == contents("b", 5)
    assert contents("c", 6) != contents("d", 7)
