"""Makes the wall clock of a process jump by hours and years, back and forth, whenever it is looked at."""

import itertools
import os
import time

_JUMPS = itertools.cycle((0.0, 3600.0, -86400.0, 3.2e7, -3.2e7, -1.0, 7200.0))
_time, _time_ns = time.time, time.time_ns

if os.environ.get("SRGDQN_DRILL_CLOCK"):
    time.time = lambda: _time() + next(_JUMPS)
    time.time_ns = lambda: _time_ns() + int(next(_JUMPS) * 1e9)
