import hashlib
import json

from srgdqn.config.configure import configure
from srgdqn.runs.configurations import dumps
from srgdqn.runs.inputs import hashed, inputs_of

MINE = {"name": "mine.Mine", "source": "abc", "values": "def"}


def test_the_configuration_is_told_by_the_digest_of_its_text() -> None:
    configuration = configure("CartPole", eta=0.25)
    inputs = inputs_of(configuration)
    assert inputs["configuration"] == hashlib.sha256(dumps(configuration).encode()).hexdigest()[:16]
    assert inputs["user_code"] == {}
    assert json.loads(json.dumps(inputs)) == inputs


def test_every_option_and_all_user_code_counts() -> None:
    usual = inputs_of(configure("CartPole"))
    others = [
        inputs_of(configure("CartPole", eta=0.25)),
        inputs_of(configure("CartPole", seed=1)),
        inputs_of(configure("CartPole"), {"network": MINE}),
        inputs_of(configure("CartPole"), {"network": {**MINE, "source": "another"}}),
        inputs_of(configure("CartPole"), {"environment": MINE}),
    ]
    digests = [inputs["digest"] for inputs in [usual, *others]]
    assert len(set(digests)) == len(digests)
    assert inputs_of(configure("CartPole"), {}) == usual


def test_hashes_tell_inputs_apart() -> None:
    assert hashed({"a": 1})["digest"] != hashed({"a": 2})["digest"]
