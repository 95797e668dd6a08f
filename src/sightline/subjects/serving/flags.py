"""The flag of each server that ends a problem: flags.tsv, a row for each rule and engine."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from sightline.core.model.run import Run
from sightline.timeline.engine_steps import list_engine_steps
from sightline.timeline.world import SERVING, read_world

ANY = "any"
_NAMED = {"tensorrt": "trtllm"}  # as the world calls it


class Flag(NamedTuple):
    """What to change, and who documents it."""

    fix: str
    source: str


def find_engine(run: Run) -> str:
    """The engine by its steps, else by the metrics' and the names' own words: 'any' if unknown."""
    steps = list_engine_steps(run)
    if steps.height and (engine := steps.item(0, "engine")) in ("vllm", "sglang", "trtllm"):
        return str(engine)
    metrics = run.table("counters", ["metric"]).get_column("metric").cast(str)
    for engine in ("vllm", "sglang", "trtllm"):
        if metrics.str.starts_with(f"{engine}:").any():
            return engine
    framework = read_world(run).framework
    return _NAMED.get(framework, framework) if framework in SERVING else ANY


def name_flag(run: Run, rule: str) -> Flag:
    """The fix of a rule in the words of the run's engine."""
    return find_flag(find_engine(run), rule)


def find_flag(engine: str, rule: str) -> Flag:
    """The fix of a rule in the words of an engine; of one that is not known, in anybody's."""
    flags = _read_flags()
    return flags.get((rule, engine)) or flags[rule, ANY]


@cache
def _read_flags() -> dict[tuple[str, str], Flag]:
    text = files(__package__).joinpath("flags.tsv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {(row["rule"], row["engine"]): Flag(row["fix"], row["source"]) for row in rows}
