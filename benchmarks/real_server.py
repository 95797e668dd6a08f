"""A real vLLM, slow for one reason by its own flags: what comes first, and is its gain realised?

SIGHTLINE_VLLM=FOLDER python benchmarks/real_server.py [--rounds 3] [CAUSE ...]

FOLDER is what `scripts/vllm_cpu.py FOLDER` made. Each cause is recorded with its flags and without
them, in turns. Takes 3 minutes a cause on two free cores.
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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="where the recordings go and stay")
    args = parser.parse_args()
    if not real.FOLDER:
        print(__doc__, file=sys.stderr)
        return 2
    print("| planted | first | with it, s | without, s | gain predicted, s | measured, s | off |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as place:
        for name in args.causes:
            pairs = real.compare(
                real.CAUSES[name], (args.keep or Path(place)) / name.replace(" ", "-"), args.rounds
            )
            _print_row(name, pairs)
    return 0


def _print_row(name: str, pairs: list[tuple[real.Measured, real.Measured]]) -> None:
    told = real.summarize(pairs)
    rules = Counter(planted.rule for planted, _ in pairs)
    first = ", ".join(f"`{rule}` {n} of {len(pairs)}" for rule, n in rules.most_common())
    off = 100 * (told["predicted_s"] / told["measured_s"] - 1)
    sides = " | ".join(
        f"{told[f'{side}_s']:.2f} (± {told[f'{side}_spread_pct'] / 2:.0f} %)"
        for side in ("planted", "without")
    )
    print(
        f"| {name} | {first} | {sides} | {told['predicted_s']:.2f} | {told['measured_s']:.2f} "
        f"| {off:+.0f} % |",
        flush=True,
    )
    for planted, _ in pairs:
        made, got = real.count_tokens(planted.run)
        first_pct, rest_pct = real.find_unexplained(planted.run)
        print(
            f"  tokens {made} = {got}; no step or gap: {first_pct:.2f} % of TTFT, "
            f"{rest_pct:.2f} % of the rest; gain {planted.gain_ns / 1e9:.2f} s",
            file=sys.stderr,
        )


if __name__ == "__main__":
    raise SystemExit(main())
