"""Sweeps over environments and networks of one's own: the bits of `train`, and resumed only if the code is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import pytest

import srgdqn
from host_environments import SMALL, Slope
from srgdqn.errors import InputError
from srgdqn.sweeps.folder import CELLS
from tiny import TINY, Levers, outcome

OPTIONS: dict[str, Any] = {name: value for name, value in TINY.items() if name != "hidden"} | {"rounds": 2}
VALUES = {"alpha": [1e-3, 1e-2], "gamma": [0.5]}


def network(key: Any) -> eqx.Module:
    return eqx.nn.MLP(in_size=1, out_size=8, width_size=4, depth=1, key=key)


class Wrapped(gym.Wrapper):
    pass


def wrapped() -> gym.Env:
    return Wrapped(Slope())


def stamps(folder: Path) -> dict[str, int]:
    return {place.name: (place / "manifest.json").stat().st_mtime_ns for place in (folder / CELLS).iterdir()}


def test_a_cell_of_ones_own_is_what_training_it_alone_gives_and_is_trained_once(tmp_path: Path) -> None:
    def swept() -> srgdqn.Sweep:
        return srgdqn.sweep(Levers(), "srg-dqn", VALUES, network=network, folder=tmp_path / "grid", **OPTIONS)

    sweep = swept()
    before = stamps(tmp_path / "grid")
    again = swept()
    assert stamps(tmp_path / "grid") == before
    loaded = srgdqn.load_sweep(tmp_path / "grid", network=network)
    alone = srgdqn.train(Levers(), "srg-dqn", network=network, **OPTIONS, **sweep.values(1))
    for each in (sweep, again, loaded):
        assert outcome(each.result(1)) == outcome(alone)
        assert each.result(1).policy(0)([3.0]) == alone.policy(0)([3.0])
    assert again.result(0).evaluate(episodes=1).height == 2  # in the environment that was given
    assert set(srgdqn.paired(sweep.results)["rounds"]) == {2}


@pytest.mark.parametrize("make", [wrapped, Slope], ids=["factory", "class"])
def test_factories_step_on_the_host(make: Callable[[], gym.Env]) -> None:
    options = {**SMALL, "steps": 24}
    sweep = srgdqn.sweep(make, "dqn-adam", {"alpha": [1e-3, 1e-2]}, **options)
    alone = srgdqn.train(make, "dqn-adam", alpha=1e-2, **options)
    assert outcome(sweep.result(1)) == outcome(alone)
    given = srgdqn.sweep(make(), "dqn-adam", {"alpha": [1e-2]}, **options)
    assert outcome(given.result(0)) == outcome(alone)


def test_a_search_takes_them_too(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    how: dict[str, Any] = {"network": network, "folder": tmp_path / "found", **OPTIONS}
    found = srgdqn.search(Levers(), "dqn-adam", {"alpha": (1e-4, 1e-2)}, trials=2, **how)
    more = srgdqn.search(Levers(), "dqn-adam", {"alpha": (1e-4, 1e-2)}, trials=3, **how)
    assert [cell.values for cell in more.cells][:2] == [cell.values for cell in found.cells]
    assert len(more.cells) == 3


def test_other_code_under_the_same_name_is_trained_again(tmp_path: Path) -> None:
    def swept(width: int) -> srgdqn.Sweep:
        def mine(key: Any) -> eqx.Module:
            return eqx.nn.MLP(in_size=1, out_size=8, width_size=width, depth=1, key=key)

        return srgdqn.sweep(Levers(), "dqn-adam", VALUES, network=mine, folder=tmp_path / "grid", **OPTIONS)

    swept(4)
    before = stamps(tmp_path / "grid")
    swept(4)
    assert stamps(tmp_path / "grid") == before
    assert swept(5).result(0).run.parameters["network.layers.0.weight"].shape[1] == 5


def test_code_that_cannot_be_known_is_swept_but_not_resumed(tmp_path: Path) -> None:
    class Odd(Levers):
        def __init__(self) -> None:
            self.numbers: Iterator[int] = (number for number in range(3))

    def swept() -> srgdqn.Sweep:
        return srgdqn.sweep(Odd(), "dqn-adam", VALUES, folder=tmp_path / "grid", **OPTIONS)

    assert len(swept().cells) == 2
    before = stamps(tmp_path / "grid")
    with pytest.raises(InputError, match=r"cannot be resumed, as it is unknown .*generator.*Give another folder"):
        swept()
    assert stamps(tmp_path / "grid") == before


def test_built_in_networks_are_given_as_to_train(tmp_path: Path) -> None:
    srgdqn.sweep("CartPole", "dqn-adam", VALUES, network="mlp", folder=tmp_path / "grid", **OPTIONS)
    assert srgdqn.load_sweep(tmp_path / "grid").base.options["network"] == "mlp"
    with pytest.raises(InputError, match="nor one of cnn, mlp"):
        srgdqn.sweep("CartPole", "dqn-sgd", VALUES, network="mpl", **OPTIONS)
    with pytest.raises(InputError, match="int lacks initial, transition"):
        srgdqn.sweep(3, "dqn-sgd", VALUES, **OPTIONS)  # type: ignore[arg-type]
