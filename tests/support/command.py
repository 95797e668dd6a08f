"""The command line, called in this process."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.doors.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """All of it with single blanks: where a line ends depends on how long its paths are."""
        return " ".join(f"{self.out} {self.err}".split())


def sightline(*words: str | Path) -> Outcome:
    """Run a command; an exception that it lets through fails the test, as it should."""
    # Tables are written as bytes, so standard output needs a real buffer below it.
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(w) for w in words])
        except SystemExit as end:  # argparse ends this way
            code = end.code if isinstance(end.code, int) else 1
    out.flush()
    data = out.buffer.getvalue()  # type: ignore[attr-defined]
    return Outcome(code or 0, data.decode("utf-8", "replace"), err.getvalue())


def stats(analysis: str, *words: str | Path) -> list[dict[str, Any]]:
    """The rows of an analysis, as `sightline stats ANALYSIS ... --format json` prints them."""
    outcome = sightline("stats", analysis, *words, "--format", "json")
    assert outcome.code == 0, outcome.err
    rows: list[dict[str, Any]] = json.loads(outcome.out)
    return rows
