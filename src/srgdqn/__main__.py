"""`python -m srgdqn` is the command line."""

import sys

from srgdqn.cli import main

sys.exit(main())
