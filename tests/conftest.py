"""What all tests share: the reference can be imported, and hypothesis tries the same examples every time."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before jax is imported, and for the processes that tests start: where programs are stored (JAX_COMPILATION_CACHE_DIR)
# nearly all of them are, not only those that took a second to compile.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")

import hypothesis
import jax
import pytest

sys.path.insert(0, str(Path(__file__).parent))

# A shell's background jobs inherit that Ctrl-C is ignored, which tests of Ctrl-C must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: the first example of a shape pays for compiling it.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("repeatable")


_MAPS = Path("/proc/self/maps")
_MANY = 20_000
"""Parts of memory that a process has mapped. Linux grants 65,530, every compiled program takes some, and XLA crashes
where it gets none.
"""


@pytest.fixture(autouse=True, scope="module")
def forgotten_programs() -> Iterator[None]:
    """Forgets compiled programs before there are too many in a process."""
    yield
    if _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MANY:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def kernel() -> None:
    """Skips what needs the fused kernel on machines that cannot compile it."""
    from srgdqn.kernel.build import NoKernelError, library

    try:
        library()
    except NoKernelError as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=["xla", "native"])
def each_kernel(request: pytest.FixtureRequest) -> str:
    """What runs the loop, one after the other."""
    if request.param == "native":
        request.getfixturevalue("kernel")
    return str(request.param)


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """Grows with every program that XLA compiles, or finds in a cache on disk."""
    seen: list[str] = []

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a compiled run with all its checkpoints, for tests that only read it."""
    from checkpointed_runs import checkpointed_run

    folder = tmp_path_factory.mktemp("compiled") / "run"
    checkpointed_run(folder, kernel="xla")
    return folder


@pytest.fixture(scope="session")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of a run on the host."""
    from checkpointed_runs import hosted_run

    folder = tmp_path_factory.mktemp("hosted") / "run"
    hosted_run(folder, kernel="xla")
    return folder
