"""Some columns of an analysis, as rows."""

from __future__ import annotations

from typing import Any

from sightline.core.model.run import Run


def rows(run: Run, analysis: str, *fields: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """The answer's rows; all columns where no `fields` are named."""
    answer = run.ask(analysis, **parameters)
    return (answer.select(*fields) if fields else answer).rows()
