"""A real vLLM that prefills and one that decodes: do the parts sum to the client's latency?

SIGHTLINE_VLLM=FOLDER python benchmarks/real_servers_apart.py [--rounds 3] [--requests 24]
                                                              [--clients 4] [--keep FOLDER]

FOLDER is what `scripts/vllm_cpu.py FOLDER` made. vLLM's own ExampleConnector moves keys and values
through files, a proxy sends each prompt to the first server for one token, and then to the second.
Both are recorded while clients ask the proxy, and `sightline stats request_story` joins the two
traces with the client's log: once with Python's stacks, which have the connector's functions, and
without them, as servers are recorded. One row for each recording.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import polars as pl

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import real_apart as apart  # noqa: E402
from support import real_server as real  # noqa: E402

PARTS = ("prefill", "transfer", "decode", "delivery")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--keep", type=Path, help="where the recordings go and stay")
    args = parser.parse_args()
    if not real.FOLDER:
        print(__doc__, file=sys.stderr)
        return 2
    print("| recorded | latency, median, ms | " + " | ".join(f"{part}, %" for part in PARTS)
          + " | told, %, least to most | moved by | clocks moved, ms |")  # fmt: skip
    print("|---|---|" + "---|" * len(PARTS) + "---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as place:
        for name, with_stack in (("without stacks", False), ("with stacks", True)):
            folder = (args.keep or Path(place)) / name.replace(" ", "-")
            with apart.serve(folder, with_stack=with_stack) as pair:
                apart.warm_up(pair, args.clients)
                load = apart.make_load(folder, args.requests, args.clients)
                for number in range(args.rounds):
                    _print_row(name, apart.open_both(apart.record(pair, f"r{number}", load)))
    return 0


def _print_row(name: str, run: apart.sightline.Session) -> None:
    rows = run.ask("request_story")
    shares = [
        rows.select((100 * pl.col(f"{part}_ns") / pl.col("latency_ns")).median()).item()
        for part in PARTS
    ]
    told = rows["told_pct"]
    clocks = [rows.item(0, f"{side}_offset_ns") / 1e6 for side in ("prefill", "decode")]
    print(
        f"| {name} | {rows['latency_ns'].median() / 1e6:.1f} | "  # type: ignore[operator]
        + " | ".join(f"{share:.2f}" for share in shares)
        + f" | {told.min():.2f} to {told.max():.2f} of {rows.height} | {rows.item(0, 'moved_by')} "
        f"| {clocks[0]:.3f}, {clocks[1]:.3f} |",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
