"""The program of known.c, what samples of it say, and whether the kernel lets it be sampled."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.own import sightline_stacks
from sightline.record.sampling.events import find_obstacle
from sightline.record.sampling.sampler import StackSampler

HERE = Path(__file__).parent


@cache
def obstacle() -> str | None:
    return find_obstacle()


def needs_sampling() -> None:
    """Skip a test, with the exact reason, where the kernel samples nothing."""
    if (why := obstacle()) is not None:
        pytest.skip(f"perf_event: {why}")


def build_known(folder: Path) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    program = folder / "known"
    options = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-rdynamic"]
    subprocess.run(
        ["cc", *options, "-o", program, HERE / "known.c", "-lpthread"],
        check=True,
        capture_output=True,
    )
    return program


def sample(path: Path, *command: str | Path, **options: Any) -> tuple[Imported, str, Any]:
    """Run a program from its gate on, sampled; what was recorded, its output, what it used."""
    gate, opener = os.pipe()
    said, tell = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover
        os.close(opener)
        os.read(gate, 1)
        os.dup2(tell, 1)
        os.execvp(command[0], [str(word) for word in command])
    os.close(tell)
    sampler = StackSampler(path, options.pop("hz", 997), on_exec=True, **options)
    sampler.attach([pid])
    sampler.start()
    os.close(gate)
    os.write(opener, b"!")
    os.close(opener)
    with os.fdopen(said) as stream:
        text = stream.read()
    _, _, used = os.wait4(pid, 0)
    problem = sampler.stop()
    assert problem is None, problem
    return read(path), text, used


def read(path: Path) -> Imported:
    return sightline_stacks.read(Source(path, path.name), ImportOptions())


def list_paths(imported: Imported) -> pl.DataFrame:
    """Each sample with its path: names of frames, root first."""
    frames, stacks = imported.tables["frames"], imported.tables["stacks"]
    named = stacks.join(frames.select("frame_id", "function", "layer"), on="frame_id")
    rows = {row["stack_id"]: row for row in named.iter_rows(named=True)}
    paths: dict[int, list[str]] = {}
    for stack, row in sorted(rows.items()):
        above = [] if row["parent_id"] is None else paths[row["parent_id"]]
        paths[stack] = [*above, row["function"]]
    samples = imported.tables["cpu_samples"]
    lookup = pl.DataFrame(
        {"stack_id": list(paths), "path": list(paths.values())},
        schema={"stack_id": pl.Int64, "path": pl.List(pl.String)},
    )
    return samples.join(lookup, on="stack_id", how="left", maintain_order="left")


def facts_of(path: Path) -> dict[str, Any]:
    return sightline_stacks._read_file(Source(path, path.name)).facts
