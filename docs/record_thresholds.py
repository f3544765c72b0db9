"""Runs the pilot that sets the thresholds of training time, and writes them down.

About five minutes on two cores. Claims judged with other thresholds than the released ones are judged by other rules:
raise the version of the claims (`runs/provenance.py`) before the next confirmatory run.
"""

import sys
from pathlib import Path

from srgdqn.paper import evidence
from srgdqn.paper.cells import QUIET
from srgdqn.paper.confirmation import pilot_thresholds, thresholds_json
from srgdqn.runs.destination import write_file

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "results")
    file = Path(str(evidence.__file__)).with_name("thresholds.json")
    print(write_file(file, thresholds_json(pilot_thresholds(folder, QUIET)).encode()))
