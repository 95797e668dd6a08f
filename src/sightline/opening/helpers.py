"""Recordings of processes that are not ranks, such as an inference server's front end, left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sightline.core.model.declare import Quality
from sightline.core.model.store import Member
from sightline.opening.given import Given

# vLLM's API server profiles itself beside its workers (vllm/v1/engine/async_llm.py: worker_name
# "HOST_PID.async_llm"); `sightline run --server` writes .frontend instead of the host's name.
_FRONTEND = re.compile(r"\basync_llm\b|\.frontend\b")


def drop_helpers(given: Sequence[Given]) -> list[Given]:
    """What was given without recordings of helpers; a note says which were left out, and why.

    A helper states no rank and used no device. It is one by its name, or where all ranks that the
    others say there are, are there. What is given alone is kept.
    """
    members = [member for one in given for member in one.members]
    helpers = _list_helpers(members)
    if not helpers or len(helpers) == len(members):
        return list(given)
    notes = [vars(_explain(member)) for member in helpers]
    kept = []
    for one in given:
        mine = [m for m in one.members if not any(m is helper for helper in helpers)]
        if mine and notes:
            first, *others = mine
            quality = [*first.facts.get("quality", ()), *notes]
            mine, notes = [first._replace(facts={**first.facts, "quality": quality}), *others], []
        if mine:
            kept.append(replace(one, members=mine))
    return kept


def _list_helpers(members: Sequence[Member]) -> list[Member]:
    ranked = [m.facts for m in members if m.facts.get("own_rank") is not None]
    sizes = {size for m in members if (size := m.facts.get("world_size")) is not None}
    stated = {facts["own_rank"] for facts in ranked}
    is_whole = len(sizes) == 1 and stated == set(range(max(sizes, default=0)))
    formats = {facts.get("format") for facts in ranked}

    def is_helper(facts: dict[str, Any]) -> bool:
        if facts.get("own_rank") is not None or facts["rows"].get("device_ops"):
            return False
        if _is_frontend(facts):
            return True
        alone = not facts.get("process") and not facts.get("of_host")
        return is_whole and alone and facts.get("format") in formats

    return [member for member in members if is_helper(member.facts)]


def _is_frontend(facts: dict[str, Any]) -> bool:
    return facts.get("format") == "kineto" and bool(
        _FRONTEND.search(Path(str(facts.get("path"))).name)
    )


def _explain(member: Member) -> Quality:
    path = Path(str(member.facts.get("path"))).name
    what = "is of no rank and used no GPU: it is left out"
    if _is_frontend(member.facts):
        what = "is of the server's front end, which runs no model: it is left out"
    return Quality("helper_process", "info", f"{path} {what}", None, "Open it alone to see it.")
