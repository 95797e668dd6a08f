"""A real vLLM, slow for one reason by its own flags: what comes first, and is its gain realised?

SIGHTLINE_VLLM=FOLDER python benchmarks/real_server.py [--passes 4] [--rounds 3] [CAUSE ...]

FOLDER is what `scripts/vllm_cpu.py FOLDER` made. The same load is sent to a server with the flags
and to one without, in turns: first in passes that nobody records, then recorded by `sightline run
--server`. What the first finding promises, of the load's length, stands beside what the passes
take less: the worker's processor time, or the wall's of a cause that sleeps. A minute a cause and
pass on free cores.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import real_server as real  # noqa: E402


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("causes", nargs="*", default=list(real.CAUSES))
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="where the recordings go and stay")
    args = parser.parse_args()
    if not real.FOLDER:
        print(__doc__, file=sys.stderr)
        return 2
    print("| planted | first | gain predicted | measured | from pass to pass | off |")
    print("|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as place:
        for name in args.causes:
            folder = (args.keep or Path(place)) / name.replace(" ", "-")
            made = real.compare(real.CAUSES[name], folder, args.passes, args.rounds)
            _print_row(name, made)
    return 0


def _print_row(name: str, made: real.Compared) -> None:
    predicted, measured, spread = real.summarize(real.CAUSES[name], made)
    rules = Counter(planted.rule for planted, _ in made.pairs)
    first = ", ".join(f"`{rule}` {n} of {len(made.pairs)}" for rule, n in rules.most_common())
    print(
        f"| {name} | {first} | {predicted:.1f} % | {measured:.1f} % | {spread:.1f} % "
        f"| {100 * (predicted / measured - 1):+.0f} % |",
        flush=True,
    )
    for a, b in made.passes:
        print(
            f"  wall {a.wall_s:.2f} s, {b.wall_s:.2f} s without; worker {a.processor_s:.2f} s, "
            f"{b.processor_s:.2f} s without",
            file=sys.stderr,
        )
    for planted, _ in made.pairs:
        tokens = real.count_tokens(planted.run)
        first_pct, rest_pct = real.find_unexplained(planted.run)
        print(
            f"  tokens {tokens[0]} = {tokens[1]}; no step or gap: {first_pct:.2f} % of TTFT, "
            f"{rest_pct:.2f} % of the rest; gain {planted.gain_ns / 1e9:.2f} s of "
            f"{planted.length_ns / 1e9:.2f} s",
            file=sys.stderr,
        )


if __name__ == "__main__":
    raise SystemExit(main())
