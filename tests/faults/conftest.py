"""The drill's own modules can be imported by their names, as in the processes that it starts."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
