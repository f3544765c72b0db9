"""The kernel is tested where it can be compiled."""

import pytest

from srgdqn.native.build import Unavailable, library


@pytest.fixture(scope="session")
def kernel() -> None:
    """Skips what needs the kernel on machines without a C compiler."""
    try:
        library()
    except Unavailable as reason:
        pytest.skip(str(reason))
