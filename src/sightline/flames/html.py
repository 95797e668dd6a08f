"""A flame graph as one offline HTML file.

The page is built from web/ when the package is built; here only its data is put in: stacks as a
trie in parallel arrays with a string table, as JSON, deflated. Schema "sightline-flame/1", read by
web/src/flame/data.ts.
"""

from __future__ import annotations

import json
import zlib
from html import escape

import polars as pl

from sightline.core.installation import load_page
from sightline.core.page_text import encode_bytes
from sightline.core.text import make_printable
from sightline.core.units import format_several
from sightline.flames.instances import merge_frames
from sightline.flames.layers import GRADES, INDEX, LAYERS
from sightline.flames.names import make_labels
from sightline.flames.palette import PALETTES
from sightline.flames.shortened import shorten_stacks
from sightline.flames.stacks import UNITS, Stacks, unite_stacks

SCHEMA = "sightline-flame/2"
# d3-flame-graph draws SVG elements: beyond some 10 000 visible ones a page is slow (its issue
# #108), and it leaves out what is narrower than a pixel anyway. The trie may be larger than what
# is visible at once, since zooming shows more of it.
MAX_NODES = 60_000


def write(
    stacks: Stacks,
    weight: str,
    title: str,
    *,
    before: Stacks | None = None,
    noise_ratio: float = 0.0,
) -> bytes:
    """The page. With `before`, a difference: `before` must be scaled to the same work already.

    Changes of at most `noise_ratio` of a frame's larger value are grey.
    """
    data = page_data(
        stacks, weight, title, max_nodes=MAX_NODES, before=before, noise_ratio=noise_ratio
    )
    packed = encode_bytes(zlib.compress(json.dumps(data, ensure_ascii=False).encode(), 6))
    page = load_page("flame", "-o flame.svg")
    page = page.replace(
        "<title>sightline</title>", f"<title>{escape(make_printable(title))}</title>", 1
    )
    return page.replace("/*DATA*/", packed.decode(), 1).encode()


def page_data(
    stacks: Stacks,
    weight: str,
    title: str,
    *,
    max_nodes: int,
    before: Stacks | None = None,
    noise_ratio: float = 0.0,
) -> dict[str, object]:
    """The data of a page, for a report that shows a flame graph among other things.

    `before` and `noise_ratio` as in `write`.
    """
    weights = [weight, *(w for w in stacks.weights if w != weight and stacks.total(w))]
    notes: list[str] = []
    if before is not None:
        stacks = _paired(stacks, before, weights)
        notes.append("Difference: a frame is as wide as the larger of before and after.")
        if noise_ratio:
            notes.append(f"Grey: changes within {100 * noise_ratio:.1f} %, as steps vary anyway.")
    short, cut = shorten_stacks(stacks, max_nodes)
    if cut:
        notes.append(
            "Frames too small to see are drawn together as '[n small frames]' "
            f"({format_several(cut, 'stack')} cut)."
        )
    data = _data(short, weights, make_printable(title), notes, with_before=before is not None)
    return data if before is None else {**data, "noise": noise_ratio}


def _paired(after: Stacks, before: Stacks, weights: list[str]) -> Stacks:
    """One table with the weights of both; those of `before` are called 'before:<weight>'."""
    old = before.rows.select(
        "frames",
        "match",
        *[pl.col(w).alias(f"before:{w}") for w in weights if w in before.weights],
    )
    return unite_stacks([after, Stacks(before.frames, old)])


def _data(
    stacks: Stacks, weights: list[str], title: str, notes: list[str], *, with_before: bool
) -> dict[str, object]:
    nodes, leaf = _trie(stacks)
    # In order of their last nodes, both lists rise, and what they rise by is small.
    order = leaf.arg_sort()
    leaf, rows = leaf.gather(order), stacks.rows[order]
    own = stacks.frames.sort("frame_id").select("layer", "name").rows()
    merged, added = merge_frames(own)
    frames = [*own, *added]
    labels = make_labels(frames)
    grade = {g: i for i, g in enumerate(GRADES)}
    data: dict[str, object] = {
        "schema": SCHEMA,
        "title": title,
        "layers": [{"name": x.name, "side": x.side, "kind": x.kind, "doc": x.doc} for x in LAYERS],
        "palettes": PALETTES,
        "units": {w: UNITS.get(w, "") for w in weights},
        "frames": {
            "layer": [INDEX[layer] for layer, _ in frames],
            "name": [make_printable(name) for _, name in frames],
            # Empty where it is the name.
            "label": ["" if a == b else a for a, (_, b) in zip(labels, frames, strict=True)],
            **({"merged": merged} if added else {}),
        },
        "nodes": {
            "parent": _list_steps(nodes.get_column("parent").fill_null(0)),
            "frame": nodes.get_column("frame_id").fill_null(0).to_list(),
        },
        "stacks": {
            "node": _list_steps(leaf),
            "match": [grade[m] for m in rows.get_column("match")],
            "values": {w: rows.get_column(w).to_list() for w in weights},
        },
        "grades": list(GRADES),
        "totals": {w: stacks.total(w) for w in weights},
        "notes": notes,
    }
    if with_before:
        have = {w: f"before:{w}" for w in weights if f"before:{w}" in stacks.weights}
        data["before"] = {w: rows.get_column(c).to_list() for w, c in have.items()}
    return data


def _list_steps(values: pl.Series) -> list[int]:
    """What each value is more than the one before it, the first than 0."""
    steps: list[int] = values.cast(pl.Int64).diff().fill_null(values.item(0)).to_list()
    return steps


def _trie(stacks: Stacks) -> tuple[pl.DataFrame, pl.Series]:
    """All stacks' nodes, parents first, node 0 the root; and each stack's last node."""
    rows = stacks.rows.select("frames").with_row_index("row")
    rows = rows.with_columns(node=pl.lit(0, pl.UInt32), length=pl.col("frames").list.len())
    leaf = [rows.filter(pl.col("length") == 0).select("row", "node")]
    first = {"parent": [None], "frame_id": [None]}
    levels = [pl.DataFrame(first, schema={"parent": pl.UInt32, "frame_id": pl.UInt32})]
    used, depth = 1, 0
    while True:
        rows = rows.filter(pl.col("length") > depth).with_columns(
            frame_id=pl.col("frames").list.get(depth)
        )
        if rows.is_empty():
            break
        found = (
            rows.select(parent="node", frame_id="frame_id")
            .unique()
            .sort("parent", "frame_id")
            .with_columns(next=pl.int_range(used, used + pl.len(), dtype=pl.UInt32))
        )
        used += found.height
        depth += 1
        levels.append(found.select("parent", "frame_id"))
        rows = rows.join(found.rename({"parent": "node"}), on=["node", "frame_id"]).select(
            "row", "frames", "length", node="next"
        )
        leaf.append(rows.filter(pl.col("length") == depth).select("row", "node"))
    return pl.concat(levels), pl.concat(leaf).sort("row").get_column("node")
