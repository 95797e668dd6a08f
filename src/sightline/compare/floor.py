"""An A/A floor: how much runs of one program differ on one machine, kept as a small file."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.compare.comparability import check_sides
from sightline.compare.sample import Sample
from sightline.compare.statistics import Floor, estimate_floor
from sightline.errors import InputError, RequestError

SCHEMA = "sightline-floor/1"
# Of two runs the spread is known to a factor of ten and more; three are the fewest that help
# (Kalibera and Jones 2013).
MIN_RUNS = 3
_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class StoredFloor:
    """A floor, and the GPUs that it holds for."""

    floor: Floor
    devices: tuple[str, ...]


def calibrate_floor(samples: Sequence[Sample]) -> dict[str, Any]:
    """What is kept of equal runs. Raises RequestError where they are too few, or not equal."""
    if len(samples) < MIN_RUNS:
        raise RequestError(
            f"a floor needs {MIN_RUNS} runs of one program",
            why=f"{len(samples)} were given",
            hint="Record it several times, and give all:  --calibrate floor.json RUN RUN RUN",
        )
    for sample in samples[1:]:
        blocked = [c for c in check_sides(samples[:1], [sample]) if c.effect == "blocks"]
        if blocked:
            raise RequestError(
                f"{samples[0].name} and {sample.name} are not runs of one program",
                why=blocked[0].text,
            )
    floor = estimate_floor([[math.log(sample.length.mean) for sample in samples]])
    assert floor is not None, "three runs have a variance"
    return {
        "schema": SCHEMA,
        "runs": len(samples),
        "variance": floor.variance,
        "freedom": floor.freedom,
        "spread_pct": 100 * math.sqrt(floor.variance),
        "devices": sorted({name for sample in samples for name in sample.facts.devices}),
        "step_ns": [sample.step_ns for sample in samples],
    }


def read_floor(path: Path) -> StoredFloor:
    """A floor that was kept. Raises InputError where the file is none."""
    wrong = InputError(
        f"{path} is not a floor of sightline",
        hint="Make one:  sightline compare --calibrate floor.json RUN RUN RUN",
    )
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise wrong
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"cannot read {path}", why=(error.strerror or str(error)).lower()
        ) from error
    except ValueError as error:
        raise wrong from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise wrong
    variance, freedom, devices = (data.get(k) for k in ("variance", "freedom", "devices"))
    if (
        not isinstance(variance, int | float)
        or not isinstance(freedom, int)
        or not isinstance(devices, list)
        or not (math.isfinite(variance) and variance >= 0 and freedom >= 1)
    ):
        raise wrong
    return StoredFloor(Floor(float(variance), freedom), tuple(map(str, devices)))


def check_floor(stored: StoredFloor, samples: Sequence[Sample]) -> None:
    """Raise RequestError where a floor was made on other GPUs than these runs."""
    names = {name for sample in samples for name in sample.facts.devices}
    if names and stored.devices and names - set(stored.devices):
        ours, theirs = ", ".join(sorted(names)), ", ".join(stored.devices)
        raise RequestError(
            "the floor was made on another machine",
            why=f"it is of {theirs}, and these runs are of {ours}",
            hint="Make one there:  sightline compare --calibrate floor.json RUN RUN RUN",
        )
