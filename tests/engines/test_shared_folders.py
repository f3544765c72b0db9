"""Marks by which a folder is known again on another machine."""

from __future__ import annotations

import os
from pathlib import Path

from srgdqn.engines.shared_folders import claimed, marked


def test_a_marked_folder_is_seen_and_can_be_claimed_by_one(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    with marked(folder) as mark:
        assert mark is not None
        assert mark.is_seen()
        assert not mark._replace(word="f" * 32).is_seen()
        assert not mark._replace(folder=tmp_path).is_seen()
        with claimed(mark, "a") as mine, claimed(mark, "a") as again, claimed(mark, "b") as other:
            assert (mine, again, other) == (True, False, True)
        with claimed(None, "a") as unseen:
            assert not unseen
    assert os.listdir(folder) == []


def test_where_nothing_can_be_written_there_is_no_mark(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with marked(tmp_path / "file") as mark:
        assert mark is None


def test_a_mark_takes_the_place_of_a_link_and_is_not_read_through_one(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "jobs", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.write_text("precious")
    (folder / ".shared").symlink_to(elsewhere)
    with marked(folder) as mark:
        assert mark is not None
        assert mark.is_seen()
        elsewhere.write_text(mark.word)
        (folder / ".shared").unlink()
        (folder / ".shared").symlink_to(elsewhere)
        assert not mark.is_seen()
    assert elsewhere.read_text() == mark.word
