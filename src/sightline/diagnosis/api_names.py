"""Calls by the names that people write: without the version that Nsight Systems adds."""

from __future__ import annotations

import re
from dataclasses import replace

from sightline.core.model.declare import Finding
from sightline.timeline.api_calls import RUNTIME_VERSION

_VERSIONED = re.compile(rf"\b(cuda[A-Z]\w*?){RUNTIME_VERSION}\b")


def drop_versions(found: list[Finding]) -> list[Finding]:
    """The findings with calls named as the runtime's headers have them."""
    return [
        replace(
            finding,
            title=_drop(finding.title) or "",
            summary=_drop(finding.summary) or "",
            cause=_drop(finding.cause),
            fix=_drop(finding.fix),
            evidence=tuple(_drop(line) or "" for line in finding.evidence),
        )
        for finding in found
    ]


def _drop(text: str | None) -> str | None:
    return None if text is None else _VERSIONED.sub(r"\1", text)
