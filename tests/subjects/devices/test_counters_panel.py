"""The counters' panel: what the system recorded of each CPU is drawn, too."""

from __future__ import annotations

from pathlib import Path

from sightline.core.page.series import make_tracks
from sightline.session import Session
from sightline.subjects.devices.panels import counters
from sightline.testing import open_rows
from sightline.views.html.view import PageView


def test_the_frequency_of_each_cpu_is_drawn(tmp_path: Path) -> None:
    """What LTTng's power_cpu_frequency becomes (formats/system/ctf/mappings/kernel.yaml)."""
    rows = [
        {"metric": "CPU frequency", "unit": "kHz", "source": cpu, "time_ns": t * 10**6, "value": v}
        for cpu in ("0", "1")
        for t, v in ((0, 800_000), (5, 3_200_000), (9, 1_600_000))
    ]
    ops = [{"name": "work", "layer": "os", "pid": 1, "tid": 1, "start_ns": 0, "end_ns": 10**7}]
    run = open_rows(tmp_path, counters=rows, host_ops=ops)
    view = PageView(run, Session.of(run).answer(()))
    drawn = [block["title"] for block in counters.data(view) if block["kind"] == "lines"]
    assert drawn == ["CPU frequency · 0", "CPU frequency · 1"]
    assert [track["group"] for track in make_tracks(view)] == ["Counters", "Counters"]
