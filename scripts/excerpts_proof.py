"""Compare causes from excerpts with those of the whole run, on recordings small enough for both.

    .venv/bin/python scripts/excerpts_proof.py [--corpus FOLDER] [--seeds N] [--show]

Recordings are those of the corpus (Kineto, Nsight Systems), of both simulators of tests/ and copies
of a trace as benchmarks/make_trace.py writes them; each that has steps enough is asked in full and
from excerpts (tests/support/excerpts.py). Exits with 1 where the first finding is another one in
more than 1 %, or its cost outside of the stated range in more than 5 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks"), str(ROOT / "scripts")]

import make_trace  # noqa: E402
from diagnose_worlds import write_case  # noqa: E402

from sightline.errors import SightlineError  # noqa: E402
from support.excerpts import compare_causes  # noqa: E402
from synth import SCENARIOS, kineto, simulate  # noqa: E402
from worlds import plans  # noqa: E402
from worlds.causes import CAUSES  # noqa: E402
from worlds.truth import make_case  # noqa: E402

# The programs of tests/worlds take so many times the steps that they have by themselves, 6 to 14.
LONGER = 3
MOST_BYTES = 20_000_000
# Scenarios of one rank that mark their steps; their defaults are too few steps for excerpts.
STEPS = (12, 30)
COPIES = 6


def list_corpus(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Traces of PyTorch and exports of Nsight Systems in the corpus."""
    for kind, endings in (("kineto", (".json", ".json.gz")), ("nsys", (".sqlite",))):
        for path in sorted((folder / kind).rglob("*")):
            if path.name.endswith(endings) and path.stat().st_size <= MOST_BYTES:
                yield f"corpus, {kind}", [str(path)]


def list_synth(seeds: int, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The programs of tests/synth that have one rank, with more steps than by themselves."""
    for name in SCENARIOS:
        for seed in range(seeds):
            for steps in STEPS:
                target = folder / f"{name}-{seed}-{steps}"
                try:
                    run = simulate(name, steps=steps, seed=seed)
                except TypeError:  # a program that draws how many it has
                    break
                if len(run.ranks) == 1:
                    paths = kineto.write(run, target, "2025")
                    yield "tests/synth", [str(path) for path in paths]


def list_copies(_seeds: int, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Copies of a trace of each of them, one behind the other."""
    for name in SCENARIOS:
        base = kineto.write(simulate(name, seed=0), folder / f"{name}-base", "2025")
        if len(base) == 1:
            target = folder / f"{name}.copies.json"
            make_trace.write(target, COPIES * Path(base[0]).stat().st_size, Path(base[0]))
            yield "benchmarks/make_trace.py", [str(target)]


def list_worlds(seeds: int, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The programs of tests/worlds with each cause, for more steps than by themselves."""
    for name in ("transformer", "resnet", "graph_net", "recommender", "unet", "decoder"):
        setattr(plans, name, _lengthen(getattr(plans, name)))
    for cause in CAUSES.values():
        for program in cause.programs:
            for seed in range(seeds):
                form = "nsys" if seed % 2 or "nvidia" not in cause.vendors else "kineto-new"
                if cause.formats and form not in cause.formats:
                    continue
                case = make_case(program, (cause.name,), seed, "nvidia")
                target = folder / f"world-{cause.name}-{program}-{seed}"
                target.mkdir()
                yield "tests/worlds", write_case(case, form, target)


def _lengthen(make: Callable[..., plans.Model]) -> Callable[..., plans.Model]:
    """The same plan of a model, for more steps."""

    def longer(*given: Any, **named: Any) -> plans.Model:
        model = make(*given, **named)
        return dataclasses.replace(model, steps=LONGER * model.steps)

    return longer


def main() -> int:
    """Ask all, print a row for each source, and say whether both shares hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="each that differs")
    parser.add_argument("--only", default="", help="synth, make_trace, worlds or corpus")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so many")
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    with tempfile.TemporaryDirectory() as folder:
        for source, paths in _chain(given, Path(folder)):
            if time.monotonic() > until:
                break
            row = counts[source]
            try:
                found = compare_causes(paths)
            except SightlineError:
                continue
            if found is None:
                row[0] += 1
                continue
            row[1] += 1
            row[2] += found.is_same
            row[3] += found.is_inside is not None
            row[4] += bool(found.is_inside)
            if given.show and not (found.is_same and found.is_inside in (None, True)):
                print(
                    f"{source}: {Path(paths[0]).parent.name}/{Path(paths[0]).name}: {found}",
                    flush=True,
                )
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    print(f"{'source':28}{'not divided':>12}{'asked':>8}{'same':>8}{'ranges':>8}{'inside':>8}")
    for source, row in counts.items():
        print(f"{source:28}{row[0]:12}" + "".join(f"{n:8}" for n in row[1:]))
    _, asked, same, ranges, inside = counts["all"]
    return 0 if asked and same >= 0.99 * asked and inside >= 0.95 * ranges else 1


def _chain(given: argparse.Namespace, folder: Path) -> Iterator[tuple[str, list[str]]]:
    for name, make in (("synth", list_synth), ("make_trace", list_copies), ("worlds", list_worlds)):
        if given.only in name:
            yield from make(given.seeds, folder)
    if given.only in "corpus":
        yield from list_corpus(given.corpus)


if __name__ == "__main__":
    sys.exit(main())
