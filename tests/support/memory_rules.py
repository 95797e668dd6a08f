"""One rule about memory asked of one recording, and what it must answer, in bytes."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from support.rules import answers


def assert_finds(
    run: Run,
    rule: str,
    *,
    cost_bytes: int,
    gain_bytes: int | None,
    evidence: Sequence[str],
    fix: str,
) -> Finding:
    """The rule makes one finding, with these sizes and these words; return it."""
    (found,) = answers(run, rule)
    assert not found.abstained, found.reason
    plain = found.to_dict()
    assert (found.rule, plain["cost_bytes"], plain["gain_bytes"]) == (rule, cost_bytes, gain_bytes)
    lines = "\n".join((found.summary, *found.evidence))
    assert [words for words in evidence if words not in lines] == [], lines
    assert fix in (found.fix or "")
    assert found.verify
    return found
