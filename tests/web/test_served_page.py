"""The served page in a browser: the same timeline, its events from the server."""

from __future__ import annotations

import threading

import pytest

import sightline as door
from sightline.views.serve import panels, serve
from synth import SCENARIOS, kineto
from web import million
from web.use import until

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.pages]


@pytest.fixture
def served(browser):
    """Open a run's served page; every request must stay with its server."""
    ends = []

    def open_run(run, fragment: str = "#p=timeline"):
        server = serve(run)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        context = browser.new_context(viewport={"width": 1200, "height": 800})
        ends.extend([context.close, server.shutdown, server.server_close])
        page = context.new_page()
        errors: list[str] = []
        page.on("console", lambda m: m.type == "error" and errors.append(m.text))
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.on("request", lambda r: r.url.startswith(server.url) or errors.append(r.url))
        page.goto(server.url + fragment)
        page.wait_for_selector("body[data-timeline]")
        return page, errors

    yield open_run
    for end in ends:
        end()


def test_what_is_drawn_at_full_zoom_is_what_the_tables_hold(served, tmp_path):
    million.write(tmp_path / "m.sightline", 30_000)
    run = door.open(str(tmp_path / "m.sightline"))
    page, errors = served(run)
    page.locator(".drawn", has_text="merged").wait_for()
    # Zoom in on a place, as a person does, until every event stands by itself.
    origin = run.table("host_ops").get_column("start_ns").min()
    for _ in range(20):
        page.evaluate("sightline.timeline.zoom(0.4, 700)")
        until(page, "sightline.timeline.source.settled")
        page.wait_for_timeout(150)  # it is said when the view rests
        if "merged" not in page.inner_text(".drawn"):
            break
    first, last = page.evaluate("sightline.timeline.shown")
    tables = [run.table(t) for t in ("device_ops", "host_ops")]
    rows = sum(
        t.filter((t["start_ns"] - origin <= last) & (t["end_ns"] - origin >= first)).height
        for t in tables
    )
    assert page.inner_text(".drawn") == f"in view: {rows} events"
    assert rows > 5
    # All of it, in slices, at the closest zoom.
    length = page.evaluate("sightline.timeline.length")
    counted = page.evaluate(
        """async (length) => {
          const all = new Map();
          for (let i = 0; i < 4; i++) {
            const from = Math.floor(i * length / 4), to = Math.ceil((i + 1) * length / 4);
            const model = await sightline.timeline.source.range(from, to, 0.1);
            const {single, several} = model.fullZoomCount();
            if (several) throw new Error("events stand together at full zoom");
            for (let k = 0; k < single; k++) all.set(model.ev(k).id, 1);
          }
          return all.size;
        }""",
        length,
    )
    assert counted == sum(t.height for t in tables)
    assert errors == []


def test_a_person_finds_the_same_things_as_in_the_file(served, tmp_path):
    files = kineto.write(SCENARIOS["dataloader_starved"](), tmp_path, dialect="2025")
    run = door.open(*map(str, files))
    page, errors = served(run, "#p=summary")
    page.wait_for_selector("#panel-summary[data-fetched=yes]")
    assert "The GPU computes for" in page.inner_text("#panel-summary")
    until(page, "sightline.timeline.walks.length > 0")
    page.locator(".card button.primary").first.click()
    page.locator(".walk .at", has_text=" of ").wait_for()
    # Search, step, and from a kernel to its call and back.
    page.fill("#timeline-search", "gemm")
    page.locator(".controls output", has_text="events").wait_for()
    page.press("#timeline-search", "Enter")
    page.wait_for_selector(".event dl")
    page.locator(".event button", has_text="launched by").click()
    page.locator(".event button", has_text="launches").wait_for()
    assert "cudaLaunchKernel" in page.inner_text(".event .name")
    page.locator(".event button", has_text="launches").click()
    page.locator(".event button", has_text="launched by").wait_for()
    page.evaluate("sightline.timeline.selectRange(0, sightline.timeline.length)")
    assert "selected" in page.inner_text(".range")
    page.click('#panels a[href="#p=kernels"]')
    page.wait_for_selector("#panel-kernels[data-fetched=yes]")
    page.locator("#panel-kernels button.link").first.click()
    page.wait_for_selector(".instances figure")
    page.click('#panels a[href="#p=sql"]')
    page.fill(".query", "SELECT count(*) AS operations FROM device_ops")
    page.press(".query", "Control+Enter")
    page.locator(".answer td", has_text=str(run.rows("device_ops"))).wait_for()
    assert errors == []


@pytest.mark.campaign
def test_a_panel_of_a_large_run_is_made_of_the_range_in_the_timeline(served, tmp_path, monkeypatch):
    million.write(tmp_path / "m.sightline", 9_000)
    monkeypatch.setattr(panels, "available_bytes", lambda: 2_000_000)
    monkeypatch.setattr(panels, "LEAST_OF_A_PART", 3_000)
    monkeypatch.setattr(panels.Panels, "large", property(lambda _: True))
    page, errors = served(door.open(str(tmp_path / "m.sightline")))
    page.click('#panels a[href="#p=ops"]')
    page.wait_for_selector("#panel-ops[data-fetched=yes]")
    assert "around the middle of the run" in page.inner_text("#panel-ops .note >> nth=0")
    page.evaluate("sightline.timeline.show(2e6, 5e6)")
    page.get_by_role("button", name="Use the range in the timeline").click()
    chosen = page.locator("#panel-ops .note", has_text="the range that you chose")
    chosen.wait_for()
    assert "from 2.000 ms to 5.000 ms" in chosen.inner_text()
    page.get_by_role("button", name="Back").click()
    page.locator("#panel-ops .note", has_text="around the middle of the run").wait_for()
    assert errors == []
