"""One rule asked of one recording, and what it must answer, in the terms of a finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.core import registry
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.errors import MissingDataError


def answers(run: Run, rule: str) -> list[Finding]:
    """All that the rule says of the run. Missing data raises, as it does for the caller."""
    return list(registry.load("rules", rule.replace("-", "_")).check(run))


def assert_speaks(
    run: Run,
    rule: str,
    *,
    cost_ns: int,
    gain_ns: int | None,
    evidence: Sequence[str],
    fix: str,
    **fields: Any,
) -> Finding:
    """The rule makes one finding, with these numbers and these words; return it.

    Each text of `evidence` stands in the summary or in the evidence, and `fix` in the fix: the
    facts are fixed here, not the sentences around them. `fields` are other fields, exactly.
    """
    (found,) = answers(run, rule)
    assert not found.abstained, found.reason
    assert (found.rule, found.cost_ns, found.gain_ns) == (rule, cost_ns, gain_ns)
    lines = "\n".join((found.summary, *found.evidence))
    assert [words for words in evidence if words not in lines] == [], lines
    assert fix in (found.fix or "")
    assert found.verify
    assert {name: getattr(found, name) for name in fields} == fields
    return found


def assert_silent(run: Run, rule: str) -> None:
    """The rule has nothing to say, and nothing to ask for.

    >>> assert_silent(run, "tiny-kernels")
    """
    assert answers(run, rule) == []


def assert_abstains(run: Run, rule: str, reason: str) -> None:
    """The rule says that it could not look, and why, in these words among others."""
    try:
        (found,) = answers(run, rule)
    except MissingDataError as missing:
        assert reason in missing.sentence()
        return
    assert found.abstained
    assert reason in (found.reason or "")
