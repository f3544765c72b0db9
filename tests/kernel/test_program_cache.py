import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from srgdqn.kernel import program_cache

PROGRAM = """
import jax, sys
from srgdqn.program_cache import enable_program_cache
enable_program_cache()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # however fast the machine is
compiled = []
jax.monitoring.register_event_listener(lambda name, **_: compiled.append(name))
jax.jit(lambda x: [x := jax.numpy.sin(x @ x) for _ in range(5)])(jax.numpy.ones((9, 9)))
print(sum("cache_hits" in name for name in compiled), jax.config.values["jax_compilation_cache_dir"])
"""


def run(cache: str, home: Path) -> tuple[int, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_COMP", "XDG_CACHE"))}
    environment = {**clean, "SRGDQN_CACHE": cache, "HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    hits, folder = done.stdout.split()
    return int(hits), folder


def test_a_second_process_loads_what_the_first_compiled(tmp_path: Path) -> None:
    place = tmp_path / "programs"
    assert run(str(place), tmp_path)[0] == 0
    hits, folder = run(str(place), tmp_path)
    assert hits > 0
    assert Path(folder).parent == place


@pytest.mark.parametrize("cache", ["off", "/proc/nowhere"])
def test_off_or_in_a_place_that_cannot_be_written_nothing_is_stored(
    cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRGDQN_CACHE", cache)
    monkeypatch.setenv("HOME", str(tmp_path))
    before = jax.config.values["jax_compilation_cache_dir"]
    try:
        jax.config.update("jax_compilation_cache_dir", None)
        program_cache.enable_program_cache()
        assert jax.config.values["jax_compilation_cache_dir"] is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert list(tmp_path.iterdir()) == []


def test_another_processor_has_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SRGDQN_CACHE", raising=False)
    here = program_cache.cache_folder()
    monkeypatch.setattr(program_cache, "processor_fingerprint", lambda: "another")
    assert program_cache.cache_folder() != here
