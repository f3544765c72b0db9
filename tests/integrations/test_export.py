"""Exported policies against double precision, against the policy in jax, and in a world without us."""

import dataclasses
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srgdqn
from host_environments import SMALL
from random_policies import ACTIVATIONS, clear, convolutional, exact, perceptron
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.integrations.export import write_policy
from srgdqn.integrations.export_formats import OPSET, onnx_bytes
from srgdqn.integrations.numpy_policy import PlainPolicy
from srgdqn.integrations.policy import configuration_digest, make_policy, policy_of
from srgdqn.results.result import Result
from srgdqn.runs.run import Run
from synthetic_runs import synthetic
from tiny import TINY

ROWS = 2_000


def run_onnx(policy: PlainPolicy, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    session = onnxruntime.InferenceSession(onnx_bytes(policy), providers=["CPUExecutionProvider"])
    values, actions = session.run(["q_values", "action"], {"observation": observations})
    assert values.dtype == np.float32
    assert actions.dtype == np.int64
    return values, actions


def agree(policy: PlainPolicy, observations: np.ndarray, *, tolerance: float = 1e-4, least_clear: float = 0.95) -> None:
    """Both exports have the exact Q-values but for rounding, and every action that rounding leaves no doubt about."""
    wanted = exact(policy, observations)
    sure = clear(wanted, 2 * tolerance)
    assert sure.mean() >= least_clear
    for values, actions in (run_onnx(policy, observations), (policy.q_values(observations), policy(observations))):
        np.testing.assert_allclose(values, wanted, rtol=tolerance, atol=tolerance)
        assert actions[sure].tolist() == wanted.argmax(1)[sure].tolist()
        # Among doubtful ones too, the action is the best by the values that were computed.
        assert actions.tolist() == values.argmax(1).tolist()


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4).map(tuple),
    actions=st.integers(2, 9),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    normalised=st.booleans(),
    seed=st.integers(0, 100),
)
def test_perceptrons_of_any_shape(
    sizes: tuple[int, ...], actions: int, activation: str, normalised: bool, seed: int
) -> None:
    policy = perceptron((*sizes, actions), activation, seed=seed, normalised=normalised)
    observations = np.random.default_rng(seed).normal(0, 2, (ROWS, sizes[0])).astype(np.float32)
    agree(policy, observations, least_clear=0.5)  # a single unit may leave most values at 0


@given(size=st.integers(1, 12), normalised=st.booleans(), seed=st.integers(0, 100))
def test_numbers_are_made_one_hot(size: int, normalised: bool, seed: int) -> None:
    policy = perceptron((size, 5, 3), seed=seed, kind="one-hot", normalised=normalised)
    agree(policy, np.arange(size), least_clear=0.5)
    assert [policy(state) for state in range(size)] == policy(np.arange(size)).tolist()
    assert type(policy(0)) is int
    for wrong in (-1, size, [0, size]):
        with pytest.raises(ValueError, match=f"expects 0 to {size - 1}"):
            policy(wrong)


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(30, 40), st.integers(30, 40)),
    windows=st.tuples(st.integers(4, 8), st.integers(1, 3), st.integers(1, 2)),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    normalised=st.booleans(),
    seed=st.integers(0, 100),
)
def test_small_images(
    shape: tuple[int, int, int], windows: tuple[int, int, int], activation: str, normalised: bool, seed: int
) -> None:
    policy = convolutional(
        shape,
        channels=(3, 4, 5),
        windows=windows,
        hidden=7,
        activation=activation,
        seed=seed,
        normalised=normalised,
    )
    images = np.random.default_rng(seed).integers(0, 256, (40, *shape), np.uint8)
    agree(policy, images, least_clear=0.8)


@pytest.mark.parametrize("shape", [(40, 38, 3), (2, 40, 38, 3), (2, 4560), (1, 1, 3, 40, 38)])
def test_an_image_of_another_shape_is_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Each has as many numbers as an image, or rows of them, but in another order."""
    policy = convolutional((3, 40, 38), channels=(2, 2, 2), windows=(8, 3, 2), hidden=4)
    write_policy(policy, tmp_path / "policy.py")
    for plain in (policy, runpy.run_path(str(tmp_path / "policy.py"))["policy"]):
        with pytest.raises(ValueError, match=r"shape \(3, 40, 38\).*or \(rows, 3, 40, 38\)") as caught:
            plain(np.zeros(shape, np.uint8))
        assert f"the observation has shape {shape};" in str(caught.value)
    with pytest.raises(Exception, match=r"(?i)invalid (rank|dimensions)"):
        run_onnx(policy, np.zeros(shape, np.uint8))


@pytest.mark.parametrize("shape", [(), (2,), (3, 2), (0,)])
def test_an_observation_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"expects \(3,\), or \(rows, 3\)") as caught:
        perceptron((3, 4, 2))(np.zeros(shape))
    assert f"shape {shape}" in str(caught.value)


def test_the_first_of_equals_is_chosen_and_any_number_of_rows_is_taken() -> None:
    policy = perceptron((3, 5, 4))
    policy.arrays |= {"layers.1.weight": np.zeros((5, 4), "f4"), "layers.1.bias": np.array([1, 2, 2, 0], "f4")}
    for count in (0, 1, 6):
        rows = np.ones((count, 3), np.float32)
        assert run_onnx(policy, rows)[1].tolist() == policy(rows).tolist() == [1] * count
    assert type(policy([1.0, 2.0, 3.0])) is int


def test_double_precision_stays_in_numpy_and_is_rounded_in_onnx() -> None:
    policy = perceptron((6, 20, 4), "softplus", dtype=np.float64)
    rows = np.random.default_rng(3).normal(size=(100, 6))
    wanted = exact(policy, rows)
    assert policy.q_values(rows) == pytest.approx(wanted, abs=1e-13)
    assert run_onnx(policy, rows.astype(np.float32))[0] == pytest.approx(wanted, abs=1e-5)


# Of trained runs


@pytest.fixture(scope="module")
def result() -> Result:
    return srgdqn.train("CartPole", **TINY, normalise_observations=True, rounds=3, seed=2)


def test_the_exports_act_as_the_run_does(result: Result) -> None:
    observations = np.random.default_rng(0).normal(0, 1, (5_000, 4)).astype(np.float32)
    taken = []
    for number in range(3):
        policy = policy_of(result, number)
        sure = clear(exact(policy, observations), 1e-5)
        assert sure.mean() > 0.99
        wanted = result.policy(number)(observations)
        assert run_onnx(policy, observations)[1][sure].tolist() == wanted[sure].tolist()
        assert policy(observations)[sure].tolist() == wanted[sure].tolist()
        taken.append(tuple(wanted))
    assert len(set(taken)) == 3


def test_a_run_that_observes_numbers_is_exported_with_numbers(tmp_path: Path) -> None:
    result = srgdqn.train("FrozenLake-v1", "dqn-adam", **{**SMALL, "steps": 400, "alpha": 0.05}, progress=False)
    policy = policy_of(srgdqn.load(result.save(tmp_path / "run")), 0)
    assert policy.kind == "one-hot"
    wanted = [result.policy(0)(state) for state in range(16)]
    assert run_onnx(policy, np.arange(16))[1].tolist() == policy(np.arange(16)).tolist() == wanted
    assert len(set(wanted)) > 1  # a policy that looks at what it observes


def test_a_models_interface_and_where_it_comes_from(result: Result, tmp_path: Path) -> None:
    path = srgdqn.export(result, tmp_path / "policy.onnx", round=1)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [entry.version for entry in model.opset_import] == [OPSET]
    assert model.ir_version <= 8
    assert (model.producer_name, model.producer_version) == ("srgdqn", srgdqn.__version__)
    assert {entry.key: entry.value for entry in model.metadata_props} == {
        "algorithm": "srg-dqn",
        "task": "CartPole",
        "round": "1",
        "configuration": configuration_digest(result.configuration),
        "trained_with": f"srgdqn {srgdqn.__version__}",
    }
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = [(put.name, put.type, put.shape) for put in (*session.get_inputs(), *session.get_outputs())]
    assert found == [
        ("observation", "tensor(float)", ["batch", 4]),
        ("q_values", "tensor(float)", ["batch", 2]),
        ("action", "tensor(int64)", ["batch"]),
    ]


ALONE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ("numpy", "policy") and name.partition(".")[0] not in sys.stdlib_module_names:
            raise ImportError(name + " is not here")

sys.meta_path.insert(0, Blocked())
import numpy as np
from policy import ABOUT, policy

observations = np.load("observations.npy")
np.savez("out.npz", actions=policy(observations), values=policy.q_values(observations), one=policy(observations[5]))
print(ABOUT["task"], sorted({"jax", "srgdqn", "equinox"} & set(sys.modules)))
"""


def test_a_python_file_needs_numpy_alone(tmp_path: Path) -> None:
    policy = perceptron((4, 8, 3), "softplus", normalised=True)
    policy.about = {"task": 'A "quoted" \\task"""', "algorithm": "mine"}
    observations = np.random.default_rng(0).normal(size=(50, 4))
    write_policy(policy, tmp_path / "policy.py")
    np.save(tmp_path / "observations.npy", observations)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == 'A "quoted" \\task""" []\n'
    with np.load(tmp_path / "out.npz", allow_pickle=False) as out:
        assert out["values"] == pytest.approx(exact(policy, observations), abs=1e-4)
        assert out["actions"].tolist() == policy(observations).tolist()
        assert out["one"] == out["actions"][5]


@pytest.mark.parametrize("suffix", [".onnx", ".py"])
def test_the_same_policy_gives_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    first, second = (write_policy(perceptron((3, 4, 2)), tmp_path / f"{name}{suffix}") for name in "ab")
    assert first.read_bytes().replace(b"from a import", b"from b import") == second.read_bytes()
    third = write_policy(perceptron((3, 4, 2), seed=1), tmp_path / f"c{suffix}")
    assert first.read_bytes() != third.read_bytes()


def test_a_convolutional_run_is_known_by_the_names_of_its_arrays() -> None:
    policy = convolutional((4, 40, 40), channels=(3, 4, 5), hidden=7, activation="tanh")
    configuration = configure("CartPole", "dqn-adam", hidden=(7,), activation="tanh").with_options({"network": "cnn"})
    parameters = {f"network.{name}": np.stack([array * 0, array]) for name, array in policy.arrays.items()}
    about = {"observation_size": 6_400, "observation_shape": [4, 40, 40], "actions": 6}
    run = Result(Run(configuration, synthetic(rounds=2, steps=2_000).run.tables, parameters, about))
    made = policy_of(run, 1)
    images = np.random.default_rng(1).integers(0, 256, (20, 4, 40, 40), np.uint8)
    assert run_onnx(made, images)[0] == pytest.approx(exact(policy, images), abs=1e-4)
    assert not exact(policy_of(run, 0), images).any()
    bare = dataclasses.replace(run.run, provenance={"observation_size": 6_400, "actions": 6})
    with pytest.raises(InputError, match="does not record its observation_shape"):
        policy_of(Result(bare), 1)


# What cannot be exported


def changed(**arrays: Any) -> dict[str, np.ndarray]:
    """The parameters of a perceptron from 4 numbers to 2 actions, of which some are others; None for none."""
    usual = {f"network.{name}": array for name, array in perceptron((4, 20, 2)).arrays.items()}
    given = {name.replace("__", "."): array for name, array in arrays.items()}
    return {name: array for name, array in {**usual, **given}.items() if array is not None}


@pytest.mark.parametrize(
    ("parameters", "observed", "why"),
    [
        (changed(network__layers__1__bias=None), ("vector", (4,)), "holds no network.layers.1.bias"),
        (changed(network__layers__0__weight=np.ones((3, 20))), ("vector", (4,)), "(3, 20) and biases of shape (20,)"),
        (changed(network__layers__1__weight=np.ones(20)), ("vector", (4,)), "layers.1 of the policy has weights"),
        (changed(network__layers__0__bias=np.full(20, np.nan)), ("vector", (4,)), "layers.0.bias of the policy has"),
        (changed(normaliser__mean=np.ones(3), normaliser__variance=np.ones(4)), ("vector", (4,)), "3 means and 4"),
        (changed(normaliser__mean=np.ones(4), normaliser__variance=-np.ones(4)), ("vector", (4,)), "deviation of the"),
        (changed(), ("image", (4,)), "kind 'image' and of shape (4,)"),
        (changed(), ("vector", (2, 2)), "kind 'vector' and of shape (2, 2)"),
        (changed(), ("vector", (5,)), "do not take an input of shape (5,)"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in sqrt")
def test_parameters_that_do_not_fit_are_refused(
    parameters: dict[str, np.ndarray], observed: tuple[str, tuple[int, ...]], why: str
) -> None:
    configuration = configure("CartPole", "srg-dqn", hidden=(20,))
    with pytest.raises(InputError) as caught:
        make_policy(parameters, configuration, *observed, {})
    assert why in str(caught.value)


def test_a_damaged_run_is_refused(result: Result) -> None:
    run = dataclasses.replace(result.run, provenance={**result.run.provenance, "actions": 3})
    with pytest.raises(InputError, match="2 outputs, but its task has 3 actions"):
        policy_of(Result(run), 0)
    with pytest.raises(InputError, match="does not record its observation_size"):
        policy_of(Result(dataclasses.replace(result.run, provenance={})), 0)


def test_a_module_of_the_users_own_is_named(result: Result, tmp_path: Path) -> None:
    configuration = result.configuration.with_options({"network": "mine.Dueling"})
    with pytest.raises(InputError, match=r"the module 'mine\.Dueling'"):
        srgdqn.export(Result(dataclasses.replace(result.run, configuration=configuration)), tmp_path / "a.py", round=0)
    assert not list(tmp_path.iterdir())


def test_files_are_replaced_only_if_allowed(result: Result, tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("old")
    with pytest.raises(InputError, match="exists already"):
        srgdqn.export(result, tmp_path / "old.py")
    assert (tmp_path / "old.py").read_text() == "old"
    srgdqn.export(result, tmp_path / "old.py", overwrite=True)
    assert "class PlainPolicy" in (tmp_path / "old.py").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["old.py"]


def test_without_onnx_the_extra_is_named(result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"pip install 'srgdqn\[onnx\]'"):
        srgdqn.export(result, tmp_path / "a.onnx")
    assert srgdqn.export(result, tmp_path / "a.py").exists()
