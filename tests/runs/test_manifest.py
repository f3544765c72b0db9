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


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not the manifest of a run"),
        (b"{}", "not the manifest of a run"),
        (b'{"kind": "other"}', "not the manifest of a run"),
        (b'{"kind": "srgdqn-run"}', "digest"),
        (b'{"kind": "srgdqn-run", "version": 1, "provenance": {}, "files": {}, "sha256": "0"}', "digest"),
        (b'{"kind": "srgdqn-run", "version": 1, "provenance": {"a": NaN}, "files": {}}', "not JSON"),
        (sealed(dict(kind="srgdqn-run", version=True, provenance={}, files={})), "digest"),
        (sealed(dict(kind="srgdqn-run", version=0, provenance={}, files={})), "digest"),
        (sealed(dict(kind="srgdqn-run", version=1, provenance={})), "incomplete"),
        (sealed(dict(kind="srgdqn-run", version=1, files={})), "incomplete"),
        (sealed(dict(kind="srgdqn-run", version=1, provenance=[], files=[])), "incomplete"),
        (sealed(dict(kind="srgdqn-run", version=1, provenance=3, files={})), "incomplete"),
        (sealed(dict(kind="srgdqn-run", version=1, provenance={}, files={"a": 3})), "incomplete"),
        (sealed(dict(kind="srgdqn-run", version=1, provenance={}, files={"a": {"sha256": "0"}})), "incomplete"),
        (
            sealed(dict(kind="srgdqn-run", version=1, provenance={}, files={"a": {"sha256": "0", "size": "x"}})),
            "incomplete",
        ),
    ],
)
def test_what_is_no_manifest_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        manifest.parse(data)


def test_a_newer_format_asks_for_an_upgrade() -> None:
    with pytest.raises(manifest.NewerFormatError, match=r"version 2 .* up to version 1\. Upgrade srgdqn\."):
        manifest.parse(sealed(dict(kind="srgdqn-run", version=2, shape="unheard of")))


@pytest.mark.parametrize(
    ("kind", "called"),
    [(manifest.RUN, "a run"), (manifest.MEASUREMENT, "a measurement"), (manifest.UNFINISHED_RUN, "a run under way")],
)
def test_another_kind_is_told_of_by_what_was_expected(kind: str, called: str) -> None:
    other = manifest.MEASUREMENT if kind == manifest.RUN else manifest.RUN
    with pytest.raises(InputError, match=rf"^not the manifest of {called} \(its kind should be '{kind}'\)$"):
        manifest.parse(manifest.render(FILES, {}, other), kind)
