"""A sweep: every cell what training it alone gives, kept as soon as it is finished, and never trained twice."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import srgdqn
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.errors import InputError
from srgdqn.results.result import Result
from srgdqn.sweeps import run_grid
from srgdqn.sweeps.folder import CELLS
from srgdqn.sweeps.grid import Base, cells_of, checked_values
from srgdqn.sweeps.sweep import Sweep
from srgdqn.training import Progress
from tiny import TINY

OPTIONS: dict[str, Any] = {name: value for name, value in TINY.items() if name != "batch_size"} | {"rounds": 3}
VALUES: dict[str, Any] = {"eta": [1e-3, 1e-2, 1e6], "batch_size": [4, 5]}


def outcome(result: Result) -> dict[str, Any]:
    tables = {name: table.rows() for name, table in result.run.tables.items() if name != "timings"}
    return {**tables, **{name: array.tobytes() for name, array in result.run.parameters.items()}}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sweep]:
    folder = tmp_path_factory.mktemp("sweep") / "grid"
    return folder, srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=folder, **OPTIONS)


def test_a_cell_is_what_training_it_alone_gives(swept: tuple[Path, Sweep]) -> None:
    _, sweep = swept
    assert len(sweep.cells) == 6
    for number in range(6):
        alone = srgdqn.train("CartPole", "srg-dqn", **OPTIONS, **sweep.values(number))
        assert alone.configuration == sweep.result(number).configuration
        assert outcome(alone) == outcome(sweep.result(number))


def test_the_table(swept: tuple[Path, Sweep]) -> None:
    _, sweep = swept
    table = sweep.table
    assert table["cell"].to_list() == list(range(6))
    assert table["eta"].to_list() == [1e-3, 1e-3, 1e-2, 1e-2, 1e6, 1e6]
    assert table["batch_size"].to_list() == [4, 5] * 3
    assert table["diverged"].to_list() == [0, 0, 0, 0, 3, 3]
    for number, row in enumerate(table.iter_rows(named=True)):
        evaluations = sweep.result(number).evaluations
        last = evaluations.filter(pl.col("step") == pl.col("step").max().over("round"))
        assert row["greedy_return"] == pytest.approx(last["return"].to_numpy().reshape(3, -1).mean(1).mean())
    assert sweep.best == int(np.argmax(table["score"].to_numpy()))
    assert "6 cells" in repr(sweep)


def test_diverged_rounds_score_as_the_random_policy(swept: tuple[Path, Sweep], tmp_path: Path) -> None:
    folder = tmp_path / "rewards"
    shutil.copytree(swept[0], folder)
    sweep = srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=folder, score="final-reward", **OPTIONS)
    random = srgdqn.train(
        "CartPole", "srg-dqn", **OPTIONS, epsilon_start=1.0, epsilon_end=1.0, eta=0.0, alpha=0.0, batch_size=4
    ).curves
    expected = random.filter(pl.col("step") > 160).group_by("round").agg(pl.col("reward").mean())["reward"].mean()
    assert sweep.chance == pytest.approx(expected)
    assert sweep.table["score"].to_list()[4:] == pytest.approx([expected] * 2)
    assert sweep.table["final_reward_rounds"].to_list()[4:] == [0, 0]
    assert (folder / "random-policy" / "manifest.json").exists()


def stamps(folder: Path) -> dict[str, int]:
    return {place.name: (place / "manifest.json").stat().st_mtime_ns for place in (folder / CELLS).iterdir()}


def test_only_what_is_missing_or_damaged_is_trained(swept: tuple[Path, Sweep], tmp_path: Path) -> None:
    done, first = swept
    folder = tmp_path / "again"
    shutil.copytree(done, folder)
    before = stamps(folder)
    assert len(before) == 6
    shutil.rmtree(folder / CELLS / "batch_size=4,eta=0.01")
    damaged = folder / CELLS / "batch_size=5,eta=0.001" / "curves.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    said: list[str] = []
    base, tried = Base("CartPole", "srg-dqn", options=OPTIONS), checked_values(VALUES)
    sweep = run_grid.run_grid(
        base, tried, cells_of(base, tried), folder, "greedy-return", lambda progress: None, said.append
    )
    after = stamps(folder)
    assert {name for name in after if after[name] != before[name]} == {
        "batch_size=4,eta=0.01",
        "batch_size=5,eta=0.001",
    }
    assert len(said) == 1
    assert "batch_size=5,eta=0.001 is computed again" in said[0]
    assert sweep.table.equals(first.table)


def test_a_grid_may_grow(swept: tuple[Path, Sweep], tmp_path: Path) -> None:
    done, _ = swept
    folder = tmp_path / "more"
    shutil.copytree(done, folder)
    before = stamps(folder)
    more = srgdqn.sweep("CartPole", "srg-dqn", {"batch_size": [4, 5], "eta": [1e-2, 0.5]}, folder=folder, **OPTIONS)
    assert len(more.cells) == 4
    after = stamps(folder)
    assert len(after) == 8
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("other", [dict(rounds=2), dict(seed=1), dict(gamma=0.5)])
def test_another_question_is_refused(swept: tuple[Path, Sweep], other: dict[str, Any]) -> None:
    folder, _ = swept
    [(name, value)] = other.items()
    with pytest.raises(InputError, match=rf"holds another sweep: {name} was .+, and now is {value}\. Give what it was"):
        srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=folder, **{**OPTIONS, **other})
    with pytest.raises(InputError, match="holds another sweep: algorithm was srg-dqn, and now is svr-dqn"):
        srgdqn.sweep("CartPole", "svr-dqn", VALUES, folder=folder, **OPTIONS)


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(InputError, match="is not the folder of a sweep"):
        srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=tmp_path, **OPTIONS)
    with pytest.raises(InputError, match="is not a folder"):
        srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=tmp_path / "precious", **OPTIONS)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_to_a_folder_and_back(swept: tuple[Path, Sweep], tmp_path: Path) -> None:
    done, sweep = swept
    for folder in (done, sweep.save(tmp_path / "saved"), sweep.save(tmp_path / "saved")):
        loaded = srgdqn.load_sweep(folder)
        assert loaded.table.equals(sweep.table)
        assert pl.read_parquet(folder / "table.parquet").equals(sweep.table)
        assert [outcome(result) for result in loaded.results] == [outcome(result) for result in sweep.results]
        assert (loaded.base, loaded.plan, loaded.best, loaded.interrupted) == (
            Base("CartPole", "srg-dqn", options=OPTIONS),
            sweep.plan,
            sweep.best,
            False,
        )
    # An ordinary run, which any other command reads.
    run = srgdqn.load(done / CELLS / "batch_size=4,eta=0.01")
    assert run.configuration.optimiser.eta == 0.01


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[:-5],
        lambda content: "[]",
        lambda content: content.replace("srgdqn-sweep", "srgdqn-run"),
        lambda content: content.replace('"rounds"', '"ruonds"'),
        lambda content: content.replace('"cells"', '"sells"'),
        lambda content: content.replace('"eta": "0.01"', '"eta": "../../x"'),
    ],
)
def test_a_damaged_account_is_refused(swept: tuple[Path, Sweep], tmp_path: Path, spoil: Any) -> None:
    done, _ = swept
    (tmp_path / "sweep.json").write_text(spoil((done / "sweep.json").read_text()))
    with pytest.raises(InputError, match=r"sweep\.json cannot be used"):
        srgdqn.load_sweep(tmp_path)


def test_no_sweep_and_no_cell(swept: tuple[Path, Sweep], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not the folder of a sweep"):
        srgdqn.load_sweep(tmp_path)
    for number in (-1, 6):
        with pytest.raises(InputError, match="Give one of 0 to 5"):
            swept[1].result(number)


def test_ctrl_c_stores_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One program after the other: while the second runs, the first is finished."""
    monkeypatch.setattr("srgdqn.engines.threads.usable_cores", lambda: 1)
    pressed = False

    def ctrl_c(progress: Progress) -> None:
        nonlocal pressed
        if progress.share > 0.55 and not pressed:
            pressed = True
            signal.raise_signal(signal.SIGINT)

    options = {**OPTIONS, "evaluation_interval": 64}  # so that a round has several segments
    base, tried = Base("CartPole", "srg-dqn", options=options), checked_values(VALUES)
    folder = tmp_path / "grid"
    sweep = run_grid.run_grid(base, tried, cells_of(base, tried), folder, "greedy-return", ctrl_c)
    assert pressed
    assert sweep.interrupted
    assert {cell.values["batch_size"] for cell in sweep.cells} == {4}
    assert len(sweep.cells) == 3
    assert srgdqn.load_sweep(folder).interrupted
    whole = srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=folder, **options)
    assert not whole.interrupted
    assert len(whole.cells) == 6
    assert json.loads((folder / "sweep.json").read_text())["planned"] == 6


# Environments that misbehave


@pytest.mark.parametrize(("how", "what"), [("registered", "ValueError (no ball)"), ("with_nan", "nan")])
def test_a_cell_whose_environment_fails_is_told_and_the_others_go_on(
    failing: Any, how: str, what: str, tmp_path: Path
) -> None:
    folder, values = tmp_path / "grid", {"steps": [failing.long, failing.short], "eta": [1e-3, 1e-2]}
    with getattr(failing, how)():
        sweep = srgdqn.sweep(failing.name, "dqn-adam", values, folder=folder, **failing.options)
    loaded = srgdqn.load_sweep(folder)  # though nobody knows the environment any more
    for each in (sweep, loaded):
        assert [cell.values for cell in each.cells] == [{"steps": failing.short, "eta": eta} for eta in (1e-3, 1e-2)]
        assert [failure.values for failure in each.failed] == [
            {"steps": failing.long, "eta": eta} for eta in (1e-3, 1e-2)
        ]
        assert not each.interrupted
        assert "2 failed" in repr(each)
        table = each.table
        assert table["cell"].to_list() == [0, 1, 2, 3]
        assert table["steps"].to_list() == [failing.short, failing.short, failing.long, failing.long]
        assert table["score"].is_null().to_list() == [False, False, True, True]
        assert table["failure"].to_list()[:2] == [None, None]
        for reason in table["failure"][2:]:
            assert what in reason
            assert failing.name in reason
        assert each.best in (0, 1)
        assert each.values(3) == {"steps": failing.long, "eta": 1e-2}
        assert each.result(1).rounds["steps"].to_list() == [failing.short]
        with pytest.raises(InputError, match="cell 2 has no result, because it failed: round 0: the environment"):
            each.result(2)
        with pytest.raises(InputError, match="Give one of 0 to 3"):
            each.values(4)
        each.heat_map(tmp_path / "map.png", overwrite=True)
    assert pl.read_parquet(folder / "table.parquet").equals(sweep.table)
    # What was learnt before is there, and is not taken for a cell.
    assert srgdqn.load(folder / "failed" / f"eta=0.01,steps={failing.long}").rounds["steps"].to_list() == [32]
    assert set(stamps(folder)) == {f"eta={eta},steps={failing.short}" for eta in (0.001, 0.01)}


def test_a_cell_that_fails_at_once_is_told_as_any_other(failing: Any, tmp_path: Path) -> None:
    folder, values = tmp_path / "grid", {"steps": [failing.long]}
    with failing.registered(after=0), pytest.raises(EnvironmentFailedError, match="no ball"):
        srgdqn.sweep(failing.name, "dqn-adam", values, folder=folder, **failing.options)
    with failing.registered(None):
        assert len(srgdqn.sweep(failing.name, "dqn-adam", values, folder=folder, **failing.options).cells) == 1


def test_a_finished_cell_is_not_lost_where_it_fails_now(failing: Any, tmp_path: Path) -> None:
    folder, values = tmp_path / "grid", {"steps": [failing.long, failing.short]}
    with failing.registered(None):
        srgdqn.sweep(failing.name, "dqn-adam", values, folder=folder, **failing.options)
    damaged = folder / CELLS / f"steps={failing.long}" / "curves.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-1])  # so that it is trained again
    before = stamps(folder)[f"steps={failing.long}"]
    with failing.registered():
        again = srgdqn.sweep(failing.name, "dqn-adam", values, folder=folder, **failing.options)
    assert [failure.values for failure in again.failed] == [{"steps": failing.long}]
    assert stamps(folder)[f"steps={failing.long}"] == before


def test_a_failed_cell_is_tried_again(failing: Any, tmp_path: Path) -> None:
    folder, values = tmp_path / "grid", {"steps": [failing.short, failing.long]}
    with failing.registered():
        for _ in range(2):
            first = srgdqn.sweep(failing.name, "dqn-adam", values, folder=folder, **failing.options)
            assert [failure.values for failure in first.failed] == [{"steps": failing.long}]
    with failing.registered(None):
        again = srgdqn.sweep(failing.name, "dqn-adam", values, folder=folder, **failing.options)
        alone = srgdqn.train(failing.name, "dqn-adam", steps=failing.long, **failing.options)
    assert (len(again.cells), again.failed) == (2, ())
    assert outcome(again.result(1)) == outcome(alone)
    loaded = srgdqn.load_sweep(folder)
    assert (len(loaded.cells), loaded.failed) == (2, ())
    assert again.table["failure"].to_list() == [None, None]


def test_if_every_cell_fails_that_is_an_error(failing: Any, tmp_path: Path) -> None:
    folder = tmp_path / "grid"
    with (
        failing.registered(),
        pytest.raises(EnvironmentFailedError, match=r"no cell of the sweep was finished.*no ball"),
    ):
        srgdqn.sweep(
            failing.name, "dqn-adam", {"steps": [failing.long, failing.long + 8]}, folder=folder, **failing.options
        )
    assert srgdqn.load_sweep(folder).cells == ()
    with failing.registered(None):
        again = srgdqn.sweep(
            failing.name, "dqn-adam", {"steps": [failing.long, failing.long + 8]}, folder=folder, **failing.options
        )
    assert len(again.cells) == 2


def test_an_account_without_failures_is_read(swept: tuple[Path, Sweep], tmp_path: Path) -> None:
    shutil.copytree(swept[0], tmp_path / "old")
    account = tmp_path / "old" / "sweep.json"
    content = json.loads(account.read_text())
    assert content.pop("failed") == []
    account.write_text(json.dumps(content))
    assert srgdqn.load_sweep(tmp_path / "old").table.equals(swept[1].table)


def test_a_random_policy_that_cannot_be_tried_is_told(failing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srgdqn.sweeps.scores.needs_chance", lambda result, score: True)
    values = {"steps": [failing.long, failing.short]}  # the random policy is tried with the first cell's
    with failing.registered(), pytest.raises(InputError, match=r"the random policy.*no ball.*score = greedy-return"):
        srgdqn.sweep(failing.name, "dqn-adam", values, score="final-reward", **failing.options)


def test_equal_scores_are_a_tie_that_the_final_reward_breaks(swept: tuple[Path, Sweep]) -> None:
    sweep = dataclasses.replace(swept[1])
    scores, rewards = [1.0, 2.0, 2.0, None, 2.0, 0.5], [9.0, 1.0, 3.0, 9.0, None, 9.0]
    columns = {"score": pl.Series(scores), "final_reward": pl.Series(rewards)}
    vars(sweep)["table"] = swept[1].table.with_columns(**columns)
    assert sweep.tied == (1, 2, 4)
    assert sweep.best == 2


def test_nothing_finished_is_no_best() -> None:
    empty = Sweep(Base("CartPole"), {"values": {}}, (), (), "greedy-return", None, 4, interrupted=True)
    assert empty.table.height == 0
    with pytest.raises(InputError, match="none is the best"):
        _ = empty.best


def test_cells_on_the_host_are_not_trained_twice(failing: Any, tmp_path: Path) -> None:
    folder, values = tmp_path / "grid", {"eta": [1e-3, 1e-2]}
    with failing.registered(None):
        srgdqn.sweep(failing.name, "dqn-adam", values, folder=folder, steps=failing.short, **failing.options)
        before = stamps(folder)
        srgdqn.sweep(failing.name, "dqn-adam", values, folder=folder, steps=failing.short, **failing.options)
    assert len(before) == 2
    assert stamps(folder) == before
