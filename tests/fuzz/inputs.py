"""One input after the other: an instance of a format, changed in some way that its number alone decides."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import NamedTuple

from fuzz import files, nasty
from srgdqn.errors import InputError
from srgdqn.runs import manifest
from srgdqn.runs.untrusted import read_tensors

_LONGEST = 2**23
SPARSE = 2**40  # bytes, of which the disk has none


class Made(NamedTuple):
    """What was made of an instance."""

    whole: bool  # whether its digests are right, so that what is in it may be another content
    change: str  # what was done


def make_input(corpus: Path, kind: str, seed: int, number: int, place: Path) -> Made:
    """Puts the input of that number into a folder, which is made."""
    chance = random.Random(f"{seed}/{kind}/{number}")
    shutil.copytree(corpus / kind, place)
    paths = sorted(path for path in place.rglob("*") if path.is_file())
    way = chance.randrange(10)
    path = chance.choice(paths)
    name = path.relative_to(place).as_posix()
    if way == 0:
        # A pipe for `--config` is what a shell makes of <(…): somebody will write to it.
        return Made(False, f"{name}: {_file_system(path, place, chance, pipes=kind != 'options')}")
    if way <= 2:
        path.write_bytes(files.blind(path.read_bytes(), chance))
        return Made(_carries_no_digest(kind, path), f"{name}: bytes")
    if way == 3 and (path.parent / "manifest.json").exists():
        return Made(True, f"{name}: {_manifest(path.parent / 'manifest.json', chance)}")
    changes, before = chance.choice((1, 1, 1, 2)), path.read_bytes()
    for _ in range(changes):
        data = path.read_bytes()
        change = files.BY_SUFFIX[path.suffix] if chance.random() < 0.9 else files.blind
        try:
            changed = change(data, chance)
        except Exception:  # the second change may find nothing to know
            changed = files.blind(data, chance)
        # What is really long may take as much memory: it is headers that ask for what is not there.
        path.write_bytes(changed if len(changed) < _LONGEST else files.blind(data, chance))
    _seal(path, before)
    return Made(True, f"{name}: known format, changed {changes} times and sealed")


def _carries_no_digest(kind: str, path: Path) -> bool:
    return kind in ("live", "evidence", "configuration", "options") or path.name in ("sweep.json", "table.parquet")


def _seal(path: Path, before: bytes) -> None:
    """Makes the manifest beside a file, or the checkpoints beside a piece, tell of it as it is, with a right digest."""
    if path.suffix == ".piece":
        for checkpoint in path.parent.glob("*.checkpoint"):
            tensors, texts = read_tensors(checkpoint.read_bytes())
            with contextlib.suppress(InputError, KeyError, AttributeError):
                was, now = (read_tensors(data)[1]["sha256"] for data in (before, path.read_bytes()))
                texts["checkpoint"] = texts["checkpoint"].replace(was, now)
                checkpoint.write_bytes(files.sealed(tensors, texts))
        return
    place = path.parent / "manifest.json"
    if not place.exists() or path == place:
        if path == place:
            _seal_manifest(place)
        return
    content = json.loads(place.read_bytes())
    content["files"][path.name] = vars(manifest.Entry.of(path.read_bytes()))
    _write_manifest(place, content)


def _seal_manifest(place: Path) -> None:
    try:
        content = json.loads(place.read_bytes())
        _write_manifest(place, content)
    except (ValueError, RecursionError, TypeError, AttributeError):
        pass  # what was made of it has no digest


def _write_manifest(place: Path, content: dict) -> None:
    content.pop("sha256", None)
    try:
        digest = manifest._digest(content)
    except ValueError:  # numbers that are none
        digest = "0" * 64
    place.write_text(json.dumps({**content, "sha256": digest}, indent=2))


def _manifest(place: Path, chance: random.Random) -> str:
    """Files listed under names that lead elsewhere, or with sizes that they do not have."""
    content = json.loads(place.read_bytes())
    listed = content["files"]
    name = chance.choice(sorted(listed))
    other = chance.choice(
        ("../canary", "/etc/passwd", "a\x00b", "..", "", "x.parquet", "../canary.parquet", "manifest.json")
    )
    kind = chance.randrange(4)
    if kind == 0:
        listed[other] = listed.pop(name)
    elif kind == 1:
        listed[other] = listed[name]
    elif kind == 2:
        listed[name]["size"] = chance.choice(nasty.NUMBERS)
        with open(place.parent / name, "r+b") as file:
            file.truncate(chance.choice((SPARSE, 0)))
    else:
        listed[name] = nasty.value(chance)
    _write_manifest(place, content)
    return f"manifest, {name!r}, {other!r}, {kind}"


_INSTEAD = ("missing", "link", "device", "loop", "folder", "huge", "empty", "swapped", "extra", "folder link")


def _file_system(path: Path, place: Path, chance: random.Random, *, pipes: bool) -> str:
    """Something else where a file is expected."""
    kind = chance.choice((*_INSTEAD, "pipe") if pipes else _INSTEAD)
    if kind == "extra":
        (path.parent / chance.choice(("evil.py", "sitecustomize.py", ".hidden", "x.pth"))).write_text(
            "raise SystemExit"
        )
        return kind
    if kind == "huge":
        with open(path, "r+b") as file:
            file.truncate(SPARSE)
        return kind
    if kind == "swapped":
        other = chance.choice(sorted(each for each in path.parent.iterdir() if each.is_file()))
        data = path.read_bytes(), other.read_bytes()
        path.write_bytes(data[1])
        other.write_bytes(data[0])
        return kind
    if kind == "folder link":
        folder = path.parent
        if folder == place:
            return "nothing"
        aside = place / f"aside{chance.randrange(100)}"
        folder.rename(aside)
        folder.symlink_to(chance.choice((aside, Path("/"), Path("/proc/self"), folder)))
        return kind
    path.unlink()
    if kind == "link":
        path.symlink_to(chance.choice((Path("/etc/passwd"), place.parent / "canary", place / "nowhere")))
    elif kind == "device":
        path.symlink_to(chance.choice(("/dev/zero", "/dev/stdin", "/dev/random")))
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.write_bytes(b"")
    return kind
