"""Memory of compiled programs in real JAX profiles, against XProf's own memory viewer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline
from support.corpus import list_recordings

pytestmark = pytest.mark.corpus

# What XProf said of the same profiles: peak, total, parameters and outputs of each program.
XPROF = json.loads(Path(__file__).with_name("xprof_memory_viewer.json").read_text())["programs"]
# A temporary of 64 bytes whose heap XLA did not simulate: XProf counts it as nothing at the peak.
UNKNOWN = ("traces/mi300/jax_conv_minimal_legacy", "jit__multi_slice(13)")


@pytest.mark.parametrize("folder", XPROF)
def test_programs_take_what_xprof_says(folder: str) -> None:
    # The manifest has one profile in each of these folders: its file is named after a host.
    (path,) = list_recordings(f"xplane/AMD-AGI__TraceLens/{folder}/*.xplane.pb")
    rows = {
        row["program"]: row for row in sightline.open(str(path)).ask("program_memory").to_dicts()
    }
    for program, (peak, total, parameters, outputs) in XPROF[folder].items():
        row = rows.pop(program)
        assert row["total_bytes"] == total
        assert row["parameter_bytes"] == parameters
        assert row["output_bytes"] == outputs
        assert row["peak_bytes"] == (None if (folder, program) == UNKNOWN else peak)
    assert all(row["total_bytes"] < 1024 for row in rows.values())


def test_what_fills_the_largest(corpus: Path) -> None:
    """XProf names the same two buffers first, with the same line of the source."""
    folder = corpus / "xplane/AMD-AGI__TraceLens/traces/mi300/jax_conv_minimal_08"
    rows = sightline.open(str(folder / "tw003.xplane.pb")).ask("program_peak_buffers").head(2)
    assert rows.select("program", "buffer_kind", "shape", "bytes", "line").rows() == [
        ("jit_forward_3d_conv(15)", "output", "bf16[55862,5120]", 572_026_880, 23),
        ("jit_forward_3d_conv(15)", "temporary", "bf16[1,5120,34,31,53]", 572_026_880, 23),
    ]
