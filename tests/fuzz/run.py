"""Fuzzing of everything that is read from files: `python tests/fuzz/run.py --inputs 20000 --seed 0`.

Every input is an instance of one of the project's own formats that was changed; reading it must end in an `InputError`
or in something that can be used, within limits of time and memory, with nothing run, written or started. What fails is
stored as a file, and read again by `--replay FILE`. Input number n of a format is the same for the same seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.campaign import Tally, campaign, replay
from fuzz.corpus import FORMATS, make_corpus

# Shares of all inputs; those of an agent take longer, as programs of other shapes are compiled for them.
SHARES = {"run": 5, "host-run": 3, "agent": 1, "measurement": 3, "sweep": 2, "live": 3, "evidence": 2}


def shares(inputs: int, formats: tuple[str, ...] = FORMATS) -> list[tuple[str, int]]:
    """How many inputs of each format there are."""
    total = sum(SHARES.get(kind, 2) for kind in formats)
    return [(kind, -(-inputs * SHARES.get(kind, 2) // total)) for kind in formats]


def main() -> int:
    """Runs a campaign, or reads one input again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000, help="over all formats")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=FORMATS, default=list(FORMATS), help="formats")
    parser.add_argument("--failures", type=Path, default=Path("build/fuzz"), help="where failing inputs are stored")
    parser.add_argument("--replay", type=Path, help="an input that was stored")
    parser.add_argument("--json", type=Path, help="where the counts are written to")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="corpus-") as scratch:
        corpus = make_corpus(Path(scratch) / "corpus")
        if asked.replay is not None:
            print(json.dumps(replay(corpus, asked.replay), indent=1))
            return 0
        began = time.monotonic()
        tallies = campaign(
            corpus, shares(asked.inputs, tuple(asked.only)), asked.seed, asked.failures, progress=_progress
        )
    seconds = time.monotonic() - began
    print(_table(tallies, seconds))
    if asked.json is not None:
        asked.json.write_text(json.dumps({kind: dict(tally.outcomes) for kind, tally in tallies.items()}, indent=1))
    failed = [failure for tally in tallies.values() for failure in tally.failures]
    if failed:
        print(f"\n{len(failed)} inputs failed; they are in {asked.failures}. The first of them:\n")
        print("\n\n".join(failed[:20]))
    return int(bool(failed))


def _progress(kind: str, number: int, count: int, tally: Tally) -> None:
    if number == count or number % 500 == 0:
        print(f"{kind}: {number} of {count}, {len(tally.failures)} failed", file=sys.stderr, flush=True)


def _table(tallies: dict[str, Tally], seconds: float) -> str:
    lines = ["| format | inputs | refused | read | read, of no use | failed | slowest, s | most memory, MiB |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|--:|")
    for kind, tally in tallies.items():
        counts = (tally.outcomes[each] for each in ("refused", "read", "read, of no use", "failed"))
        cells = " | ".join(f"{each:,}" for each in (tally.inputs, *counts))
        lines.append(f"| {kind} | {cells} | {tally.slowest:.1f} | {tally.most / 2**20:.0f} |")
    total = sum(tally.inputs for tally in tallies.values())
    return "\n".join(lines) + f"\n\n{total:,} inputs in {seconds / 60:.1f} minutes"


if __name__ == "__main__":
    sys.exit(main())
