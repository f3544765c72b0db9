"""A sweep: every cell what training it alone gives, saved as soon as it is finished, and never trained twice."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import srgdqn
from cut_short import CutShort, Killed
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.errors import InputError
from srgdqn.results.comparison import final_rewards
from srgdqn.sweeps.folder import CELLS, About, begin, check_folder, occupied, read_about, run_folders
from srgdqn.sweeps.grid import Base, GridPlan
from srgdqn.sweeps.run import run_sweep
from srgdqn.sweeps.space import SearchPlan, space_of
from srgdqn.sweeps.sweep import Sweep
from srgdqn.training import program
from tiny import TINY, outcome

OPTIONS: dict[str, Any] = {name: value for name, value in TINY.items() if name != "batch_size"} | {"rounds": 3}
VALUES: dict[str, Any] = {"eta": [1e-3, 1e-2, 1e6], "batch_size": [4, 5]}
PLAN = GridPlan(Base("CartPole", "srg-dqn", options=OPTIONS), VALUES)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sweep]:
    folder = tmp_path_factory.mktemp("sweep") / "grid"
    return folder, srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=folder, **OPTIONS)


@pytest.fixture
def copied(swept: tuple[Path, Sweep], tmp_path: Path) -> Path:
    return Path(shutil.copytree(swept[0], tmp_path / "copied"))


def stamps(folder: Path) -> dict[str, int]:
    return {place.name: (place / "manifest.json").stat().st_mtime_ns for place in (folder / CELLS).iterdir()}


def silent(progress: Any) -> None:
    pass


# Cells, table, scores


def test_a_cell_is_what_training_it_alone_gives(swept: tuple[Path, Sweep]) -> None:
    _, sweep = swept
    assert len(sweep.cells) == 6
    for number in (0, 3, 4):
        alone = srgdqn.train("CartPole", "srg-dqn", **OPTIONS, **sweep.values(number))
        assert alone.configuration == sweep.result(number).configuration
        assert outcome(alone) == outcome(sweep.result(number))


def test_cells_that_differ_in_an_estimators_own_numbers_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes compile anew."""
    compiled: list[Any] = []
    compiling = program._compile

    def noted(configuration: Any, *others: Any) -> Any:
        compiled.append(configuration.estimator.own)
        return compiling(configuration, *others)

    monkeypatch.setattr(program, "_compile", noted)
    options = OPTIONS | {"rounds": 2, "hidden": (3,), "batch_size": 4}  # a shape of this test's own
    swept = srgdqn.sweep("CartPole", "dqn-storm", {"a": [0.0, 0.25, 1], "alpha": [1e-3, 1e-2]}, **options)
    assert len(compiled) == 1
    assert swept.table["a"].to_list() == [0.0, 0.0, 0.25, 0.25, 1.0, 1.0]
    for number in (0, 3, 5):
        alone = srgdqn.train("CartPole", "dqn-storm", **options, **swept.values(number))
        assert outcome(alone) == outcome(swept.result(number))
    assert len({str(outcome(swept.result(number))) for number in range(6)}) == 6
    assert len(compiled) == 1

    compiled.clear()
    values = {"anchor_batches": [1, 2], "refresh": [0.25, 0.5]}
    swept = srgdqn.sweep("CartPole", "srg-dqn", values, estimator="page", **options)
    assert sorted(dict(own)["anchor_batches"] for own in compiled) == [1, 2]
    assert repr(swept.table["anchor_batches"].to_list()) == "[1, 1, 2, 2]"


def test_each_of_several_estimators_has_its_own_defaults() -> None:
    options = OPTIONS | {"rounds": 1, "batch_size": 4}
    swept = srgdqn.sweep("CartPole", "srg-dqn", {"estimator": ["srg", "storm_inner", "alpha_svrg"]}, **options)
    own = [dict(cell.configuration.estimator.own) for cell in swept.cells]
    assert own == [{}, {"a": 0.1}, {"svrg_start": 0.5, "svrg_end": 0.0}]


def test_an_estimator_without_a_number_has_one_cell_for_all_its_values(tmp_path: Path) -> None:
    """Beside those that have it; where none has it, it is refused."""
    options = OPTIONS | {"rounds": 1, "batch_size": 4, "steps": 96}
    values = {"estimator": ["none", "storm_inner", "srg"], "a": [0.5, 1]}
    swept = srgdqn.sweep("CartPole", "srg-dqn", values, folder=tmp_path / "grid", **options)
    tried = [{"estimator": "none"}, *({"estimator": "storm_inner", "a": a} for a in (0.5, 1.0)), {"estimator": "srg"}]
    loaded = srgdqn.load_sweep(tmp_path / "grid")
    for each in (swept, loaded):
        assert [cell.values for cell in each.cells] == tried
        assert each.table["a"].to_list() == [None, 0.5, 1.0, None]
        assert each.names == ["estimator", "a"]
        alone = srgdqn.train("CartPole", "srg-dqn", progress=False, **options, **each.values(0))
        assert outcome(each.result(0)) == outcome(alone)
    swept.heat_map(tmp_path / "map.png")
    assert [place.name for place in run_folders(Path(f"{tmp_path / 'grid'}:a=0.5"))] == ["estimator=storm_inner,a=0.5"]
    fixed = srgdqn.sweep("CartPole", "srg-dqn", {"estimator": ["srg", "storm_inner"]}, **options, a=0.25)
    assert [dict(cell.configuration.estimator.own) for cell in fixed.cells] == [{}, {"a": 0.25}]
    with pytest.raises(InputError, match=r"the cell estimator = srg, a = 0\.5 cannot be run: a is a number of"):
        srgdqn.sweep("CartPole", "srg-dqn", {"estimator": ["srg", "svrg"], "a": [0.5, 1]}, **options)


def test_the_table(swept: tuple[Path, Sweep]) -> None:
    _, sweep = swept
    table = sweep.table
    assert table["eta"].to_list() == [1e-3, 1e-3, 1e-2, 1e-2, 1e6, 1e6]
    assert table["batch_size"].to_list() == [4, 5] * 3
    assert table["diverged"].to_list() == [0, 0, 0, 0, 3, 3]
    for number, row in enumerate(table.iter_rows(named=True)):
        evaluations = sweep.result(number).evaluations
        last = evaluations.filter(pl.col("step") == pl.col("step").max().over("round"))
        assert row["greedy_return"] == pytest.approx(last["return"].to_numpy().reshape(3, -1).mean(1).mean())
        assert row["score"] == row["greedy_return"]
    assert set(sweep.tied) == {cell for cell in range(4) if table["score"][cell] == table["score"][:4].max()}
    assert table["score"].max() > table["score"][sweep.tied[0]]  # cells that diverged are not the best
    assert "6 cells" in repr(sweep)
    for number in (-1, 6):
        with pytest.raises(InputError, match="Give one of 0 to 5"):
            sweep.result(number)


def test_diverged_rounds_score_the_worst_that_finished(copied: Path) -> None:
    sweep = srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=copied, score="final-reward", **OPTIONS)
    worst = min(reward for number in range(4) for reward in final_rewards(sweep.result(number)).values())
    assert sweep.table["score"].to_list()[4:] == pytest.approx([worst] * 2)
    assert sweep.table["final_reward_rounds"].to_list()[4:] == [0, 0]
    assert sweep.table["often_diverged"].to_list() == [False] * 4 + [True] * 2
    assert sweep.best < 4
    loaded = srgdqn.load_sweep(copied)
    assert (loaded.table.equals(sweep.table), loaded.diverged_score) == (True, sweep.diverged_score)


def test_equal_scores_are_a_tie_that_nothing_breaks(swept: tuple[Path, Sweep]) -> None:
    sweep = dataclasses.replace(swept[1])
    scores, rewards = [1.0, 2.0, 2.0, None, 2.0, 0.5], [9.0, 1.0, 3.0, 9.0, None, 9.0]
    columns = {"score": pl.Series(scores), "final_reward": pl.Series(rewards), "often_diverged": pl.lit(False)}
    vars(sweep)["table"] = swept[1].table.with_columns(**columns)
    assert sweep.tied == (1, 2, 4)
    with pytest.raises(InputError, match=r"cells 1, 2, 4 tie by their greedy-return.*Take one of sweep\.tied"):
        _ = sweep.best
    empty = Sweep(Base("CartPole"), {"values": {}}, planned=4)
    assert empty.table.height == 0
    with pytest.raises(InputError, match="none is the best"):
        _ = empty.best


# The folder


def test_to_a_folder_and_back(swept: tuple[Path, Sweep], tmp_path: Path) -> None:
    done, sweep = swept
    for folder in (done, sweep.save(tmp_path / "saved"), sweep.save(tmp_path / "saved")):
        loaded = srgdqn.load_sweep(folder)
        assert loaded.table.equals(sweep.table)
        assert pl.read_parquet(folder / "table.parquet").equals(sweep.table)
        assert [outcome(result) for result in loaded.results] == [outcome(result) for result in sweep.results]
        assert (loaded.base, loaded.plan, loaded.interrupted) == (PLAN.base, PLAN.as_words(), False)
    assert srgdqn.load(done / CELLS / "batch_size=4,eta=0.01").configuration.optimiser.eta == 0.01


def test_only_what_is_missing_or_damaged_is_trained_and_a_grid_may_grow(
    swept: tuple[Path, Sweep], copied: Path
) -> None:
    before = stamps(copied)
    shutil.rmtree(copied / CELLS / "batch_size=4,eta=0.01")
    damaged = copied / CELLS / "batch_size=5,eta=0.001" / "curves.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    said: list[str] = []
    sweep = run_sweep(PLAN, copied, "greedy-return", silent, said.append)
    after = stamps(copied)
    assert {name for name in after if after[name] != before[name]} == {
        "batch_size=4,eta=0.01",
        "batch_size=5,eta=0.001",
    }
    assert len(said) == 1
    assert "batch_size=5,eta=0.001 is computed again" in said[0]
    assert sweep.table.equals(swept[1].table)
    more = srgdqn.sweep("CartPole", "srg-dqn", {"batch_size": [4, 5], "eta": [1e-2, 0.5]}, folder=copied, **OPTIONS)
    assert len(more.cells) == 4
    assert len(stamps(copied)) == 8
    assert {name: stamps(copied)[name] for name in after} == after


def test_another_question_and_folders_of_others_are_refused(swept: tuple[Path, Sweep], tmp_path: Path) -> None:
    folder, _ = swept
    with pytest.raises(InputError, match=r"holds another sweep: seed was .+, and now is 1\. Give what it was"):
        srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=folder, **OPTIONS, seed=1)
    with pytest.raises(InputError, match="holds another sweep: algorithm was srg-dqn, and now is svr-dqn"):
        srgdqn.sweep("CartPole", "svr-dqn", VALUES, folder=folder, **OPTIONS)
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(InputError, match="is not the folder of a sweep"):
        srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=tmp_path, **OPTIONS)
    with pytest.raises(InputError, match="is not a folder"):
        srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=tmp_path / "precious", **OPTIONS)
    with pytest.raises(InputError, match="is not the folder of a sweep"):
        srgdqn.load_sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize("kind", ["grid", "search"])
def test_a_folder_that_somebody_began_meanwhile_is_theirs(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check and the lock, which both must pass."""
    monkeypatch.setattr("srgdqn.sweeps.cells.train_each", None)
    folder, space = tmp_path / "sweep", space_of({"batch_size": (4, 5)})
    plan = PLAN if kind == "grid" else SearchPlan(PLAN.base, space, trials=2)
    others = Base("CartPole", "srg-dqn", options={**OPTIONS, "seed": 1})
    assert check_folder(folder, plan.base, plan.as_words()) == folder
    with occupied(folder):
        begin(folder, About(others, plan.as_words(), planned=2))
    with pytest.raises(InputError, match=r"sweep holds another sweep: \w+ was .+, and now is .+\. Give"):
        run_sweep(plan, folder, "greedy-return", silent)
    assert read_about(folder).base.as_words() == others.as_words()
    monkeypatch.setattr("srgdqn.runs.locks._PATIENCE", 0.1)
    with occupied(folder), pytest.raises(InputError, match="that this very process is at work on"):
        run_sweep(plan, folder, "greedy-return", silent)


def test_a_folder_whose_first_file_was_never_finished_is_free(tmp_path: Path) -> None:
    (tmp_path / ".srgdqn-0123456789abcdef.json").write_text("{")
    assert check_folder(tmp_path, PLAN.base, PLAN.as_words()) == tmp_path


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[:-5],
        lambda content: "[]",
        lambda content: content.replace("srgdqn-sweep", "srgdqn-run"),
        lambda content: content.replace('"rounds"', '"ruonds"'),
        lambda content: content.replace('"cells"', '"sells"'),
        lambda content: content.replace("greedy-return", "best"),
        lambda content: content.replace('"eta": "0.01"', '"eta": "../../x"'),
    ],
)
def test_a_damaged_account_is_refused(swept: tuple[Path, Sweep], tmp_path: Path, spoil: Any) -> None:
    (tmp_path / "sweep.json").write_text(spoil((swept[0] / "sweep.json").read_text()))
    with pytest.raises(InputError, match=r"sweep\.json cannot be used"):
        srgdqn.load_sweep(tmp_path)


def test_an_account_of_an_older_release_is_read(swept: tuple[Path, Sweep], copied: Path) -> None:
    content = json.loads((copied / "sweep.json").read_text())
    assert content.pop("failed") == []
    content["random_policy"] = None
    (copied / "sweep.json").write_text(json.dumps(content))
    assert srgdqn.load_sweep(copied).table.equals(swept[1].table)


# Killed and interrupted


ETAS = {"eta": [1e-3, 1e-2, 2e-2, 1e6]}  # the last diverges
SPACE = {"eta": (1e-4, 1e-1), "gamma": [0.9, 0.99]}
RESUMED: dict[str, Any] = {**TINY, "rounds": 6, "progress": False}


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> CutShort:
    return CutShort(monkeypatch, "srgdqn.sweeps.cells.train_side_by_side")


def grid(folder: Path | None = None, **how: Any) -> Sweep:
    return srgdqn.sweep("CartPole", "srg-dqn", ETAS, folder=folder, **RESUMED, **how)


def searched(folder: Path | None = None, **how: Any) -> Sweep:
    return srgdqn.search("CartPole", "srg-dqn", SPACE, folder=folder, trials=6, at_once=4, **RESUMED, **how)


def whole_outcome(sweep: Sweep) -> list[Any]:
    return [sweep.table.rows(), [outcome(result) for result in sweep.results]]


@pytest.fixture(scope="module")
def whole() -> Sweep:
    return grid()


@pytest.mark.parametrize(("after", "finished"), [(2, 0), (9, 2)])
def test_a_killed_grid_resumes(after: int, finished: int, whole: Sweep, cut: CutShort, tmp_path: Path) -> None:
    """Chunks of sixteen lanes have rounds of two or three cells of six rounds."""
    folder = tmp_path / "grid"
    grid()
    total = cut.counted()
    cut.after = after
    with pytest.raises(Killed):
        grid(folder, checkpoint_every=0)
    cells = os.listdir(folder / CELLS) if (folder / CELLS).exists() else []
    assert (len(cells), os.listdir(folder / "unfinished")) == (finished, ["lanes"])
    if cells:  # a finished cell that is damaged meanwhile is restored from its checkpoint
        damaged = folder / CELLS / cells[0] / "curves.parquet"
        damaged.write_bytes(damaged.read_bytes()[:-1])
    before = cut.counted()
    again = grid(folder)
    assert not again.interrupted
    assert whole_outcome(again) == whole_outcome(whole)
    assert 0 <= before + cut.counted() - total <= 16 * 32  # a segment at most is trained twice
    assert not (folder / "unfinished").exists()
    assert not list(tmp_path.rglob(".lock"))


def test_an_interrupted_grid_has_its_finished_cells_and_resumes(whole: Sweep, cut: CutShort, tmp_path: Path) -> None:
    cut.after, cut.how = 9, "interrupt"
    part = grid(tmp_path / "grid", checkpoint_every=0)
    assert (part.interrupted, len(part.cells)) == (True, 2)
    assert srgdqn.load_sweep(tmp_path / "grid").table.equals(part.table)
    assert whole_outcome(grid(tmp_path / "grid")) == whole_outcome(whole)
    assert not (tmp_path / "grid" / "unfinished").exists()


def test_a_killed_search_resumes(cut: CutShort, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    found = searched()
    total = cut.counted()
    for after in (5, 9):  # within the first batch of trials, and again
        cut.after = after
        with pytest.raises(Killed):
            searched(tmp_path / "search", checkpoint_every=0)
        assert os.listdir(tmp_path / "search" / "unfinished") == ["lanes"]
    cut.counted()
    again = searched(tmp_path / "search")
    assert 0 < cut.counted() < total
    assert whole_outcome(again) == whole_outcome(found)
    assert not (tmp_path / "search" / "unfinished").exists()


# Environments that misbehave


@pytest.mark.parametrize(("wrong", "what"), [("stumble", "ValueError (no ball)"), ("vanish", "nan")])
def test_a_failed_cell_is_reported_and_tried_again(failing: Any, wrong: str, what: str, tmp_path: Path) -> None:
    folder, values = tmp_path / "grid", {"steps": [failing.long, failing.short], "alpha": [1e-3, 1e-2]}
    failing.sweep(values, folder, wrong=getattr(failing, wrong))
    before = stamps(folder)
    sweep = failing.sweep(values, folder, wrong=getattr(failing, wrong))
    assert stamps(folder) == before  # finished cells are not trained twice
    loaded = srgdqn.load_sweep(folder)  # though nobody knows the environment any more
    for each in (sweep, loaded):
        assert [cell.values for cell in each.cells] == [{"steps": failing.short, "alpha": eta} for eta in (1e-3, 1e-2)]
        table = each.table
        assert table["steps"].to_list() == [failing.short, failing.short, failing.long, failing.long]
        assert table["score"].is_null().to_list() == [False, False, True, True]
        assert table["failure"].to_list()[:2] == [None, None]
        assert all(what in reason and failing.name in reason for reason in table["failure"][2:])
        assert set(each.tied) <= {0, 1}
        assert each.values(3) == {"steps": failing.long, "alpha": 1e-2}
        assert (each.interrupted, "2 failed" in repr(each)) == (False, True)
        with pytest.raises(InputError, match="cell 2 has no result, because it failed: round 0: the environment"):
            each.result(2)
        each.heat_map(tmp_path / "map.png", overwrite=True)
    # What was learnt before is there, and is not taken for a cell.
    assert srgdqn.load(folder / "failed" / f"alpha=0.01,steps={failing.long}").rounds["steps"].to_list() == [32]
    assert set(before) == {f"alpha={eta},steps={failing.short}" for eta in (0.001, 0.01)}
    again = failing.sweep(values, folder, wrong=None)
    assert (len(again.cells), again.failed) == (4, ())
    with failing.registered(None):
        alone = srgdqn.train(failing.name, "dqn-adam", steps=failing.long, alpha=1e-3, **failing.options)
    assert outcome(again.result(0)) == outcome(alone)


def test_a_finished_cell_is_not_lost_where_it_fails_now(failing: Any, tmp_path: Path) -> None:
    folder, values = tmp_path / "grid", {"steps": [failing.long, failing.short]}
    failing.sweep(values, folder, wrong=None)
    damaged = folder / CELLS / f"steps={failing.long}" / "curves.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-1])  # so that it is trained again
    before = stamps(folder)[f"steps={failing.long}"]
    again = failing.sweep(values, folder)
    assert [failure.values for failure in again.failed] == [{"steps": failing.long}]
    assert stamps(folder)[f"steps={failing.long}"] == before


@pytest.mark.parametrize("after", [0, 35])
def test_if_every_cell_fails_that_is_an_error(failing: Any, after: int, tmp_path: Path) -> None:
    folder, values = tmp_path / "grid", {"steps": [failing.long, failing.long + 8]}
    with pytest.raises(EnvironmentFailedError, match=r"no cell of the sweep was finished.*no ball"):
        failing.sweep(values, folder, after=after)
    assert srgdqn.load_sweep(folder).cells == ()
    assert len(failing.sweep(values, folder, wrong=None).cells) == 2
