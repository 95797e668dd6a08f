"""Weighted stacks: the table that every flame graph is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from sightline.flames.layers import GRADES, INDEX, SIDE

FRAME_SCHEMA = {"frame_id": pl.UInt32, "layer": pl.String, "name": pl.String}
# What a weight counts.
UNITS = {
    "gpu_time_ns": "ns",
    "exposed_ns": "ns",
    "gpu_idle_ns": "ns",
    "cpu_time_ns": "ns",
    "wall_time_ns": "ns",
    "samples": "samples",
    "latency_samples": "samples",
    "cycles": "cycles",
    "warp_time_ns": "ns",
    "executions": "executions",
    "bytes": "bytes",
    "peak_bytes": "bytes",
    "energy_uj": "µJ",  # weights are whole numbers
}


@dataclass(frozen=True)
class Stacks:
    """Stacks with weights.

    `frames`: one row per distinct (layer, name), numbered from 0 in order of layer and name.
    `rows`: `frames` (list of frame ids, root first), `match` (grade of the join), and one int64
    column per weight. No two rows have the same frames and match; rows are in a fixed order.
    """

    frames: pl.DataFrame
    rows: pl.DataFrame

    @property
    def weights(self) -> list[str]:
        """Names of the weights."""
        return [c for c in self.rows.columns if c not in ("frames", "match")]

    def total(self, weight: str) -> int:
        """Sum of a weight over all stacks."""
        return int(self.rows.get_column(weight).sum())

    def shares(self, weight: str) -> dict[str, float]:
        """Share of each grade of match in a weight, in %, best grade first."""
        total = self.total(weight) or 1
        by_grade = dict(self.rows.group_by("match").agg(pl.col(weight).sum()).rows())
        known = [g for g in GRADES if by_grade.get(g)]
        return {g: 100 * by_grade[g] / total for g in known}

    def share_with_cpu_stack(self, weight: str) -> float | None:
        """% of a device's weight that has a CPU frame above it; None where no frame is a device's.

        A thread, a run and what sightline adds are not stacks. As iaprof's "percent matched".
        """
        layers = self.frames.get_column("layer")
        sides = layers.replace_strict(SIDE, return_dtype=pl.String)
        of_gpu, of_cpu = sides == "gpu", (sides == "cpu") & (layers != "note")
        if not of_gpu.any():
            return None
        ids = self.frames.get_column("frame_id")
        frames = pl.col("frames").list
        rows = self.rows.select(
            weight,
            gpu=frames.eval(pl.element().is_in(ids.filter(of_gpu).implode())).list.any(),
            cpu=frames.eval(pl.element().is_in(ids.filter(of_cpu).implode())).list.any(),
        ).filter("gpu")
        total = int(rows.get_column(weight).sum())
        return 100 * int(rows.filter("cpu").get_column(weight).sum()) / total if total else None

    def describe_grades(self, weight: str) -> str:
        """'exact 90.0 %, window 10.0 %'; empty where no frame is a device's: nothing is joined."""
        if not any(SIDE[layer] == "gpu" for layer in self.frames.get_column("layer").unique()):
            return ""
        return ", ".join(f"{grade} {pct:.1f} %" for grade, pct in self.shares(weight).items())


def stack_paths(paths: Iterable[tuple[Sequence[tuple[str, str]], str, dict[str, int]]]) -> Stacks:
    """Stacks from (frames as (layer, name) root first, match, weights), for small inputs."""
    rows = list(paths)
    names = sorted({f for frames, _, _ in rows for f in frames}, key=lambda f: (INDEX[f[0]], f[1]))
    number = {frame: i for i, frame in enumerate(names)}
    weights = sorted({w for _, _, values in rows for w in values})
    table = pl.DataFrame(
        {
            "frames": [[number[f] for f in frames] for frames, _, _ in rows],
            "match": [match for _, match, _ in rows],
            **{w: [values.get(w, 0) for _, _, values in rows] for w in weights},
        },
        schema={
            "frames": pl.List(pl.UInt32),
            "match": pl.String,
            **dict.fromkeys(weights, pl.Int64),
        },
    )
    frames_table = pl.DataFrame(
        [(i, layer, name) for i, (layer, name) in enumerate(names)],
        schema=FRAME_SCHEMA,
        orient="row",
    )
    return merge_stacks(Stacks(frames_table, table))


def merge_stacks(stacks: Stacks) -> Stacks:
    """The same stacks with equal ones added up, and all rows in a fixed order."""
    weights = stacks.weights
    rows = (
        stacks.rows.group_by("frames", "match")
        .agg(pl.col(weights).sum())
        .filter(pl.any_horizontal(pl.col(weights) != 0))
        .sort("frames", "match")
    )
    return Stacks(stacks.frames, rows)


def unite_stacks(parts: Sequence[Stacks]) -> Stacks:
    """All stacks of several tables; weights that a table lacks are 0 there. Order is no matter."""
    if not parts:
        return stack_paths([])
    frames = (
        pl.concat([p.frames.select("layer", "name") for p in parts])
        .unique()
        .with_columns(_order=pl.col("layer").replace_strict(INDEX, return_dtype=pl.Int16))
        .sort("_order", "name")
        .drop("_order")
        .with_row_index("frame_id")
        .select(pl.col(c).cast(t) for c, t in FRAME_SCHEMA.items())
    )
    rows = [_renumber(p, frames) for p in parts]
    together = pl.concat(rows, how="diagonal")
    return merge_stacks(
        Stacks(frames, together.with_columns(pl.exclude("frames", "match").fill_null(0)))
    )


def _renumber(part: Stacks, frames: pl.DataFrame) -> pl.DataFrame:
    new = (
        part.frames.sort("frame_id")
        .join(
            frames.rename({"frame_id": "new"}),
            on=["layer", "name"],
            how="left",
            maintain_order="left",
        )
        .get_column("new")
    )
    ids = part.frames.sort("frame_id").get_column("frame_id")
    mapping = pl.DataFrame({"frames": ids, "new": new})
    long = (
        part.rows.select("frames")
        .with_row_index("_row")
        .explode("frames", empty_as_null=False, keep_nulls=False)
        .join(mapping, on="frames", how="left", maintain_order="left")
        .group_by("_row", maintain_order=True)
        .agg(pl.col("new"))
    )
    return (
        part.rows.with_row_index("_row")
        .join(long, on="_row", how="left", maintain_order="left")
        .with_columns(frames=pl.col("new").fill_null(pl.lit([], dtype=pl.List(pl.UInt32))))
        .drop("_row", "new")
    )


def scale_stacks(stacks: Stacks, factor: float) -> Stacks:
    """The stacks with every weight times a factor, rounded to whole numbers."""
    if factor == 1:
        return stacks
    rows = stacks.rows.with_columns(
        (pl.col(w) * factor).round().cast(pl.Int64) for w in stacks.weights
    )
    return merge_stacks(Stacks(stacks.frames, rows))


def keep_weights(stacks: Stacks, layers: Sequence[str]) -> Stacks:
    """The stacks with only the frames of these layers; weights are as they were."""
    chosen = stacks.frames.filter(pl.col("layer").is_in(list(layers))).get_column("frame_id")
    rows = stacks.rows.with_columns(
        frames=pl.col("frames").list.eval(pl.element().filter(pl.element().is_in(chosen.implode())))
    )
    return merge_stacks(Stacks(stacks.frames, rows))


def order_stacks(stacks: Stacks) -> Stacks:
    """The stacks with the device's frames in the order of LAYERS: the file, then its kernels."""
    if stacks.frames.filter(layer="gpu_file").is_empty():
        return stacks  # only a kernel's file can stand elsewhere
    on_cpu = [name for name, side in SIDE.items() if side in ("root", "cpu")]
    place = pl.col("layer").replace_strict(INDEX, return_dtype=pl.Int32)
    places = stacks.frames.select(
        frames="frame_id", _place=pl.when(pl.col("layer").is_in(on_cpu)).then(-1).otherwise(place)
    )
    return _resort(stacks, places, descending_depth=False)


def _resort(stacks: Stacks, places: pl.DataFrame, *, descending_depth: bool) -> Stacks:
    """Each stack's frames sorted by `_place`, then by where they stood."""
    long = (
        stacks.rows.select("frames")
        .with_row_index("_row")
        .explode("frames", empty_as_null=False, keep_nulls=False)
        .with_columns(_depth=pl.int_range(pl.len()).over("_row"))
        .join(places, on="frames", how="left", maintain_order="left")
        .sort("_row", "_place", "_depth", descending=[False, False, descending_depth])
        .group_by("_row", maintain_order=True)
        .agg("frames")
    )
    rows = (
        stacks.rows.with_row_index("_row")
        .drop("frames")
        .join(long, on="_row", how="left", maintain_order="left")
        .with_columns(pl.col("frames").fill_null(pl.lit([], dtype=pl.List(pl.UInt32))))
        .select(stacks.rows.columns)
    )
    return merge_stacks(Stacks(stacks.frames, rows))


def explain_idle(stacks: Stacks) -> Stacks:
    """The stacks re-ordered: the reason first, then what had it, then who called that.

    stall class, reason, instruction, kernel, source line, file, device; then the CPU's frames
    from the call that launched it outwards. The same frames and weights, so equal totals. It is
    no reversal of the text: an instruction's offset comes under its kernel's reasons only.
    """
    position = {name: i for i, name in enumerate(_WHY)}
    places = stacks.frames.select(
        frames="frame_id",
        _place=pl.col("layer").replace_strict(position, default=len(_WHY), return_dtype=pl.Int32),
    )
    # CPU frames keep the reverse of their call order; all of them come after the device's.
    return _resort(stacks, places, descending_depth=True)


_WHY = ("stall_class", "stall_reason", "instruction", "kernel", "gpu_line", "gpu_file", "device")
