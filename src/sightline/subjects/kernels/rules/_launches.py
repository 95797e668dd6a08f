"""What rules about launch shapes share: kernels with their fill, and what must remain of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sightline.core.algebra.intervals import is_one_group
from sightline.core.algebra.lookup import Texts, keep_rows
from sightline.core.algebra.order import sort_rows
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_several
from sightline.diagnosis.algorithms import LAUNCHES_FOR_YOU, advise_before_profile
from sightline.subjects.kernels.launch_fill import add_fill
from sightline.subjects.kernels.rules._shared import escape_braces, list_computing
from sightline.timeline.kernel_kinds import name_kinds
from sightline.timeline.page_waits import measure_page_waits
from sightline.timeline.world import read_world

DEVICE = ["rank", "device_id"]
# Ours: an empty kernel is recorded as 1.5 to 3 µs, whatever its shape.
FLOOR_NS = 3_000
FULL_SHARE = 0.9  # ours: less than a tenth that is empty is usual in healthy kernels
LEAST_NS = 10_000  # ours: a kernel of which three tenths are that floor
# Names of libraries' kernels also where a program has kernels of its own that are named after what
# they do: namespaces, and what NVIDIA, AMD and PyTorch put before or into all of theirs.
_LIBRARY = (
    r"cub::|thrust::|cutlass|cudnn|cublas|cusparse|cufft|at::native|rocprim|rocblas|hipcub|Cijk_|"
    r"nvjet|^(?:volta|turing|ampere|hopper|maxwell|pascal)_|^sm\d\d_|xmma|_sgemm_|_dgemm_|gemv2?[NT]_|"
    r"^__pgi_|_pgi_uacc_"
)
# Beyond this much of the work of others, a shape that is fuller is no chance (ours).
_FULLER = 2.0
# A full GPU takes for a block's part no longer than a nearly empty one, whatever blocks share, by
# more than this: its blocks had more work (ours).
_MORE_WORK = 1.5


def list_filled(run: Run) -> pl.DataFrame:
    """The window's kernels that compute, with their fill (`launch_fill`), `alone` and `own`.

    `alone`: no other kernel of the device ran meanwhile. `own`: the launch is the program's choice,
    not a library's. `least_ns`: what a launch must still take, by its floor and by instances of the
    same name and a fuller shape in the same recording; `fuller_ns` and `fuller_blocks` are of the
    fastest such shape, null where there is none.
    """
    return run.once(_list_filled)


def _list_filled(run: Run) -> pl.DataFrame:
    kernels = sort_rows(list_computing(run), (*DEVICE, "start_ns", "device_op_id"))
    begun, next_start = pl.col("end_ns").cum_max().shift(1), pl.col("start_ns").shift(-1)
    if not is_one_group(kernels, DEVICE):
        begun, next_start = begun.over(DEVICE), next_start.over(DEVICE)
    alone = kernels.with_columns(
        alone=(begun <= pl.col("start_ns")).fill_null(value=True)
        & (pl.col("end_ns") <= next_start).fill_null(value=True)
    )
    filled = add_fill(run, alone)
    filled = keep_rows(filled, filled.get_column("share").is_not_null())
    names = Texts(filled.get_column("name"))
    filled = _add_least(filled.with_columns(own=names.mark(_choose_own(run, names.different))))
    # A kernel that waits for pages of unified memory is no faster with more blocks; one that does
    # for most of its time is not at all, as what lies between two moves is their faults.
    pages = pl.lit(measure_page_waits(run, filled))
    held = pl.when(2 * pages > pl.col("length")).then("length").otherwise(pages)
    return filled.with_columns(least_ns=pl.max_horizontal("least_ns", held))


def advise_algorithm(run: Run, name: str) -> str:
    """What to try before a kernel of the program's own is tuned, where its name says what it is."""
    return advise_before_profile(name, is_own=_choose_own(run, pl.Series([name])).len() > 0)


def _choose_own(run: Run, names: pl.Series) -> pl.Series:
    """The names of kernels whose launch the program chooses."""
    if read_world(run).framework not in LAUNCHES_FOR_YOU:
        return names.filter(~names.str.contains(_LIBRARY))
    return names.filter(name_kinds(names).is_null())


def _add_least(kernels: pl.DataFrame) -> pl.DataFrame:
    """With what the same kernel took in a fuller shape: of its whole work, or by the block.

    Where the fuller launch is the shorter one, the same work may have been divided; else each of
    its blocks may do as much, and that rate is what a full GPU reaches. One whose blocks had far
    more work, as of a larger problem, tells nothing.
    """
    key = [*DEVICE, "name"]
    shapes = kernels.group_by(*key, "blocks", "share").agg(ns=pl.col("length").median())
    if shapes.height == shapes.select(key).n_unique():
        nothing = {"fuller_ns": pl.lit(None, pl.Float64), "fuller_blocks": pl.lit(None, pl.Int64)}
        return kernels.with_columns(least_ns=pl.lit(float(FLOOR_NS)), **nothing)
    full = shapes.sort("share", "blocks", descending=True).unique(
        key, keep="first", maintain_order=True
    )
    full = full.select(*key, fuller_ns="ns", fuller_blocks="blocks", fuller_share="share")
    rate = pl.col("fuller_ns") / pl.col("fuller_blocks") * pl.col("blocks")
    kept = pl.when(pl.col("fuller_ns") < pl.col("length")).then("fuller_ns").otherwise(rate)
    is_fuller = (pl.col("fuller_share") >= _FULLER * pl.col("share")) & (
        kept <= _MORE_WORK * pl.col("length")
    )
    joined = kernels.join(full, on=key, how="left", maintain_order="left")
    return joined.with_columns(
        least_ns=pl.when(is_fuller).then(pl.max_horizontal(kept, FLOOR_NS)).otherwise(FLOOR_NS),
        fuller_ns=pl.when(is_fuller).then("fuller_ns"),
        fuller_blocks=pl.when(is_fuller).then("fuller_blocks"),
    ).drop("fuller_share")


def keep_factor(part: pl.Expr) -> pl.Expr:
    """`factor`: what of a kernel's length remains where only this part of it need."""
    return pl.max_horizontal(part, pl.col("least_ns") / pl.col("length")).clip(0.0, 1.0)


def pick_longest(kernels: pl.DataFrame) -> dict[str, Any]:
    """The longest instance of the launch that takes most time, or loses most (`factor`)."""
    lost = pl.col("length") * (1 - pl.col("factor") if "factor" in kernels.columns else 1)
    spent = kernels.with_columns(spent=lost.sum().over("name", "blocks", "threads"))
    return spent.sort("spent", "length", "name").row(-1, named=True)


def describe_launch(row: Mapping[str, Any]) -> str:
    """'20 blocks of 1,024 threads on 132 multiprocessors'."""
    return (
        f"{format_several(row['blocks'], 'block')} of {format_several(row['threads'], 'thread')} "
        f"on {format_several(row['sm_count'], 'multiprocessor')}"
    )


def name_launch(row: Mapping[str, Any]) -> str:
    """'`scan` runs with 1 block …', for a summary that is formatted once more."""
    name = escape_braces(shorten_kernel_name(row["name"]))
    return f"`{name}` runs with {describe_launch(row)}"


def quote_fuller(kernels: pl.DataFrame) -> list[str]:
    """What the same kernel takes in a fuller shape: the best evidence there is."""
    known = kernels.drop_nulls("fuller_ns")
    if known.is_empty():
        return []
    row = known.row(int(known.get_column("length").arg_max() or 0), named=True)
    return [
        f"the same kernel takes {format_ns(round(row['fuller_ns']))} with "
        f"{format_several(row['fuller_blocks'], 'block')} elsewhere in this recording, and "
        f"{format_ns(row['length'])} with {format_count(row['blocks'])}"
    ]
