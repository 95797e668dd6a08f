"""Calls by the names that people write: without the version that Nsight Systems adds."""

from __future__ import annotations

import re
from dataclasses import replace

from sightline.core.model.declare import Finding

# CUPTI names callbacks of the runtime by the version in which a call last changed
# (cudaMemcpyAsync_v3020, cudaGraphLaunch_v10000); cuMemAlloc_v2 is a name of the driver itself.
_VERSION = re.compile(r"\b(cuda[A-Z]\w*?)_v\d{4,5}\b")


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
    return None if text is None else _VERSION.sub(r"\1", text)
