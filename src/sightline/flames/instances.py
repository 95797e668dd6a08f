"""Instances of the same thing as one frame: ranks, threads, numbered steps, a module's layers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from sightline.flames.stacks import Stacks, unite_stacks

# Places that differ by their numbers. Streams, too: ranks and runs number them differently; what
# runs on them stands below by name.
_PLACES = {
    "run": "all {} ranks",
    "process": "all {} processes",
    "thread": "all {} threads",
    "device": "all {} streams",
}
# 'ProfilerStep#12', 'step 3', 'iteration_7', 'layers.3.attention'; not 'fp16' or 'conv2d'.
_NUMBER = re.compile(r"(?<=[#_ .:\[-])\d+(?![\w])|(?<=[#_ .:\[-])\d+(?=[.\]])")
# PyTorch numbers the instances of a class: 'nn.Module: EncoderLayer_3'.
_MODULE = re.compile(r"^(nn\.Module: .*_)\d+$")
_SMALL = re.compile(r"^\[\d+ small frames\]$")
_MEMORY = re.compile(r"^GPU \d+ memory$")


def name_kind(layer: str, name: str) -> str:
    """What a frame is an instance of, such as 'ProfilerStep#*'; its own name if it is the only."""
    if layer in _PLACES:
        return _PLACES[layer]
    if layer == "phase":
        return _NUMBER.sub("*", name)
    if layer == "op":
        return _MODULE.sub(r"\1*", name)
    if layer == "note":
        return _MEMORY.sub("GPU memory", _SMALL.sub("[small frames]", name))
    return name


def merge_frames(frames: Sequence[tuple[str, str]]) -> tuple[list[int], list[tuple[str, str]]]:
    """For each (layer, name) the place of the frame that it is merged to, and the frames added.

    A frame that has no other instance stays itself; added frames stand behind the given ones.
    """
    instances: dict[tuple[str, str], list[int]] = {}
    for place, (layer, name) in enumerate(frames):
        instances.setdefault((layer, name_kind(layer, name)), []).append(place)
    merged = list(range(len(frames)))
    added: list[tuple[str, str]] = []
    for (layer, kind), places in instances.items():
        if len(places) < 2:
            continue
        for place in places:
            merged[place] = len(frames) + len(added)
        added.append((layer, kind.format(len(places)) if layer in _PLACES else kind))
    return merged, added


def merge_instances(stacks: Stacks) -> Stacks:
    """The stacks with instances merged; all weights add up to what they were."""
    frames = stacks.frames.sort("frame_id").select("layer", "name").rows()
    merged, added = merge_frames(frames)
    if not added:
        return stacks
    named = pl.DataFrame([*frames, *added], schema=["layer", "name"], orient="row")
    numbered = named.select(
        frame_id=pl.int_range(pl.len(), dtype=pl.UInt32), layer="layer", name="name"
    )
    to = pl.Series(merged, dtype=pl.UInt32)
    rows = stacks.rows.with_columns(
        frames=pl.col("frames").list.eval(
            pl.element().replace_strict(pl.Series(range(len(frames)), dtype=pl.UInt32), to)
        )
    )
    return unite_stacks([Stacks(numbered, rows)])
