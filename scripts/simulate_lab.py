"""Write the simulated recordings of the lab's exercises for GPUs, or compare them.

    python scripts/simulate_lab.py [NAME...]           write them anew
    python scripts/simulate_lab.py --check [NAME...]   exit 1 where what is kept differs

No GPU took part. Timelines are played by tests/worlds, the counters of kernels by the model in
tests/synth_lab/kernels.py: the slow side with its cause, the other without it, and the same luck.
Nothing in either is tuned to what sightline says of them.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import pickle
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars

ROOT = Path(__file__).resolve().parent.parent
LAB = ROOT / "lab"
SIDES = ("baseline", "improved")
sys.path.insert(0, str(ROOT / "tests"))

from synth_lab import chains, jax, memory, shapes, timelines, watched  # noqa: E402
from synth_lab.cuda_programs import KERNELS  # noqa: E402
from synth_lab.profiles import write_report, write_sqlite, write_timeline  # noqa: E402

Writer = Callable[[Path], None]  # writes all files of an exercise into its folder `recorded`
FUNCTION = re.compile(r"program\.py\(1\): (\w+)")  # as timelines names functions of a program


def write_pair(
    name: str,
    build: timelines.Build,
    cause: str,
    *,
    instead: dict[str, float] | None = None,
    change: Callable[[dict[str, Any], str], None] | None = None,
) -> Writer:
    """Both sides of an exercise, as torch.profiler records them."""

    def write(folder: Path) -> None:
        planted = timelines.plant(build, cause, instead or {})
        for side, causes in zip(SIDES, (planted, instead or {}), strict=True):
            run = timelines.play(build, causes)
            ending = "ranks" if len(run.ranks) > 1 else "json.gz"

            def tell(event: dict[str, Any], side: str = side) -> None:
                if named := FUNCTION.fullmatch(event["name"]):
                    event["name"] = find_function(name, side, named[1])
                elif change:
                    change(event, side)

            timelines.write_trace(run, folder / f"{side}.{ending}", tell)

    return write


def write_profiles(name: str) -> Writer:
    """Both sides of a CUDA program: a timeline, and its kernel under a profiler."""

    def write(folder: Path) -> None:
        *programs, times = KERNELS[name]
        for side, program in zip(SIDES, programs, strict=True):
            place = folder / f"{side}.profiled"
            outcome = write_report(program, place / "kernels.ncu-rep")
            write_timeline(outcome, times, place / "timeline.sqlite")

    return write


def write_repetitions(folder: Path) -> None:
    """Three runs of one program, and three of the same with its loss read in each step."""
    for seed in range(1, 4):
        for name, planted in (("equal", {}), ("slower", {"logging-item": 1.0})):
            run = timelines.play(timelines.train_shallow, planted, seed)
            timelines.write_trace(run, folder / f"{name}{seed}.json.gz")
    for seed in range(4, 7):
        run = timelines.play(timelines.train_shallow, {}, seed)
        timelines.write_trace(run, folder / f"equal{seed}.json.gz")


def write_jobs(folder: Path) -> None:
    """The same work on one, two and four GPUs."""
    for ranks, name in ((1, "one"), (2, "two"), (4, "four")):
        run = timelines.play(timelines.scale_ranks(ranks), {})
        target = folder / name
        timelines.write_trace(run, target / "rank0.json.gz" if ranks == 1 else target)


def write_export(folder: Path) -> None:
    """Training with batches from pageable memory, as Nsight Systems exports it."""
    run = timelines.play(timelines.train_images, {"pageable-copy": 1.0})
    write_sqlite(run, folder / "training.sqlite", annotated=True)


def write_snapshots(folder: Path) -> None:
    """Snapshots of PyTorch's memory, of either side."""
    for side, keeps in zip(SIDES, (True, False), strict=True):
        lines = {
            f: find_line("memory-profiling", side, f) for f in ("make_model", "run_step", "main")
        }
        snapshot = memory.train(f"{side}.py", lines, keeps=keeps)
        folder.mkdir(parents=True, exist_ok=True)
        # Not baseline.pickle: a snapshot has no time that could be compared.
        (folder / f"snapshot-{side}.pickle").write_bytes(pickle.dumps(snapshot, protocol=4))


def write_xplanes(folder: Path) -> None:
    """XLA's profiles of either side."""
    for side, jitted in zip(SIDES, (False, True), strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{side}.xplane.pb").write_bytes(jax.record(jitted))


def find_function(name: str, side: str, function: str) -> str:
    """A function of a side's program, as torch.profiler names it."""
    return f"{side}.py({find_line(name, side, function)}): {function}"


@functools.cache
def find_line(name: str, side: str, function: str) -> int:
    """The line of a function in a side's program."""
    lines = (LAB / name / f"{side}.py").read_text(encoding="utf-8").splitlines()
    (line,) = (n for n, text in enumerate(lines, 1) if text.startswith(f"def {function}("))
    return line


def list_writers() -> dict[str, Writer]:
    """What writes the recordings of each exercise."""
    pairs = (
        ("timeline-basics", timelines.train_transformer, "host-launch", {}),
        ("kernel-overlap", timelines.run_ensemble, "false-serialisation", {}),
        ("memory-timeline", timelines.train_images, "pageable-copy", {}),
        ("multi-gpu-timeline", timelines.train_ranks, "exposed-communication", {}),
        ("item-each-step", timelines.train_transformer, "logging-item", {"logging": 1.0}),
        ("gpu-data-loading", timelines.train_packed_images, "data-loading", {}),
        ("no-tensor-cores", timelines.train_transformer, "no-tensor-cores", {}),
        ("graph-miss", timelines.decode, "graph-miss", {}),
        ("gpu-allocator-churn", timelines.train_deeper, "allocation", {}),
        ("gpu-recompilation", timelines.train_transformer, "recompile", {}),
        ("distributed-pytorch", timelines.train_ranks, "late-rank-data", {}),
        ("communication-overhead", timelines.train_ranks, "small-messages", {}),
    )
    return {
        **{name: write_pair(name, build, cause, instead=i) for name, build, cause, i in pairs},
        "misaligned-shapes": write_pair(
            "misaligned-shapes", shapes.train_decoder, "misaligned", change=shapes.tell_shapes
        ),
        "triton-fusion": write_pair("triton-fusion", chains.run_blocks, "unfused"),
        **{name: write_profiles(name) for name in KERNELS},
        "memory-profiling": write_snapshots,
        "comparison-reports": write_repetitions,
        "strong-scaling": write_jobs,
        "power-measurement": lambda folder: watched.write_log(folder / "nvidia-smi.csv"),
        "energy-efficiency": lambda folder: watched.write_two_limits(folder / "gpu-history"),
        "stats-cli": write_export,
        "jax-dispatch": write_xplanes,
    }


def read_contents(path: Path) -> bytes:
    """What a file holds, apart from how a library packed it."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".parquet":
        return repr(polars.read_parquet(path).rows()).encode()
    if path.suffix == ".sqlite":
        with sqlite3.connect(path) as database:
            return "\n".join(database.iterdump()).encode()
    return path.read_bytes()


def compare_folders(kept: Path, written: Path) -> list[str]:
    """Files that differ, or that only one of the folders has."""
    names = {p.relative_to(f) for f in (kept, written) for p in f.rglob("*") if p.is_file()}
    return sorted(
        str(name)
        for name in names
        if not ((kept / name).is_file() and (written / name).is_file())
        or read_contents(kept / name) != read_contents(written / name)
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    writers = list_writers()
    unknown = set(args.names) - set(writers)
    if unknown:
        parser.error(f"no recordings are simulated for {', '.join(sorted(unknown))}")
    wrong = False
    for name in args.names or writers:
        kept = LAB / name / "recorded"
        with tempfile.TemporaryDirectory() as scratch:
            written = Path(scratch)
            writers[name](written)
            different = compare_folders(kept, written)
            wrong |= bool(different)
            for path in different:
                print(f"{name}/recorded/{path} {'differs' if args.check else 'written'}")
            if different and not args.check:
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(written, kept)
    return 1 if args.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
