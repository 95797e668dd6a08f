"""Every file of other vendors' and frameworks' tools gives a report, or one sentence why not."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import SightlineError
from support.campaigns import CAMPAIGNS
from support.command import sightline as run_command
from support.corpus import list_recordings, name_recording

pytestmark = pytest.mark.corpus
FOLDERS = (
    "caliper_etc",
    "chakra_et",
    "dcgm",
    "deepspeed_flops",
    "energy",
    "hpctoolkit",
    "intel_unitrace",
    "otf2",
    "perfetto",
    "projections",
    "prometheus",
    "proton",
    "rocpd",
    "rocprof_att",
    "rocprof_compute",
    "rocprof_legacy",
    "rocprofv3",
    "smi",
    "tritonparse",
    "xplane",
)
# Says only that nothing is known of a file, which is no reason.
NO_REASON = ("of no known format", "Traceback")
# Texts that are no file of any tool: a README, the corpus' own lists.
NOT_RECORDED = (
    "MANIFEST.md",
    "README.md",
    "mock_rapl_data.txt",
    "mock_rapl_data_max.txt",
    "nv_metric.txt",
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_gives_a_report_or_a_reason(folder: str) -> None:
    files = list_recordings(f"{folder}/**/*")
    assert files
    silent = {
        name_recording(path): said
        for path in files
        if path.name not in NOT_RECORDED and (said := ask(path)) is not None
    }
    assert silent == {}


@pytest.mark.parametrize("path", list_recordings("**/*", damaged=True), ids=name_recording)
def test_what_the_manifest_calls_damaged_is_refused_in_a_sentence_or_read_with_a_note(
    path: Path,
) -> None:
    try:
        run = sightline.open(str(path))
    except SightlineError as error:
        assert path.name in str(error)
    else:
        assert run.rows("quality") > 0


def ask(path: Path) -> str | None:
    """What is wrong with the answer; None where it is a report, or a sentence with a reason."""
    if CAMPAIGNS:
        outcome = run_command("report", path)
        return None if outcome.code == 0 else judge(outcome.err)
    try:
        run = sightline.open(str(path))
    except SightlineError as error:
        return judge(str(error))
    notes = {note["kind"] for note in run.table("quality").iter_rows(named=True)}
    empty = not any(run.rows(t) for t in run.present() if t not in ("recordings", "quality"))
    return f"empty, with {notes}" if empty and "truncated" in notes else None


def judge(said: str) -> str | None:
    """What was said, where it is no reason."""
    return said if any(words in said for words in NO_REASON) or not said.strip() else None
