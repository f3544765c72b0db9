import hashlib
import json
from typing import Any

import pytest

from srgdqn.errors import InputError
from srgdqn.runs import manifest

FILES = {"a.txt": b"hello", "b.txt": b""}


def sealed(content: dict[str, Any]) -> bytes:
    """A manifest with a right digest, whatever it says."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps({**content, "sha256": hashlib.sha256(canonical.encode()).hexdigest()}).encode()


def test_what_was_written_is_read() -> None:
    provenance = {"versions": {"jax": "1.0"}, "cores": 2, "sets": ["avx2"], "share": 0.1, "none": None}
    read = manifest.parse(manifest.render(FILES, provenance))
    assert read.provenance == provenance
    assert read.files == {
        "a.txt": manifest.Entry("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", 5),
        "b.txt": manifest.Entry("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 0),
    }


@pytest.mark.parametrize("provenance", [{"a": (1, 2)}, {1: "a"}, {"a": {1}}, {"a": float("nan")}, {"a": b"x"}])
def test_provenance_is_made_of_json_values(provenance: dict[Any, Any]) -> None:
    with pytest.raises(InputError, match=r"the provenance .*\. (Give|Use) "):
        manifest.render(FILES, provenance)


def run_manifest(**content: Any) -> bytes:
    return sealed({"kind": "srgdqn-run", "version": 1, "provenance": {}, "files": {}, **content})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not the manifest of a run"),
        (run_manifest(kind="other"), "not the manifest of a run"),
        (b'{"kind": "srgdqn-run", "version": 1, "provenance": {}, "files": {}, "sha256": "0"}', "digest"),
        (run_manifest(version=True), "digest"),
        (run_manifest(version=0), "digest"),
        (sealed({"kind": "srgdqn-run", "version": 1, "provenance": {}}), "incomplete"),
        (run_manifest(provenance=3), "incomplete"),
        (run_manifest(files=[]), "incomplete"),
        (run_manifest(files={"a": {"sha256": "0"}}), "incomplete"),
        (run_manifest(files={"a": {"sha256": "0", "size": "x"}}), "incomplete"),
    ],
)
def test_what_is_no_manifest_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        manifest.parse(data)
