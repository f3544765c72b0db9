"""Configurations that differ in numbers alone run as lanes of one program, and each has the bits it has alone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srgdqn.config import Configuration
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.training import Progress, Trained, train_rounds, train_side_by_side
from srgdqn.training.job_split import shares_of
from tiny import bits, reproducible, tiny

# Options with which every number counts; only one of the two targets can be had at a time.
EVERYTHING: dict[str, Any] = dict(
    rounds=3, loss="huber", schedule="linear", clip_norm=0.5, evaluation_interval=96, learning_starts=20, target="hard"
)
OTHERS: dict[str, float] = {
    "reward_scale": 0.5,
    "epsilon_start": 0.6,
    "epsilon_end": 0.05,
    "epsilon_fraction": 0.2,
    "gamma": 0.1,
    "target_period": 1,
    "target_tau": 0.1,
    "huber_delta": 0.01,
    "coefficient": 0.0,
    "eta": 1e-4,
    "alpha": 1e-4,
    "beta1": 0.0,
    "beta2": 0.0,
    "adam_epsilon": 1e-3,
    "clip_norm": 1e-3,
    "schedule_end": 0.5,
    "reward_clip": 0.1,
}
IDLE = {
    *("hl_gauss_sigma", "reward_alpha", "priority_exponent", "importance_exponent", "priority_floor"),
    *("munchausen_share", "munchausen_temperature", "munchausen_floor"),
}
"""Of parts that are off."""


def options_for(kernel: str) -> dict[str, Any]:
    clipped = {"reward_clip": 0.6} if kernel == "xla" else {}  # the kernel clips no rewards
    return {**EVERYTHING, **clipped, "kernel": kernel}


def outcome(trained: Trained) -> tuple[Any, Any]:
    return reproducible(trained.tables), bits(trained.policies)


def each(configurations: list[Configuration], **engine: Any) -> dict[int, Trained]:
    _, task = tiny()
    return dict(train_side_by_side(configurations, task, **engine))


def test_every_number_is_among_those_tried() -> None:
    assert tiny(**options_for("xla"))[0].numbers().keys() == OTHERS.keys() | IDLE


@pytest.mark.parametrize("target", ["hard", "polyak"])
def test_each_has_the_bits_it_has_alone(target: str, each_kernel: str) -> None:
    """Every number is another one in one of them, but for that of the other target."""
    options = {**options_for(each_kernel), "target": target}
    unused = {"target_tau" if target == "hard" else "target_period", *IDLE}
    changed = [{}, *({name: OTHERS[name]} for name in tiny(**options)[0].numbers() if name not in unused)]
    made = [tiny(**{**options, **change}) for change in changed]
    together = each([configuration for configuration, _ in made])
    alone = [train_rounds(*one) for one in made]
    assert [outcome(together[place]) for place in range(len(made))] == [outcome(trained) for trained in alone]
    # The number was not that of a neighbour: each gives other policies.
    assert len({str(bits(trained.policies)) for trained in alone}) == len(made)
    assert not any(trained.interrupted for trained in together.values())


def test_numbers_of_networks_and_distributions_are_each_lanes_own() -> None:
    usual = dict(rounds=1, kernel="xla", loss="hl-gauss", value_min=0.0, value_max=9.0, atoms=5, dropout=0.2)
    changes = [{}, {"value_min": -3.0}, {"value_max": 20.0}, {"hl_gauss_sigma": 2.0}, {"dropout": 0.6}]
    made = [tiny(**{**usual, **change}) for change in changes]
    together = each([configuration for configuration, _ in made])
    alone = [train_rounds(*one) for one in made]
    assert [outcome(together[place]) for place in range(len(made))] == [outcome(trained) for trained in alone]
    assert len({str(bits(trained.policies)) for trained in alone}) == len(made)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])  # it only names the kernel
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "eta": st.floats(0, 0.1),
                "alpha": st.floats(0, 0.1),
                "gamma": st.floats(0, 1),
                "epsilon_start": st.floats(0, 1),
                "coefficient": st.floats(0, 1),
                "clip_norm": st.floats(1e-3, 10),
            }
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 3),
)
def test_any_numbers_on_any_threads(each_kernel: str, cells: list[dict[str, float]], workers: int) -> None:
    """Eighteen rounds at most, which fill boards of four lanes, or teams of eight, in any way."""
    made = [tiny(**{**options_for(each_kernel), **cell}) for cell in cells]
    together = each([configuration for configuration, _ in made], workers=workers)
    assert sorted(together) == list(range(len(cells)))
    for place, one in enumerate(made):
        assert outcome(together[place]) == outcome(train_rounds(*one))


def test_one_that_diverges_leaves_its_neighbours_alone(each_kernel: str) -> None:
    made = [tiny(rounds=3, kernel=each_kernel, steps=600, eta=eta) for eta in (0.01, 1e6, 0.02)]
    together = each([configuration for configuration, _ in made])
    assert [outcome(together[place]) for place in range(3)] == [outcome(train_rounds(*one)) for one in made]
    masks = [np.ma.getmaskarray(together[place].tables["rounds"]["diverged_at"]).tolist() for place in range(3)]
    assert masks == [[True] * 3, [False] * 3, [True] * 3]


def test_a_round_has_its_share_of_the_seconds() -> None:
    """Ten cells of one round cost what ten rounds cost: their seconds add up to those of the chunks."""
    configurations = [tiny(rounds=1, eta=eta)[0] for eta in np.linspace(0, 0.01, 10)]
    together = each(configurations, workers=1)
    rows = [trained.tables["timings"] for trained in together.values()]
    trainings = [table["seconds"][table["phase"] == "train"] for table in rows]
    assert all(len(seconds) == len(trainings[0]) for seconds in trainings)
    assert len({seconds.tobytes() for seconds in trainings}) == 1  # one chunk, shared out evenly
    assert all(table["rounds"].tolist() == [1] * len(table["rounds"]) for table in rows)


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="numbers alone"):
        each([tiny()[0], tiny(batch_size=5)[0]])


def test_what_is_done_is_had_while_the_rest_is_stopped() -> None:
    """The first cells have filled their boards before the last begin: those are complete, and the others marked."""
    stop = threading.Event()
    configurations = [tiny(rounds=16, eta=eta)[0] for eta in (0.01, 0.02, 0.03)]
    _, task = tiny()

    def listen(progress: Progress) -> None:
        if progress.share > 0.3:  # the first of three chunks, each of them a cell
            stop.set()

    found = dict(train_side_by_side(configurations, task, workers=1, stop=stop, listener=listen))
    assert [found[place].interrupted for place in range(3)] == [False, True, True]
    assert outcome(found[0]) == outcome(train_rounds(configurations[0], task))
    assert len(found[2].tables) == 0


@given(st.integers(1, 7), st.integers(1, 9), st.integers(1, 11))
def test_shares_are_the_rounds_of_each(rounds: int, configurations: int, size: int) -> None:
    every, names = range(rounds * configurations), [str(place) for place in range(configurations)]
    shares = [share for start in every[::size] for share in shares_of(every[start : start + size], names, rounds)]
    assert all(len(share.rounds) > 0 and share.digest == str(share.place) for share in shares)
    assert [(share.place, number) for share in shares for number in share.rounds] == [
        (place, number) for place in range(configurations) for number in range(rounds)
    ]


def test_jobs_are_checkpointed_though_the_consumer_fails(tmp_path: Path) -> None:
    """Whoever is given a result may fail to store it: everything that was reached is there to resume from."""
    configurations = [tiny(rounds=3, eta=eta)[0] for eta in (1e-3, 1e-2)]
    manager = CheckpointManager(tmp_path, every=1_000.0)
    results = train_side_by_side(configurations, tiny()[1], manager=manager, workers=1)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert manager.jobs()
    assert all(any((tmp_path / name).glob("*.checkpoint")) for name in manager.jobs())
