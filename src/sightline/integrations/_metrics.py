"""What a recording says as numbers and files, for trackers of experiments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.session import Session

PARTS = ("compute", "exposed_comm", "exposed_copy", "idle")
# Findings whose gain is sent: as many as the first screen shows.
_MOST_FINDINGS = 4


def read_metrics(run: Session) -> dict[str, float]:
    """Numbers of a run, named 'sightline/...': shares in % (means over devices), times in ms.

    What was not recorded is left out.
    """
    found: dict[str, float] = {}
    if run.rows("device_ops"):
        rows = run.ask("breakdown").to_dicts()
        found |= {f"sightline/{p}_pct": fmean(row[f"{p}_pct"] for row in rows) for p in PARTS}
        found["sightline/window_ms"] = fmean(row["window_ns"] for row in rows) / 1e6
    steps = _list_steps(run)
    if steps:
        found["sightline/step_ms"] = fmean(steps) / 1e6
    for finding in [f for f in run.findings() if f.gain_pct][:_MOST_FINDINGS]:
        found[f"sightline/could_save_pct/{finding.rule}"] = float(finding.gain_pct or 0)
    return found


def _list_steps(run: Session) -> list[int]:
    """How long the marked steps were, without the first, ns."""
    if not run.rows("host_ops"):
        return []
    table = run.table("host_ops", ["layer", "rank", "start_ns", "end_ns"]).to_dicts()
    marked = [row for row in table if row["layer"] == "step"]
    later = [row for row in marked if row["start_ns"] > min(m["start_ns"] for m in marked)]
    return [row["end_ns"] - row["start_ns"] for row in later]


@contextmanager
def write_files(run: Session) -> Iterator[list[Path]]:
    """The report as Markdown, and as one offline page, in a folder that goes with the block."""
    from sightline.views.html.page import write
    from sightline.views.markdown import write_markdown

    answer = run.answer()
    with TemporaryDirectory(prefix="sightline-") as folder:
        paths = [Path(folder) / "sightline.md", Path(folder) / "sightline.html"]
        paths[0].write_text(write_markdown(answer), encoding="utf-8")
        paths[1].write_bytes(write(run, answer))
        yield paths


def open_folder(folder: Any) -> Session:
    """The session of a recording, where it is not one already. Raises InputError."""
    from sightline.session import Session, open_session

    return folder if isinstance(folder, Session) else open_session([str(folder)])
