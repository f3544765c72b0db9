"""The kernel is tested where it can be compiled."""

import pytest

from srgdqn.native.build import NoKernelError, library


@pytest.fixture(scope="session")
def kernel() -> None:
    """Skips what needs the kernel on machines without a C compiler."""
    try:
        library()
    except NoKernelError as reason:
        pytest.skip(str(reason))
