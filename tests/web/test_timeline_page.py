"""The timeline of the page: walks through findings, rows, colours, memory, critical path."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import traces
from support.command import stats
from support.mpi_programs import Program, write_archive
from synth import SCENARIOS, kineto
from web.use import READY, until, write

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.pages]
PYTHON = "python_function"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("starved")
    return kineto.write(SCENARIOS["dataloader_starved"](), folder, dialect="2025")


@pytest.fixture(scope="module")
def visit(browser):
    """Open a page and give it: each test loads it anew, in a window that they share."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()

    def at(target: Path, fragment: str = "#p=timeline"):
        page.goto("about:blank")
        page.goto(f"file://{target}{fragment}")
        page.wait_for_selector(READY)
        return page

    yield at
    context.close()


@pytest.fixture(scope="module")
def starved(files) -> Path:
    return write(files[0].parent / "report.html", *files)


@pytest.fixture(scope="module")
def deep(tmp_path_factory) -> Path:
    """Two Python files and a module above 60 operators, one kernel, memory, a second thread."""
    folder = tmp_path_factory.mktemp("deep")
    allocation = {"Device Type": 1, "Device Id": 0, "Addr": 1, "Bytes": 512}
    events = [
        traces.host(PYTHON, "app/train.py(3): main", 0, 400),
        traces.host(PYTHON, "app/model.py(7): forward", 1, 390),
        traces.host(PYTHON, "nn.Module: Encoder_0", 2, 380),
        *[traces.op(f"level {i}", 3 + i, 300 - 2 * i) for i in range(60)],
        traces.launch(100, 5, 1),
        traces.kernel("gemm", 120, 20, 1),
        traces.host("cpu_op", "other", 5, 50, tid=9),
        traces.host("cpu_op", "inside", 6, 20, tid=9),
        *[
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t", "pid": traces.PID,
             "tid": traces.TID, "ts": ts, "args": {**allocation, "Total Allocated": total}}
            for ts, total in ((10, 512), (200, 1_536))
        ],
    ]  # fmt: skip
    return write(folder / "report.html", traces.write(folder, events, name="t.json"))


def place_of(page, event: str) -> tuple[float, float]:
    """Where the event of a name is on the screen."""
    return tuple(
        page.evaluate(
            """name => {
              const t = sightline.timeline, i = t.model.block.names.indexOf(name);
              const e = t.model.ev(t.model.name.indexOf(i)), [a, b] = t.shown;
              const box = t.canvas.getBoundingClientRect(), wide = box.width - t.gutter;
              const middle = (Math.max(e.start, a) + Math.min(e.end, b)) / 2;
              return [box.left + t.gutter + wide * (middle - a) / (b - a),
                      box.top + 36 + t.layout.toView(t.layout.laneY[e.lane], t.scroll) + 11];
            }""",
            event,
        )
    )


def colour_at(page, event: str) -> list[int]:
    x, y = place_of(page, event)
    return page.evaluate(
        """([x, y]) => {
          const c = sightline.timeline.canvas, box = c.getBoundingClientRect();
          const dot = c.getContext("2d").getImageData(x - box.left, y - box.top, 1, 1);
          return [...dot.data].slice(0, 3);
        }""",
        [x, y],
    )


def test_a_finding_is_walked_through_place_by_place(visit, starved):
    page = visit(starved, "#p=summary")
    card = page.locator(".card", has=page.locator("button.primary")).first
    text, title = card.locator("p").first.inner_text(), card.locator("h3").inner_text()
    count = int(card.locator("button.primary").inner_text().split()[2])
    card.locator("button.primary").click()
    page.locator(".walk .at").wait_for()
    assert page.inner_text(".walk .name") == title
    assert text in page.inner_text(".walk")
    # It begins with the longest, and goes on in order of time.
    longest = page.evaluate(
        "(w => w.to.map((b, i) => b - w.from[i]).reduce((a, v, i, all) => v > all[a] ? i : a, 0))"
        "(sightline.timeline.walk)"
    )
    assert page.inner_text(".walk .at") == f"{longest + 1} of {count}"
    seen = set()
    while page.locator(".walk button", has_text="previous").is_enabled():
        page.keyboard.press("p")
    for place in range(count):
        assert page.inner_text(".walk .at") == f"{place + 1} of {count}"
        first, last = page.evaluate("sightline.timeline.shown")
        walk = "sightline.timeline.walk"
        a, b = page.evaluate(f"[{walk}.from[{place}], {walk}.to[{place}]]")
        assert first < a <= b < last
        seen.add((a, b))
        page.keyboard.press("n")
    assert len(seen) == count
    assert page.locator(".walk button", has_text="next").is_disabled()
    # An event's details stand beside the finding's text; a link keeps both.
    page.keyboard.press("0")
    page.evaluate("sightline.timeline.select(3)")
    page.locator(".event dl").wait_for()
    page.click("#copy-link")
    again = visit(starved, "#" + page.url.split("#", 1)[1])
    assert again.inner_text(".walk .at") == f"{count} of {count}"
    assert again.locator(".event dl").count() == 1
    # Escape lets go of the event first, then of the finding.
    again.keyboard.press("Escape")
    assert again.locator(".walk").count() == 1
    again.keyboard.press("Escape")
    assert again.locator(".walk").count() == 0


def test_one_menu_is_open_inside_the_window_and_escape_closes_it(visit, starved):
    page = visit(starved)
    page.set_viewport_size({"width": 700, "height": 800})
    menus = page.locator("details.menu:visible")
    for i in range(menus.count()):
        menus.nth(i).locator("summary").click()
        until(page, "document.querySelectorAll('details.menu[open]').length === 1")
        assert menus.nth(i).get_attribute("open") is not None
        page.wait_for_timeout(30)
        box = menus.nth(i).locator("> div").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 700
    page.keyboard.press("Escape")
    until(page, "document.querySelectorAll('details.menu[open]').length === 0")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    menus.first.locator("summary").click()
    page.mouse.click(400, 600)
    until(page, "document.querySelectorAll('details.menu[open]').length === 0")
    page.set_viewport_size({"width": 1280, "height": 800})


def test_the_strip_of_the_whole_run_stands_above_the_rows(visit, starved):
    page = visit(starved)
    strip, rows = (page.locator(f"canvas.{c}").bounding_box() for c in ("minimap", "rows"))
    assert abs(strip["x"] - rows["x"]) <= 1
    assert abs(strip["width"] - rows["width"]) <= 2
    # The moment that stands above a place of the ruler is the one that a press goes to.
    x = rows["x"] + 0.7 * rows["width"]
    wanted = page.evaluate(f"sightline.timeline.moment({x - rows['x']})")
    page.evaluate("sightline.timeline.zoom(0.1, 300)")
    page.mouse.click(x, strip["y"] + 10)
    first, last = page.evaluate("sightline.timeline.shown")
    length = page.evaluate("sightline.timeline.length")
    assert abs((first + last) / 2 - wanted) < length / 300


def test_a_restored_selection_is_in_view(visit, deep):
    page = visit(deep)
    page.evaluate("void (window.m = sightline.timeline.model)")
    event = page.evaluate("m.name.indexOf(m.block.names.indexOf('level 58'))")
    page = visit(deep, f"#p=timeline&e={event}")
    page.evaluate("void (window.t = sightline.timeline)")
    place = "{y: t.layout.laneY[t.chosen.lane], h: 15}"
    until(page, f"t.layout.seen({place}, t.scroll, t.canvas.clientHeight - 51)")


def test_threads_close_and_rows_are_pinned(visit, deep):
    page = visit(deep)
    height = page.evaluate("sightline.timeline.layout.height")
    box = page.locator("canvas.rows").bounding_box()
    _, y = place_of(page, "app/train.py(3): main")
    page.mouse.click(box["x"] + 30, y)  # the thread's own label
    until(page, f"sightline.timeline.layout.height < {height} - 500")
    page.locator("summary", has_text="Rows").click()
    page.get_by_role("button", name="Open all threads").click()
    assert page.evaluate("sightline.timeline.layout.height") == height
    page.get_by_role("button", name="Close all threads").click()
    threads = "sightline.timeline.block.tracks.filter(t => t.kind === 'thread').length"
    rows = "sightline.timeline.layout.rows.filter(r => r.kind === 'lane' && r.h === 15).length"
    assert page.evaluate(rows) == page.evaluate(threads) == 2
    page.locator(".row-of", has_text="thread 9").get_by_role("button").click()
    top = page.evaluate("sightline.timeline.layout.rows.slice(0, 2).map(r => r.group ?? r.key)")
    assert top[0] == "Pinned"
    assert page.evaluate(f"sightline.timeline.block.tracks[{top[1]}].label") == "thread 9"
    page.keyboard.press("Escape")
    page.click("#copy-link")
    again = visit(deep, "#" + page.url.split("#", 1)[1])
    assert again.evaluate("sightline.timeline.layout.rows[0].group") == "Pinned"


def test_frames_are_coloured_by_layer_and_python_by_file(visit, deep):
    page = visit(deep)
    until(page, "sightline.timeline.frameTimes.length > 0")
    names = ("app/train.py(3): main", "app/model.py(7): forward", "nn.Module: Encoder_0", "level 0")
    colours = {name: tuple(colour_at(page, name)) for name in names}
    assert len(set(colours.values())) == 4, colours
    page.locator("summary", has_text="Colors").click()
    legend = page.inner_text(".colours")
    assert all(text in legend for text in ("app/train.py", "app/model.py", "module", "operator"))


def test_memory_is_a_row_that_tells_its_value(visit, deep):
    page = visit(deep)
    rows = "sightline.timeline.layout.rows"
    assert "Memory" in page.evaluate(f"{rows}.map(r => r.group)")
    page.locator("summary", has_text="Rows").click()
    page.locator(".row-of", has_text="GPU 0").last.get_by_role("button").click()
    page.keyboard.press("Escape")
    row = page.evaluate(f"{rows}[1]")
    assert row["kind"] == "counter"
    box = page.locator("canvas.rows").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 36 + row["y"] + 20)
    page.locator(".tip", has_text="1.536 kB").wait_for()


def test_the_critical_path_is_shown_and_walked(visit, starved, files):
    page = visit(starved)
    pieces = stats("critical_path", *files)
    page.get_by_role("button", name="Critical path").click()
    assert page.inner_text(".walk .name") == "Critical path"
    longest = max(pieces, key=lambda p: p["duration_ns"])
    at = pieces.index(longest) + 1
    assert page.inner_text(".walk .at") == f"{at} of {len(pieces)}"
    assert f"{longest['part']}: {longest['name']}" in page.inner_text(".walk")
    events = page.evaluate("sightline.timeline.pathEvents.map(e => sightline.timeline.label(e))")
    assert len(events) == len(pieces)
    assert all(events)
    page.keyboard.press("Escape")
    assert page.locator(".walk").count() == 0


def test_the_strip_of_findings_marks_their_places_and_nothing_else(visit, starved):
    page = visit(starved)
    until(page, "sightline.timeline.frameTimes.length > 0")
    marked, free = page.evaluate(
        """() => {
          const t = sightline.timeline, c = t.canvas.getContext("2d"), [a, b] = t.shown;
          const wide = t.canvas.clientWidth - t.gutter;
          const x = m => t.gutter + wide * (m - a) / (b - a);
          const dot = at => [...c.getImageData(at, 29, 1, 1).data].join();
          const places = t.walks.flatMap(w => [...w.from].map((from, i) => [x(from), x(w.to[i])]));
          const covered = at => places.some(([from, to]) => at >= from - 3 && at <= to + 6);
          const free = [];
          for (let at = t.gutter + 1; at < t.gutter + wide; at++)
            if (!covered(at)) free.push(dot(at));
          return [places.map(([from, to]) => dot((from + to) / 2)), free];
        }"""
    )
    assert len(marked) > 3
    assert len(free) > 20
    assert len(set(free)) == 1
    assert not set(marked) & set(free)  # places of two findings are darker


def test_a_message_leads_from_its_receive_to_its_send_and_back(visit, tmp_path):
    pytest.importorskip("otf2")
    program = Program(2)
    program.compute(1, 900_000)
    program.send(1, 0, 5, "synchronous")
    archive = write_archive(program, tmp_path / "archive")
    page = visit(write(tmp_path / "mpi.html", archive))
    select = (
        "sightline.timeline.select(sightline.timeline.model.link.findIndex((v, i) => v > 0 && "
        "sightline.timeline.model.fullName(i) === 'MPI_Recv'))"
    )
    page.evaluate(select)
    page.locator(".event button", has_text="receives from MPI_Ssend").wait_for()
    page.screenshot(path=str(tmp_path / "mpi.png"))
    assert page.inner_text(".event .chain").startswith("in main")
    page.locator(".event button", has_text="receives from").click()
    assert "MPI_Ssend" in page.inner_text(".event .name")
    page.locator(".event button", has_text="sends to MPI_Recv").click()
    assert "MPI_Recv" in page.inner_text(".event .name")
