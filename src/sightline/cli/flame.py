"""A flame graph: all code, CPU and GPU, proportional to what it costs.

  sightline flame trace.json -o flame.svg              GPU time under what launched it
  sightline flame trace.json --weight gpu_idle_ns -o idle.svg
  sightline flame trace.json --order why -o why.svg    reason first, then who called it
  sightline flame trace.json -o out.folded             for flamegraph.pl and others

The ending of -o decides the form: .svg, .folded, .speedscope.json, .pb.gz (pprof).
"""

from __future__ import annotations

import argparse

from sightline.cli._shared import add_recordings, open_run

HELP = "a flame graph from the Python line to the stall"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write; else folded text")
    parser.add_argument(
        "--weight", metavar="W",
        help="gpu_time_ns, exposed_ns, gpu_idle_ns, cpu_time_ns, samples, latency_samples, bytes",
    )  # fmt: skip
    parser.add_argument(
        "--order", choices=["how", "why"], default="how",
        help="how: from the root to the stall; why: from the reason to who called it",
    )  # fmt: skip
    parser.add_argument(
        "--layers", metavar="L,L", help="only frames of these layers, such as op,kernel"
    )
    parser.add_argument(
        "--palette", choices=["gpu", "safe"], default="gpu", help="safe: for colour-blind people"
    )
    parser.add_argument("--icicle", action="store_true", help="root at the top")


def run(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.errors import InputError, RequestError
    from sightline.flames import stacks as table
    from sightline.flames.build import build, chosen_weight
    from sightline.flames.layers import INDEX

    opened = open_run(args)
    built = build(opened)
    weight = chosen_weight(built, args.weight)
    if args.layers:
        wanted = [name.strip() for name in args.layers.split(",")]
        unknown = [name for name in wanted if name not in INDEX]
        if unknown:
            raise RequestError(
                f"there is no layer '{unknown[0]}'", why=f"there are {', '.join(INDEX)}"
            )
        built = table.kept(built, wanted)
    if args.order == "why":
        built = table.why(built)
    title = Path(opened.table("recordings").item(0, "path")).name
    data = _write(built, weight, title, args)
    if args.output is None:
        sys.stdout.write(data.decode())
        return 0
    try:
        Path(args.output).write_bytes(data)
    except OSError as error:
        raise InputError(f"cannot write {args.output}", why=error.strerror) from error
    grades = ", ".join(f"{g} {p:.1f} %" for g, p in built.shares(weight).items())
    print(f"{args.output} written ({weight}; joined: {grades})", file=sys.stderr)
    return 0


def _write(built: object, weight: str, title: str, args: argparse.Namespace) -> bytes:
    from sightline.errors import RequestError
    from sightline.flames import folded, pprof, speedscope, svg
    from sightline.flames.stacks import Stacks

    assert isinstance(built, Stacks)
    name = (args.output or ".folded").lower()
    if name.endswith(".svg"):
        picture = svg.write(built, weight, title, palette=args.palette, icicle=args.icicle)
        return picture.encode()
    if name.endswith((".folded", ".txt")):
        return folded.write(built, weight).encode()
    if name.endswith(".json"):
        return speedscope.write(built, weight, title).encode()
    if name.endswith((".pb.gz", ".pprof")):
        return pprof.write(built)
    raise RequestError(
        f"cannot write {args.output}",
        why="its ending must be .svg, .folded, .speedscope.json or .pb.gz",
    )
