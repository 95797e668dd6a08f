"""Profiles of stacks as py-spy writes them: sums of samples, without their times."""

from __future__ import annotations

import json
from pathlib import Path

PY_SPY = "py-spy"
Stack = tuple[
    tuple[str, str, int], ...
]  # functions with their files and lines, the outermost first


def write_profile(path: Path, weights: dict[Stack, float], name: str) -> str:
    """A profile as py-spy writes it, of stacks with their seconds."""
    frames = sorted({frame for stack in weights for frame in stack})
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "exporter": "py-spy@0.4.3",
        "shared": {"frames": [{"name": n, "file": f, "line": line} for n, f, line in frames]},
        "profiles": [
            {
                "type": "sampled",
                "name": "MainThread",
                "unit": "seconds",
                "startValue": 0,
                "endValue": sum(weights.values()),
                "samples": [[frames.index(frame) for frame in stack] for stack in weights],
                "weights": list(weights.values()),
            }
        ],
    }
    path.write_text(json.dumps(document))
    return str(path)
