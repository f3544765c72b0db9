"""The manifest of a stored folder: its files with their digests, and where it came from."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srgdqn.errors import InputError
from srgdqn.runs.destination import MANIFEST
from srgdqn.runs.untrusted import NewerFormatError, damaged, decoded, parse_json, read_file

RUN, MEASUREMENT, UNFINISHED_RUN = "srgdqn-run", "srgdqn-measurement", "srgdqn-unfinished"
"""The kinds of folder there are."""
_CALLED = {RUN: "a run", MEASUREMENT: "a measurement", UNFINISHED_RUN: "an unfinished run"}
VERSION = 1
"""Version of the folder's format: raised when an older release could no longer read what is written."""
_LONGEST = 2**20  # bytes: a manifest names a handful of files


@dataclass(frozen=True)
class Entry:
    """What one file must be."""

    sha256: str
    size: int

    @classmethod
    def of(cls, data: bytes) -> Entry:
        """The entry of a file with these bytes."""
        return cls(hashlib.sha256(data).hexdigest(), len(data))


@dataclass(frozen=True)
class Manifest:
    """The files by name, and the provenance."""

    files: dict[str, Entry]
    provenance: dict[str, Any]


def render(files: Mapping[str, bytes], provenance: Mapping[str, Any], kind: str = RUN) -> bytes:
    """The bytes of the manifest of these files."""
    entries = {name: vars(Entry.of(data)) for name, data in files.items()}
    content = {"kind": kind, "version": VERSION, "provenance": provenance, "files": entries}
    try:
        written = json.loads(_canonical(content))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the provenance is not made of JSON values: {error}. Give strings, numbers and lists."
        ) from None
    if written != content:
        raise InputError(
            "the provenance would be read back as another one. Use lists, not tuples, and strings as keys."
        )
    return (json.dumps({**content, "sha256": _digest(content)}, indent=2) + "\n").encode()


def parse(data: bytes, kind: str = RUN) -> Manifest:
    """The manifest of that kind in these bytes."""
    content = parse_json(data)
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise InputError(f"not the manifest of {_CALLED[kind]} (its kind should be {kind!r})")
    version = content.get("version")
    if type(version) is int and version > VERSION:
        raise NewerFormatError(
            f"was written by a newer srgdqn: it has version {version} of the format, and this one reads up to version "
            f"{VERSION}. Upgrade srgdqn."
        )
    written = content.pop("sha256", None)
    try:
        if type(version) is not int or version != VERSION or written != _digest(content):
            raise InputError("its digest is not that of its content")
        files = {name: Entry(str(entry["sha256"]), int(entry["size"])) for name, entry in content["files"].items()}
        return Manifest(files, dict(content["provenance"].items()))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise InputError(f"incomplete ({error})") from error


def read_manifest(path: Path, kind: str) -> Manifest:
    """The manifest in a folder."""
    what = "measurement" if kind == MEASUREMENT else "run"
    if not os.path.lexists(path / MANIFEST):
        reason = "it does not exist"
        if os.path.isdir(path):
            sweep = os.path.lexists(path / "sweep.json")
            reason = "it is a sweep's (srgdqn.load_sweep reads it)" if sweep else f"it has no {MANIFEST}"
        elif os.path.exists(path):
            reason = "it is a file (one that an agent was saved in is read by srgdqn.Agent.load, in Python)"
        raise InputError(f"{path} is not the folder of a {what}: {reason}. Give a folder that a {what} was saved in.")
    file = path / MANIFEST
    return decoded(file, functools.partial(parse, kind=kind), read_file(file, _LONGEST))


def read_folder(path: Path, kind: str, is_name: Callable[[str], bool]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The bytes of all files of a stored folder, and its provenance, if they are what its manifest lists. Names that a
    folder of this kind does not have are refused before anything is read.
    """
    listed = read_manifest(path, kind)
    for name in listed.files:
        if not is_name(name):
            raise damaged(path / MANIFEST, f"it lists {name!r}, which is no file of {_CALLED[kind]}")
    files = {}
    for name, entry in listed.files.items():
        files[name] = read_file(path / name, entry.size)
        if Entry.of(files[name]) != entry:
            raise damaged(path / name, f"it is not the file that {MANIFEST} lists")
    return files, listed.provenance


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
