import os

import pytest

from srgdqn.errors import InputError
from srgdqn.runs.memory_limit import check_room, most_bytes, most_decoded


def test_a_file_may_ask_for_a_share_of_the_machine() -> None:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert most_bytes() == whole // 3


def test_a_small_file_may_ask_for_little_and_a_large_one_for_more() -> None:
    assert most_decoded(0) == 2**26
    assert most_decoded(10**5) == 2**26 + 10**7
    assert most_decoded(2**60) == most_bytes()


def test_what_is_too_much_is_told_before_it_is_taken() -> None:
    check_room(100, "this", 100)
    with pytest.raises(InputError, match="this would take 2,048 MiB of memory, and 1 MiB are the most"):
        check_room(2**31, "this", 2**20)
    with pytest.raises(InputError, match="more than an exbibyte"):
        check_room(10**30, "this")
    with pytest.raises(InputError):
        check_room(float("nan"), "this")
