"""What all tests share: the reference can be imported, and hypothesis tries the same examples every time."""

import sys
from pathlib import Path

import hypothesis

sys.path.insert(0, str(Path(__file__).parent))

# No deadline: the first example of a shape pays for compiling it.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("repeatable")
