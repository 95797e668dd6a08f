"""The report opened from disk in Firefox: every panel renders, nothing complains."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

import sightline as door
from support.command import sightline
from synth import SCENARIOS, kineto
from web import firefox
from web.conftest import ASSETS

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.pages]


def test_the_report_opens_in_firefox(tmp_path):
    if firefox.command() is None:
        pytest.skip("no Firefox on this machine")
    if not (ASSETS / "report.html").is_file():
        pytest.skip("the pages are not built: python scripts/build_web.py")
    files = kineto.write(SCENARIOS["exposed_communication"](), tmp_path, dialect="2025")
    target = tmp_path / "report.html"
    assert sightline("report", *files, "-o", target).code == 0
    run = door.open(*map(str, files))
    rows = sum(run.rows(t) for t in ("device_ops", "host_ops", "device_ranges"))
    with firefox.opened() as page:
        page.do("WebDriver:Navigate", {"url": f"file://{target}"})
        page.until("return document.body.dataset.timeline === 'yes'")
        names = page.run(
            "return [...document.querySelectorAll('#panels a')].map(a => a.hash.slice(3))"
        )
        assert {"summary", "timeline", "kernels", "communication", "flame"} <= set(names)
        for name in names:
            page.run(f"document.querySelector('#panels a[href=\"#p={name}\"]').click()")
            if name == "flame":
                page.until("return document.querySelector('.flame[data-ready]') !== null")
            text = page.run(f"return document.querySelector('#panel-{name}').innerText")
            assert len(text.split()) > 3, name
            _picture(page, name)
        count = page.run("return JSON.stringify(sightline.timeline.model.fullZoomCount())")
        assert count == f'{{"single":{rows},"several":0,"stated":{rows}}}'
        assert page.errors() == []


def _picture(page: firefox.Firefox, name: str) -> None:
    """A picture of the panel to look at, in the folder that SIGHTLINE_PICTURES names."""
    folder = os.environ.get("SIGHTLINE_PICTURES")
    if folder:
        taken = page.do("WebDriver:TakeScreenshot", {"full": False})["value"]
        Path(folder, f"firefox-{name}.png").write_bytes(base64.b64decode(taken))
