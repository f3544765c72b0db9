"""SRG-DQN here and in plain PyTorch, in one run, both using every core; and how time and memory grow with rounds.

    python benchmarks/throughput.py [--quick] [--out benchmarks/throughput.json]

What is compared is aggregate environment steps per second once learning is under way: 50 rounds as lanes here, one
process per core there. The two are measured in turns, because a shared machine's speed drifts; ratios are of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROUNDS = 50
HIDDEN = ((20, 20), (20,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer turns, fewer steps, no growth")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("throughput.json"))
    options = parser.parse_args()
    turns, plain_steps, steps = (1, 800, 20_000) if options.quick else (3, 4_000, 50_000)

    from srgdqn.store.provenance import provenance

    report: dict = {"machine": provenance(), "rounds": ROUNDS, "turns": turns, "comparison": [], "growth": []}
    for hidden in HIDDEN:
        row = compare(hidden, turns, plain_steps, steps)
        report["comparison"].append(row)
        print(
            f"hidden {'+'.join(map(str, hidden)):6s} srgdqn {row['ours']:>11,.0f} steps/s   plain PyTorch "
            f"{row['plain']:>7,.0f} steps/s   ratio {row['ratio']:,.0f}   compile {row['compile_seconds']:.1f} s",
            flush=True,
        )
    for rounds in () if options.quick else (1, 4, 16, 25, 50, 100, 200, 400, 1_000):
        row = grow(rounds)
        report["growth"].append(row)
        print(
            f"{rounds:5d} rounds {row['seconds']:8.2f} s   {row['seconds'] / rounds * 1e3:8.1f} ms per round   "
            f"peak {row['peak_mib']:7.0f} MiB",
            flush=True,
        )
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written to {options.out}")


def compare(hidden: tuple[int, ...], turns: int, plain_steps: int, steps: int) -> dict:
    ours, plain, compiled = [], [], None
    for _ in range(turns):
        plain.append(plain_rate(hidden, plain_steps))
        rate, seconds = our_rate(hidden, steps)
        ours.append(rate)
        compiled = compiled if compiled is not None else seconds
    return {
        "hidden": hidden,
        "ours": statistics.median(ours),
        "plain": statistics.median(plain),
        "ratio": statistics.median(ours) / statistics.median(plain),
        "ours_turns": ours,
        "plain_turns": plain,
        "compile_seconds": compiled,
    }


def plain_rate(hidden: tuple[int, ...], steps: int) -> float:
    """One process per core, each training a round of its own; their rates added up."""
    from plain_pytorch import train_round
    from srgdqn.cores import usable_cores

    cores = usable_cores()
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        seconds = list(pool.map(train_round, range(cores), [hidden] * cores, [steps] * cores))
    return sum(steps / each for each in seconds)


def our_rate(hidden: tuple[int, ...], steps: int) -> tuple[float, float]:
    """All rounds on every core, in a process of its own; compiling apart. Also the seconds of compiling."""
    return tuple(_in_process("rate", list(hidden), steps))  # type: ignore[return-value]


def grow(rounds: int) -> dict:
    seconds, peak = _in_process("growth", [20], 20_000, rounds)
    return {"rounds": rounds, "steps": 20_000, "seconds": seconds, "peak_mib": peak}


def _in_process(what: str, hidden: list[int], steps: int, rounds: int = ROUNDS) -> list[float]:
    command = [sys.executable, __file__, "--child", json.dumps([what, hidden, steps, rounds])]
    # No cache of compiled programs: compiling is measured, too.
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    answer = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return json.loads(answer.splitlines()[-1])


def child(what: str, hidden: list[int], steps: int, rounds: int) -> None:
    import resource

    import srgdqn

    options = dict(rounds=rounds, hidden=tuple(hidden), evaluation_interval=None, learning_starts=64)
    warm = srgdqn.train("MountainCar", "srg-dqn", steps=2_000, **{**options, "rounds": 1})
    start = time.perf_counter()
    srgdqn.train("MountainCar", "srg-dqn", steps=steps, **options)
    seconds = time.perf_counter() - start
    compiled = warm.timings.filter(warm.timings["phase"] == "compile")["seconds"].sum()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([rounds * steps / seconds, compiled] if what == "rate" else [seconds, peak]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*json.loads(sys.argv[2]))
    else:
        main()
