"""How time and memory grow with rounds: SRG-DQN, hidden 20, in a process of its own for each number of rounds.

    python benchmarks/throughput.py [--quick] [--out benchmarks/throughput.json]

Compiling is excluded. How fast others are is measured in `peers.py`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from measuring import circumstances, without_a_cache_of_programs

ROUNDS = (1, 4, 16, 25, 50, 100, 200, 400, 1_000)
STEPS = 20_000
LIMIT = 600.0  # seconds for any process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds only")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("throughput.json"))
    options = parser.parse_args()

    report: dict = {"circumstances": circumstances(), "growth": []}
    for rounds in ROUNDS[:2] if options.quick else ROUNDS:
        row = grow(rounds)
        report["growth"].append(row)
        print(
            f"{rounds:5d} rounds {row['seconds']:8.2f} s   {row['seconds'] / rounds * 1e3:8.1f} ms per round   "
            f"peak {row['peak_mib']:7.0f} MiB",
            flush=True,
        )
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written to {options.out}")


def grow(rounds: int) -> dict:
    command = [sys.executable, __file__, "--child", str(rounds)]
    answer = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        env=without_a_cache_of_programs(),
    )
    return json.loads(answer.stdout.splitlines()[-1])


def child(rounds: int) -> None:
    import resource

    import srgdqn

    options = dict(hidden=(20,), evaluation_interval=None, learning_starts=64)
    srgdqn.train("MountainCar", "srg-dqn", rounds=1, steps=2_000, **options)  # compiles
    start = time.perf_counter()
    srgdqn.train("MountainCar", "srg-dqn", rounds=rounds, steps=STEPS, **options)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rounds": rounds, "steps": STEPS, "seconds": seconds, "peak_mib": peak}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(int(sys.argv[2]))
    else:
        main()
