"""Why one variant is faster: each of two is recorded once, and both recordings are compared."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sightline.answer.functions import list_hot_functions, rank_functions
from sightline.compare.common_steps import take_common_steps
from sightline.compare.comparison import compare_samples
from sightline.compare.sides import open_side
from sightline.core.model.run import Run
from sightline.errors import MissingDataError, SightlineError
from sightline.experiment.measure import end_group
from sightline.experiment.variants import Variant
from sightline.flames.build import build_stacks
from sightline.opening.run import open_run

# Of a sampled second less is a sample or two more or fewer (ours).
_LEAST_SHARE = 0.05


def choose_sides(data: dict[str, Any]) -> tuple[str, str, bool] | None:
    """Which two to record: the first and the fastest, or the one that differs most from the first.

    And whether the second is the faster one. None where no difference is beyond noise.
    """
    first = data["variants"][0]["name"]
    differing = [
        pair
        for pair in data["differences"]
        if pair["against"] == first and pair["answer"] in ("faster", "slower")
    ]
    if not differing:
        return None
    fastest = [pair for pair in differing if pair["variant"] == data["fastest"]]
    chosen = fastest or [max(differing, key=lambda pair: abs(pair["change_pct"]))]
    return first, chosen[0]["variant"], chosen[0]["answer"] == "faster"


def explain_difference(
    sides: tuple[Variant, Variant],
    folder: Path,
    tell: Callable[[str], None],
    *,
    is_faster: bool,
) -> dict[str, Any]:
    """What one recording of each says of a change that their runs showed, or the `problem`.

    `comparison`, as `compare` has it, where both have a timeline; `functions` with their own time
    where they have stacks only.
    """
    found: dict[str, Any] = {
        "before": sides[0].name,
        "after": sides[1].name,
        "comparison": None,
        "functions": [],
        "problem": None,
    }
    paths = []
    for side, name in zip(sides, ("before", "after"), strict=True):
        tell(side.name)
        path = folder / f"{name}.sightline"
        problem = _record(side, path)
        if problem is not None:
            return {**found, "problem": f"{side.name} could not be recorded: {problem}"}
        paths.append(str(path))
    try:
        before, after = take_common_steps(open_side(paths[:1]), open_side(paths[1:]))
        return {**found, "comparison": compare_samples(before, after)}
    except MissingDataError:
        functions = _compare_functions(paths)
        if not functions:
            problem = "the recordings hold neither a timeline nor call stacks that differ"
            return {**found, "problem": problem}
        if is_opposite(functions, is_faster=is_faster):
            problem = (
                "one recording of each shows the opposite of what the runs show: something else "
                "disturbed it"
            )
            return {**found, "problem": problem}
        return {**found, "functions": functions}
    except SightlineError as error:
        return {**found, "problem": f"the recordings cannot be compared: {error.why or error.what}"}


def is_opposite(functions: Sequence[dict[str, Any]], *, is_faster: bool) -> bool:
    """Whether sampled functions changed the other way than the runs did."""
    change: int = sum(row["after"] - row["before"] for row in functions)
    return change > 0 if is_faster else change < 0


def _list_functions(run: Run) -> list[dict[str, Any]]:
    """The longest functions; by the clock where that was sampled, since runs are compared by it."""
    try:
        stacks = build_stacks(run)
    except MissingDataError:
        return []
    if "wall_time_ns" in stacks.weights and stacks.total("wall_time_ns"):
        return rank_functions(stacks, "wall_time_ns")
    return list_hot_functions(run)


def _compare_functions(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Functions whose own sampled time differs, the largest change first."""
    sides = [
        {(row["short_name"], row["unit"]): row["own"] for row in _list_functions(open_run([p]))}
        for p in paths
    ]
    least = _LEAST_SHARE * max(sum(side.values()) for side in sides)
    rows = []
    for name, unit in {**sides[0], **sides[1]}:
        before, after = (side.get((name, unit), 0) for side in sides)
        if abs(after - before) >= least:
            rows.append({"name": name, "unit": unit, "before": before, "after": after})
    return sorted(rows, key=lambda row: -abs(row["after"] - row["before"]))


def _record(variant: Variant, folder: Path) -> str | None:
    """Record one run, as `sightline run` does; what went wrong, or None."""
    words = [sys.executable, "-m", "sightline", "run", "--no-report", "-o", str(folder), "--"]
    process = subprocess.Popen(  # noqa: S603  # ourselves, around what the person asked for
        [*words, *variant.command],
        env={**os.environ, **variant.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, told = process.communicate()
    except BaseException:
        end_group(process)
        raise
    if folder.exists() and any(folder.iterdir()):
        return None  # what a program that fails left is still what it did
    lines = [line for line in told.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"exit code {process.returncode}"
