"""The speedscope file format, https://www.speedscope.app/file-format-schema.json."""

from __future__ import annotations

import json

import polars as pl

from sightline.flames.stacks import UNITS, Stacks

# speedscope's names of units.
_UNITS = {"ns": "nanoseconds", "bytes": "bytes"}


def write(stacks: Stacks, weight: str, title: str) -> str:
    """One sampled profile: a sample per stack, weighted."""
    rows = stacks.rows.filter(pl.col(weight) != 0)
    samples = rows.get_column("frames").to_list()
    weights = rows.get_column(weight).to_list()
    frames = [
        {"name": name, "file": layer}
        for layer, name in stacks.frames.sort("frame_id").select("layer", "name").rows()
    ]
    profile = {
        "type": "sampled",
        "name": f"{title}: {weight}",
        "unit": _UNITS.get(UNITS.get(weight, ""), "none"),
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "sightline",
        "name": title,
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": [profile],
    }
    return json.dumps(document, ensure_ascii=False)
