"""What CPU stacks say where nothing else was recorded: which functions ran, and who waited.

A stack's time belongs to the function that it ends in. Where that is one of the standard library or
of an installed package, the nearest function above it that is the program's own is what a person
can change.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.algebra.scalars import sum_column
from sightline.core.algebra.trees import climb_to_rows
from sightline.core.model.run import Run
from sightline.timeline.gpu_stacks import OF_GPU
from sightline.timeline.host_functions import ASLEEP, find_host_functions, list_host_functions

_TRACE = ["rank", "recording_id"]
_FUNCTION = ["layer", "function", "file", "module"]
# Metrics of `stack_weights` that are of the CPU, the one in time first.
_METRICS = ("cpu_time_ns", "samples")
_WALL = ("wall_time_ns",)
_WAITING = {"value": pl.Int64, "looped": pl.Int64, "whole": pl.Int64}
# Where packages are installed, and the standard library lies (site and sysconfig of CPython). What
# stands in angle brackets is no file: <frozen importlib>, or <string> of a dataclass's methods. Our
# recorder in the program is none of it either, wherever it is installed.
_RECORDER = r"(?:^|/)sightline/record/inline/"
_FOREIGN = (
    rf"(?:^|/)(?:site|dist)-packages/|(?:^|/)python3(?:\.\d+t?|\d{{1,3}})?/(?:lib/)?|^<|{_RECORDER}"
)
_CELL = r"^<ipython-input-"  # of IPython in a terminal; a notebook's cells are files
# Python's import system, PyTorch's loader of data, and all of PyTorch.
_IMPORTING = r"^<frozen importlib"
_LOADING = r"(?:^|/)torch/utils/data/"
_TORCH = r"(?:^|/)(?:site|dist)-packages/torch/"
_OWN = ["own_function", "own_file", "own_line"]


@dataclass(frozen=True)
class HotStacks:
    """Stacks of the CPU by what they end in.

    `leaves`: a row a function, the longest first: layer, function, file, module; `value` in `unit`
    ("ns" or "samples"); the `line` with most of it and what that has, `line_value`; `row` of
    host_functions.tsv or null; `looped`, how much of it is below a callback of asyncio's event
    loop; `own_function`, `own_file`, `own_line` of the own function that calls it most, itself
    included, or null.
    """

    leaves: pl.DataFrame
    unit: str

    @property
    def total(self) -> int:
        """All that was sampled."""
        return sum_column(self.leaves, "value")

    def list_kind(self, *kinds: str) -> pl.DataFrame:
        """The leaves that are functions of these kinds."""
        rows = [i for i, f in enumerate(list_host_functions()) if f.kind in kinds]
        return self.leaves.filter(pl.col("row").is_in(rows).fill_null(value=False))

    def list_running(self) -> pl.DataFrame:
        """The leaves in which a thread worked."""
        rows = [i for i, f in enumerate(list_host_functions()) if f.kind in ASLEEP]
        return self.leaves.filter(~pl.col("row").is_in(rows).fill_null(value=False))


def read_hot_stacks(run: Run) -> HotStacks | None:
    """The run's CPU stacks, or None where it has none."""
    return run.once(_read)


def list_waiting(run: Run) -> pl.DataFrame:
    """Lines of the program's own in which threads waited, the longest first.

    function, file, line; `value` ns in which a sampled thread was there without running; `looped`,
    how much of it below a callback of asyncio's event loop; `whole`, all that was sampled. Known
    where threads were sampled both while they ran and whatever they did.
    """
    schema = {"function": pl.String, "file": pl.String, "line": pl.Int64, **_WAITING}
    weights = _weigh_metrics(run, _WALL)
    ran = _weigh_metrics(run, _METRICS[:1])
    if weights is None or ran is None:
        return pl.DataFrame(schema=schema)
    by = ["function", "file", "line"]
    sides = [
        _sum_ends(run, rows).with_columns(is_wall=pl.lit(n == 0))
        for n, rows in enumerate((weights[0], ran[0]))
    ]
    sign = pl.when("is_wall").then(1).otherwise(-1)
    own = (pl.col("function") == pl.col("own_function")) & (pl.col("line") == pl.col("own_line"))
    whole = sum_column(sides[0], "value")
    return (
        pl.concat(sides)
        .filter(own)
        .group_by(by)
        .agg((pl.col("value", "looped") * sign).sum())
        .with_columns(whole=pl.lit(whole, pl.Int64))
        .filter(pl.col("value") > 0)
        .sort("value", *by, descending=[True, False, False, False])
        .select(list(schema))
    )


def list_own_lines(run: Run) -> pl.DataFrame:
    """Lines of the program's own by the CPU time of what they do themselves, the longest first.

    function, file, line; `python` ns in which it was there, or in what it calls outside PyTorch;
    `loading` ns of all that it does below PyTorch's loader of data. Neither counts what modules do
    while they are imported, nor the recorder.
    """
    names = {"function": pl.String, "file": pl.String, "line": pl.Int64}
    schema = {**names, "python": pl.Int64, "loading": pl.Int64}
    weights = _weigh_metrics(run, _METRICS[:1])
    if weights is None:
        return pl.DataFrame(schema=schema)
    frames = _read_frames(run)
    ends = frames.select(*_TRACE, "frame_id", in_torch=_unify(pl.col("file")).str.contains(_TORCH))
    rows = weights[0].join(_find_owners(run, frames), on=[*_TRACE, "stack_id"])
    rows = rows.join(ends, on=[*_TRACE, "frame_id"]).filter(
        pl.col("own_line").is_not_null() & ~pl.col("is_set_up")
    )
    sums = rows.group_by(_OWN).agg(
        python=pl.col("value").filter(~pl.col("in_torch") & ~pl.col("is_loading")).sum(),
        loading=pl.col("value").filter("is_loading").sum(),
    )
    named = sums.rename(dict(zip(_OWN, names, strict=True)))
    whole = pl.col("python") + pl.col("loading")
    return named.sort(whole, *names, descending=[True, False, False, False]).select(list(schema))


def _read(run: Run) -> HotStacks | None:
    weights = _weigh_stacks(run)
    if weights is None:
        return None
    rows, unit = weights
    ends = _sum_ends(run, rows)
    owners = ends.group_by(*_FUNCTION, "own_function", "own_file", maintain_order=True).agg(
        pl.col("value").sum(), pl.col("own_line").first()
    )
    owners = owners.sort("value", descending=True, maintain_order=True).unique(
        _FUNCTION, keep="first", maintain_order=True
    )
    lines = ends.group_by(*_FUNCTION, "line", maintain_order=True).agg(
        pl.col("value", "looped").sum(), pl.col("row").first()
    )
    lines = lines.sort("value", descending=True, maintain_order=True)
    leaves = lines.group_by(_FUNCTION, maintain_order=True).agg(
        pl.col("value", "looped").sum(),
        pl.col("row", "line").first(),
        line_value=pl.col("value").first(),
    )
    leaves = leaves.join(owners.drop("value"), on=_FUNCTION, how="left", nulls_equal=True)
    return HotStacks(leaves.sort("value", "function", descending=[True, False]), unit)


def _sum_ends(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """What stacks of some weight end in: functions, lines and who of the program's own is there."""
    frames = _read_frames(run)
    return (
        rows.join(_find_owners(run, frames), on=[*_TRACE, "stack_id"])
        .join(frames, on=[*_TRACE, "frame_id"])
        .group_by(*_FUNCTION, "line", "own_function", "own_file", "own_line", maintain_order=True)
        .agg(
            pl.col("value").sum(),
            pl.col("row").first(),
            looped=pl.col("value").filter("is_looped").sum(),
        )
        .sort("value", descending=True, maintain_order=True)
    )


def _read_frames(run: Run) -> pl.DataFrame:
    """Functions of stacks, with the `row` of host_functions.tsv or null."""
    frames = run.table("frames").select(*_TRACE, "frame_id", *_FUNCTION, "line")
    frames = frames.with_columns(pl.col(_FUNCTION).cast(pl.String)).with_columns(_name_library())
    return frames.with_columns(row=find_host_functions(frames))


def _weigh_stacks(run: Run) -> tuple[pl.DataFrame, str] | None:
    """Each stack with what it weighs (rank, recording_id, stack_id, value), and the unit."""
    if not run.rows("stacks"):
        return None
    if run.rows("cpu_samples"):
        samples = run.table("cpu_samples").filter(
            pl.col("on_cpu").fill_null(value=True) & pl.col("stack_id").is_not_null()
        )
        timed = bool(samples.height) and not samples.get_column("weight_ns").null_count()
        value = pl.col("weight_ns").sum() if timed else pl.len().cast(pl.Int64)
        rows = samples.group_by(*_TRACE, "stack_id", maintain_order=True).agg(value=value)
        return (rows, "ns" if timed else "samples") if rows.height else None
    return _weigh_metrics(run, _METRICS)


def _weigh_metrics(run: Run, metrics: tuple[str, ...]) -> tuple[pl.DataFrame, str] | None:
    """The stacks that have a weight in the first of these metrics that any has, and its unit."""
    table = run.table("stack_weights")
    for metric in metrics:
        mine = _leave_gpu_out(run, table.filter(pl.col("metric").cast(pl.String) == metric))
        if mine.height:
            rows = mine.group_by(*_TRACE, "stack_id", maintain_order=True).agg(
                pl.col("value").sum()
            )
            return rows, "ns" if metric.endswith("_ns") else "samples"
    return None


def _leave_gpu_out(run: Run, weights: pl.DataFrame) -> pl.DataFrame:
    """The weights of stacks that end on the CPU: a GPU's samples are no time of a thread."""
    frames = run.table("frames", [*_TRACE, "frame_id", "layer"])
    on_gpu = frames.filter(pl.col("layer").cast(pl.String).is_in(list(OF_GPU)))
    if on_gpu.is_empty():
        return weights
    stacks = run.table("stacks", [*_TRACE, "stack_id", "frame_id"])
    ends = stacks.join(on_gpu, on=[*_TRACE, "frame_id"], how="semi")
    return weights.join(ends, on=[*_TRACE, "stack_id"], how="anti")


def _find_owners(run: Run, frames: pl.DataFrame) -> pl.DataFrame:
    """Each stack's last frame, and the nearest own function at or above it.

    rank, recording_id, stack_id, frame_id, own_function, own_file, own_line; is_looped, below
    asyncio's event loop; is_loading, below PyTorch's loader; is_set_up, in an import or in the
    recorder.
    """
    stacks = run.table("stacks").select(*_TRACE, "stack_id", "parent_id", "frame_id")
    known = frames.select(
        *_TRACE,
        "frame_id",
        is_own=_is_own(),
        is_loop=_is_loop(),
        is_loader=_unify(pl.col("file")).str.contains(_LOADING),
        sets_up=_unify(pl.col("file")).str.contains(f"{_IMPORTING}|{_RECORDER}"),
        own_function="function",
        own_file="file",
        own_line="line",
    )
    parts = []
    for mine in stacks.join(
        known, on=[*_TRACE, "frame_id"], how="left", maintain_order="left"
    ).partition_by(_TRACE, maintain_order=True):
        up = find_rows(mine.get_column("stack_id"), mine.get_column("parent_id")).cast(pl.UInt32)
        every = pl.int_range(mine.height, dtype=pl.UInt32, eager=True)
        kinds = ("is_own", "is_loop", "is_loader", "sets_up")
        owner, loop, loader, set_up = (
            climb_to_rows(
                up, mine.get_column(kind).fill_null(value=False).arg_true().cast(pl.UInt32), every
            )
            for kind in kinds
        )
        parts.append(
            mine.with_columns(
                pl.col(_OWN).gather(owner),
                is_looped=loop.is_not_null(),
                is_loading=loader.is_not_null(),
                is_set_up=set_up.is_not_null(),
            )
        )
    flags = ("is_looped", "is_loading", "is_set_up")
    return pl.concat(parts).select(*_TRACE, "stack_id", "frame_id", *_OWN, *flags)


def _is_own() -> pl.Expr:
    """Whether a frame is of the program itself: with a line, and of no package or library."""
    file = _unify(pl.col("file"))
    named = (file != "") & pl.col("line").is_not_null() & pl.col("row").is_null()
    return named & (~file.str.contains(_FOREIGN) | file.str.contains(_CELL))


def _unify(file: pl.Expr) -> pl.Expr:
    """A file's name with the separator of POSIX; empty where there is none."""
    return file.fill_null("").str.replace_all(r"\\", "/")


def _name_library() -> pl.Expr:
    """A function that has no name by the library that it is in: '[libgomp.so.1.0.0]'."""
    library = pl.col("module").str.split("/").list.last()
    is_address = pl.col("function").str.contains(r"^0x[0-9a-fA-F]+$") & library.is_not_null()
    return (
        pl.when(is_address).then(pl.format("[{}]", library)).otherwise("function").alias("function")
    )


def _is_loop() -> pl.Expr:
    """Whether a frame runs a callback of asyncio's event loop (CPython, Lib/asyncio/events.py)."""
    name = pl.col("function").str.split(".").list.last()
    return (name == "_run") & pl.col("file").str.contains(r"asyncio[/\\]events\.py$")
