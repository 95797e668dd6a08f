"""The report's page, used as a person uses it, on real recordings and on simulated ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import sightline as door
from sightline.core.units import format_bytes, format_ns
from sightline.views.html import page as html
from support import traces
from support.campaigns import sample
from support.command import stats
from support.places import EXAMPLES, ROOT
from support.profiled import with_code
from support.simulated import simulated
from synth import SCENARIOS, kineto
from web.use import clean, panels, shown, until, visit, write

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.pages]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
EVIL = "</script><script>window.owned=1</script><img src=x onerror=window.owned=1>\"'&`${1};"

CORPUS = {
    "bert": "kineto/AMD-AGI__TraceLens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "megatron": "kineto/astra-sim__astra-sim/megatron-tp8",
    "resolver": "kineto/facebookresearch__HolisticTraceAnalysis/df_index_resolver",
    "nsys": "nsys/GindaChen__nsys-ai/tests/fixtures/h100_2gpu_1s.sqlite",
    "ncu": "ncu/EleutherAI__cookbook/sizing/profiles/cutlassTiles.ncu-rep",
}
EXPECTED = {
    "bert": {"summary", "timeline", "kernels", "ops", "idle", "flame", "copies", "steps", "memory",
             "recording"},
    "megatron": {"summary", "timeline", "kernels", "ops", "idle", "flame", "copies",
                 "communication", "steps", "recording"},
    "resolver": {"summary", "timeline", "kernels", "ops", "idle", "flame", "recording"},
    "nsys": {"summary", "timeline", "kernels", "idle", "flame", "copies", "recording"},
    "ncu": {"summary", "kernels", "profile", "flame", "roofline", "recording"},
}  # fmt: skip


@pytest.fixture(scope="module")
def loading(tmp_path_factory) -> Path:
    """A simulated program that waits for its data."""
    folder = tmp_path_factory.mktemp("report")
    files = kineto.write(SCENARIOS["dataloader_starved"](), folder, dialect="2025")
    return write(folder / "report.html", *files)


# -- real recordings ------------------------------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.parametrize("name", sample(list(CORPUS), 2))
def test_every_panel_of_a_real_recording_renders(opened, corpus, tmp_path, name):
    result = shown(opened, write(tmp_path / "r.html", corpus / CORPUS[name]))
    page = result.page
    assert EXPECTED[name] <= set(panels(page))
    for panel in panels(page):
        visit(page, panel)
        assert len(page.inner_text(f"#panel-{panel}").split()) > 3, panel
    clean(result)
    if page.evaluate("!sightline.timeline"):
        return
    run = door.open(str(corpus / CORPUS[name]))
    rows = sum(run.rows(t) for t in ("device_ops", "host_ops", "device_ranges"))
    count = page.evaluate("sightline.timeline.model.fullZoomCount()")
    assert count == {"single": rows, "several": 0, "stated": rows}


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "theme"),
    [
        ("two kernels", "dark"),
        *(
            pytest.param(name, theme, marks=pytest.mark.campaign)
            for name, theme in [
                ("bert", "light"),
                ("bert", "dark"),
                ("megatron", "light"),
                ("megatron", "dark"),
                ("ncu", "light"),
                ("ncu", "dark"),
            ]
        ),
    ],
)
def test_no_violation_of_accessibility(opened, corpus, tmp_path, name, theme):
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci in web/")
    if name in CORPUS:
        recording = corpus / CORPUS[name]
    else:  # all of Nsight Compute's panels, and few rows in each
        recording = tmp_path / "r.ncu-rep"
        recording.write_bytes(with_code())
    page = shown(opened, write(tmp_path / "r.html", recording), color_scheme=theme).page
    page.evaluate(AXE.read_text())
    # The themes differ in their colours only.
    rules = [] if theme == "light" else ["color-contrast"]
    for panel in panels(page):
        visit(page, panel)
        found = page.evaluate(
            "async rules => (await axe.run(rules.length ? {runOnly: rules} : {})).violations"
            ".map(v => [v.id, v.impact, v.nodes[0].html])",
            rules,
        )
        assert found == [], panel


# -- what a person does ---------------------------------------------------------------------------


def test_the_answer_comes_first(opened, loading):
    result = shown(opened, loading)
    text = result.page.inner_text("#panel-summary")
    assert text.index("The GPU computes for") < text.index("Where the time went")
    assert "data loading" in text.lower() or "dataloader" in text.lower()
    clean(result)


def test_search_steps_through_the_instances(opened, loading):
    page = shown(opened, loading, "#p=timeline").page
    page.fill("#timeline-search", "layer_norm")
    page.locator(".controls output", has_text="events").wait_for()
    # What is typed is shown at its first place, without a key more.
    name = page.locator(".event .name").first.inner_text()
    assert "layer_norm" in name
    first = page.evaluate("sightline.timeline.selected")
    page.press("#timeline-search", "Enter")
    second = page.evaluate("sightline.timeline.selected")
    assert first != second
    times = page.evaluate(f"[{first}, {second}].map(i => sightline.timeline.model.start[i])")
    assert times[0] < times[1]
    page.get_by_role("button", name="‹ previous").click()
    assert page.evaluate("sightline.timeline.selected") == first


def test_kernels_have_short_names_and_the_full_ones_a_key_away(opened, tmp_path):
    full = "void at::native::elementwise_kernel<4, at::native::FillFunctor<float>, X<{}> >(int)"
    events = [traces.kernel(full.format(n), 10 * n, 5) for n in range(3)]
    target = write(tmp_path / "names.html", traces.write(tmp_path, events))
    page = shown(opened, target).page
    visit(page, "kernels")
    names = page.locator("section.table .link")
    assert sorted(names.all_inner_texts())[0] == "elementwise_kernel<FillFunctor, X<0>>"
    page.get_by_role("button", name="Full names").press("Enter")
    assert sorted(names.all_inner_texts()) == [full.format(n) for n in range(3)]
    page.get_by_role("button", name="Full names").press("Enter")
    assert sorted(names.all_inner_texts())[2] == "elementwise_kernel<FillFunctor, X<2>>"


def test_a_kernel_leads_to_its_launch_and_back(opened, loading):
    page = shown(opened, loading, "#p=timeline").page
    kernel = page.evaluate(
        "sightline.timeline.model.link.findIndex((v, i) => v > 0 && "
        "sightline.timeline.model.fullName(i).includes('gemm'))"
    )
    page.evaluate(f"sightline.timeline.select({kernel})")
    assert "grid" in page.inner_text(".event dl")
    page.locator(".event button", has_text="launched by").click()
    assert "cudaLaunchKernel" in page.inner_text(".event .name")
    page.locator(".event button", has_text="launches").click()
    assert page.evaluate("sightline.timeline.selected") == kernel


def test_wheel_keys_and_drag_move_the_view(opened, loading):
    page = shown(opened, loading, "#p=timeline").page
    box = page.locator("canvas.rows").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    span = "sightline.timeline.shown[1] - sightline.timeline.shown[0]"
    before = page.evaluate(span)
    page.mouse.move(*middle)
    page.mouse.wheel(0, -400)
    until(page, f"{span} < {before} * 0.9")
    left = page.evaluate("sightline.timeline.shown[0]")
    page.mouse.down()
    page.mouse.move(middle[0] - 120, middle[1], steps=4)
    page.mouse.up()
    assert page.evaluate("sightline.timeline.shown[0]") > left
    page.focus("canvas.rows")
    narrow = page.evaluate(span)
    page.keyboard.down("w")
    until(page, f"{span} < {narrow} * 0.9")
    page.keyboard.up("w")
    page.keyboard.press("0")
    assert page.evaluate(span) >= before * 0.99


def test_the_whole_window_selected_is_the_breakdown_to_the_nanosecond(opened, loading, tmp_path):
    files = kineto.write(SCENARIOS["exposed_communication"](), tmp_path, dialect="2025")
    page = shown(opened, write(tmp_path / "r.html", *files), "#p=timeline").page
    windows = page.evaluate("sightline.timeline.model.block.windows")
    for row, window in zip(stats("breakdown", *files), windows, strict=True):
        page.evaluate(f"sightline.timeline.selectRange({window['start']}, {window['end']})")
        line = page.locator(".range tbody tr", has_text=f"rank {row['rank']} ")
        cells = line.locator("td").evaluate_all("all => all.map(c => c.firstChild.textContent)")
        parts = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
        assert cells == [format_ns(row[p]) for p in parts]


def test_the_device_stays_in_view_while_deep_stacks_scroll(opened, tmp_path):
    deep = [traces.op(f"level {i}", i, 200 - 2 * i) for i in range(60)]
    trace = traces.write(
        tmp_path, [*deep, traces.launch(70, 5, 1), traces.kernel("gemm", 90, 20, 1)], name="t.json"
    )
    page = shown(opened, write(tmp_path / "r.html", trace), "#p=timeline").page
    page.evaluate("sightline.timeline.pan(0, -300)")
    until(page, "sightline.timeline.scroll > 100")
    page.wait_for_timeout(50)
    kernel = page.evaluate("sightline.timeline.model.cls.indexOf(0)")
    x, y = page.evaluate(
        f"""() => {{
          const t = sightline.timeline, e = t.model.ev({kernel}), [a, b] = t.shown;
          const wide = t.canvas.clientWidth - t.gutter, middle = (e.start + e.end) / 2;
          return [t.gutter + wide * (middle - a) / (b - a), 36 + t.layout.laneY[e.lane] + 8];
        }}"""
    )
    box = page.locator("canvas.rows").bounding_box()
    page.mouse.click(box["x"] + x, box["y"] + y)
    until(page, f"sightline.timeline.selected === {kernel}")
    # To its call, which is far below: it is brought into view, and not behind what stays.
    page.locator(".event button", has_text="launched by").click()
    page.evaluate("void (window.t = sightline.timeline)")
    place = "{y: t.layout.laneY[t.chosen.lane], h: 0}"
    seen = f"t.layout.seen({place}, t.scroll, t.canvas.clientHeight - 36)"
    until(page, f"t.chosen.cls === 7 && {seen}")


@pytest.mark.parametrize("width", [1200, 1440, 390])
def test_the_rows_stay_where_they_are(opened, loading, width):
    """What the bar says of the view comes after the rows, and takes no line from them."""
    options = {"viewport": {"width": width, "height": 800}}
    page = shown(opened, loading, "#p=timeline", **options).page
    box = "JSON.stringify(document.querySelector('canvas.rows').getBoundingClientRect())"
    page.evaluate("document.querySelector('.drawn').textContent = ''")
    before = page.evaluate(box)
    page.evaluate("sightline.timeline.bar.said({single: 9999999, several: 9999999})")
    until(page, "document.querySelector('.drawn').textContent.includes('merged')")
    assert page.evaluate(box) == before


def test_a_drag_on_the_ruler_selects_a_range(opened, loading):
    page = shown(opened, loading, "#p=timeline").page
    box = page.locator("canvas.rows").bounding_box()
    page.mouse.move(box["x"] + 400, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 700, box["y"] + 10, steps=5)
    page.mouse.up()
    assert "selected" in page.inner_text(".range")
    # The footer stands below the rows and never on them.
    foot = page.locator(".timeline-foot").bounding_box()
    rows = page.locator("canvas.rows").bounding_box()
    assert foot["y"] >= rows["y"] + rows["height"] - 1


def test_a_link_brings_the_same_view_back(opened, loading):
    page = shown(opened, loading, "#p=timeline").page
    page.fill("#timeline-search", "gemm")
    page.press("#timeline-search", "Enter")
    page.evaluate("sightline.timeline.showRange(1000000, 3000000)")
    page.click("#copy-link")
    fragment = "#" + page.url.split("#", 1)[1]
    again = shown(opened, loading, fragment).page
    for what in ("shown", "selected", "choice"):
        one, two = (p.evaluate(f"sightline.timeline.{what}") for p in (page, again))
        assert json.dumps(one)[:40] == json.dumps(two)[:40], what
    assert again.input_value("#timeline-search") == "gemm"


def test_a_table_sorts_filters_and_shows_instances(opened, loading):
    page = shown(opened, loading, "#p=kernels").page
    totals = "#panel-kernels tbody tr td:nth-child(2)"
    page.get_by_role("button", name="instances").click()
    numbers = [int(t.replace(",", "")) for t in page.locator(totals).all_inner_texts()]
    assert numbers == sorted(numbers, reverse=True)
    rows = {r["name"]: r for r in stats("kernels", *sorted(loading.parent.glob("*.json*")))}
    page.locator("#panel-kernels button.link").first.click()
    page.wait_for_selector(".instances figure")
    name = page.inner_text(".instances .name")
    assert page.inner_text(".instances h3") == f"{rows[name]['instances']:,} instances"


def test_a_kernel_opens_beside_the_table(opened, loading):
    page = shown(opened, loading, "#p=kernels", viewport={"width": 1280, "height": 800}).page
    page.locator("#panel-kernels button.link").nth(1).click()
    page.wait_for_selector(".instances figure svg")
    table, beside = (page.locator(c).first.bounding_box() for c in (".split table", ".instances"))
    assert beside["x"] > table["x"] + 400
    assert abs(beside["y"] - page.locator(".split").bounding_box()["y"]) < 5
    assert page.locator("tr.chosen").count() == 1
    # As a drawing of its own: colours in it, nothing from outside.
    with page.expect_download() as saved:
        page.locator(".instances button", has_text="Save SVG").click()
    text = Path(saved.value.path()).read_text()
    assert text.startswith("<svg")
    assert "var(" not in text
    assert text.count("rgb(") > 5
    page.get_by_role("button", name="Close").click()
    assert page.locator("tr.chosen").count() == 0
    assert page.inner_text(".instances") == ""


def test_a_kernel_profile_has_its_code_with_heat(opened, tmp_path):
    recording = tmp_path / "r.ncu-rep"
    recording.write_bytes(with_code())
    page = shown(opened, write(tmp_path / "r.html", recording), "#p=profile").page
    lead = page.locator("#panel-profile .lead").inner_text()
    assert lead.startswith("Warps wait mostly in long_scoreboard")
    assert (
        page.locator("#panel-profile section.table").count() == 1
    )  # the lines; the rest is folded
    # Drawn as it is clicked, not a task later: what asks at once finds it whole.
    click = (
        "all => { all[0].click(); return all[0].parentElement.querySelectorAll('tbody tr').length }"
    )
    assert page.locator("#panel-profile summary", has_text="Code").evaluate_all(click) > 1
    code = page.locator("#panel-profile section.table", has_text="Instructions (SASS)")
    heat = "all => all.map(c => [c.textContent, c.style.getPropertyValue('--heat')])"
    cells = dict(code.locator("tbody td:nth-child(7)").evaluate_all(heat))
    # Bars are parts of the largest: 30 of 33 samples, and 3 of them.
    assert cells["90.9 %"] == "100.0%"
    assert cells["9.1 %"] == "10.0%"


def test_a_finding_says_cost_and_gain_in_the_same_units(opened, loading):
    page = shown(opened, loading).page
    figures = page.locator(".card .figures").first.inner_text()
    number = r"[\d.]+ (?:s|ms|µs) \([\d.]+ %\)"
    saved = rf"could save (?:up to {number}|all of it)"
    form = rf"costs {number} of the window {saved} confidence (?:low|medium|high)"
    assert re.fullmatch(form, " ".join(figures.split())), figures


def test_numbers_read_as_the_terminal_writes_them(opened, loading):
    page = shown(opened, loading).page
    times = [
        0,
        1,
        999,
        1000,
        999_499,
        999_500,
        1_000_000,
        12_345_678,
        999_500_000,
        10**10,
        2.5,
        0.5,
    ]
    sizes = [0, 1, 999, 1000, 25_480_000_000, 999_500, 10**16]
    for unit, values, form in (("ns", times, format_ns), ("bytes", sizes, format_bytes)):
        got = page.evaluate(f"{values}.map(v => sightline.format.amount('{unit}', v))")
        assert got == [form(v) for v in values]


@pytest.mark.parametrize(("width", "height"), [(360, 740), (1920, 1080)])
def test_phone_and_projector_need_no_sideways_scroll(opened, loading, width, height):
    page = shown(opened, loading, viewport={"width": width, "height": height}).page
    for panel in panels(page):
        visit(page, panel)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, panel


def test_printing_shows_every_panel(opened, loading):
    """All of it when the event ends: paper waits for no frame."""
    page = shown(opened, loading, color_scheme="dark").page
    page.emulate_media(media="print")
    drawn = page.evaluate(
        """() => {
          window.dispatchEvent(new Event('beforeprint'));
          const canvas = document.querySelector('canvas.rows');
          const dots = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          const boxes = [...document.querySelectorAll('#chart rect')];
          return {
            hidden: [...document.querySelectorAll('.panel')].filter(p => p.hidden).length,
            colours: new Set(new Uint32Array(dots.data.buffer)).size,
            flame: Math.max(...boxes.map(b => Number(b.getAttribute('width')))),
            theme: document.documentElement.dataset.theme,
            folded: [...document.querySelectorAll('.card details')].filter(d => !d.open).length,
          };
        }"""
    )
    assert drawn["hidden"] == 0
    assert drawn["folded"] == 0
    assert drawn["colours"] > 20
    assert drawn["flame"] > 500
    assert drawn["theme"] == "light"
    for what in ("thead th button", "button.link"):
        assert page.locator(f"#panel-kernels {what}").first.is_visible(), what
    assert len(page.pdf()) > 10_000
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator(".panel:visible").count() == 1
    assert page.locator(".card details[open]").count() == 0


def test_the_keyboard_reaches_everything(opened, loading):
    page = shown(opened, loading).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(6):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#panels') !== null")
    page.keyboard.press("Enter")
    assert page.evaluate("document.body.dataset.panel") != "summary"
    assert page.evaluate("document.activeElement.tagName") == "H2"


# -- names ----------------------------------------------------------------------------------------


def test_markup_in_any_text_stays_text(opened, tmp_path):
    huge = "void k<" + "a" * 10_000 + EVIL + ">(int)"
    trace = traces.write(
        tmp_path,
        [
            traces.step(1, 0, 200),
            traces.op(
                EVIL, 1, 90, **{"Input Dims": [[EVIL]], "Input type": [EVIL], "Call stack": EVIL}
            ),
            traces.host("user_annotation", EVIL, 2, 50),
            traces.host("python_function", f"{EVIL}(3): {EVIL}", 3, 40),
            traces.launch(5, 5, 1),
            traces.kernel(
                EVIL,
                20,
                30,
                1,
                **{"Collective name": EVIL, "dtype": EVIL, "Process Group Name": EVIL},
            ),
            traces.kernel(huge, 60, 30, 2),
            traces.copy(f"Memcpy HtoD ({EVIL})", 100, 20, 1000),
            {"ph": "C", "name": EVIL, "pid": 0, "ts": 5, "args": {EVIL: 3}},
            {
                "ph": "M",
                "name": "thread_name",
                "pid": traces.PID,
                "tid": traces.TID,
                "args": {"name": EVIL},
            },
        ],
        name="evil & 'name'.json",
        deviceProperties=[{"id": 0, "name": EVIL}],
    )
    result = shown(opened, write(tmp_path / "r.html", trace))
    page = result.page
    for panel in panels(page):
        visit(page, panel)
        for button in page.locator(f"#panel-{panel} button.link").all():
            button.click()
    visit(page, "timeline")
    for event in range(page.evaluate("sightline.timeline.model.size")):
        page.evaluate(f"sightline.timeline.select({event})")
    assert page.evaluate("window.owned") is None
    assert page.locator("img[src=x]").count() == 0
    clean(result)
    names = page.evaluate("sightline.timeline.model.block.names")
    assert EVIL in names
    assert huge in names


def test_the_first_finding_is_readable_before_the_script_has_run(
    opened, browser, tmp_path, monkeypatch
):
    """What is painted first is at the place where the script draws it."""
    monkeypatch.setattr(html, "FIRST_VIEW_BYTES", 0)
    target = tmp_path / "page.html"
    target.write_bytes(html.write(simulated("dataloader_starved").run))
    after = shown(opened, target).page
    context = browser.new_context(
        viewport={"width": 1200, "height": 800}, java_script_enabled=False
    )
    early = context.new_page()
    early.goto(f"file://{target}")
    for part in (
        "h2",
        ".lead",
        ".card h3",
        ".card .figures",
        ".card header + p",
        "#panels li + li",
    ):
        selector = part if part[0] == "#" else f"main section:not([hidden]) {part}"
        one, two = (page.locator(selector).first for page in (early, after))
        assert one.inner_text() == two.inner_text(), part
        assert one.bounding_box() == two.bounding_box(), part
    context.close()


def test_on_a_phone_the_link_of_the_panel_that_is_shown_is_in_sight(opened, loading):
    size = {"width": 390, "height": 844}
    page = shown(opened, loading, "#p=recording", viewport=size).page
    left, right = page.eval_on_selector(
        "#panels a[aria-current]",
        "a => { const b = a.getBoundingClientRect(); return [b.left, b.right] }",
    )
    assert left >= 0
    assert right <= size["width"]


def test_a_phone_sees_what_counts_first_and_whole_words(opened, loading):
    """The kernels' total beside their names, and no name that is broken within a word."""
    page = opened(loading, "#p=kernels", viewport={"width": 390, "height": 844}).page
    heads = page.locator("#panel-kernels table").first.locator("thead th")
    assert [text.strip() for text in heads.all_inner_texts()[:2]] == ["name", "total"]
    assert page.evaluate(
        """() => [...document.querySelectorAll("#panel-kernels td button.link")].every((button) =>
            [...button.childNodes].filter((n) => n.nodeType === 3).every((node) => {
                const range = document.createRange();
                range.selectNodeContents(node);
                return range.getClientRects().length <= 1;
            }))"""
    )


def test_what_does_not_fit_on_paper_is_left_out_and_said(opened, tmp_path):
    """The table of collectives is wider than a sheet, at whose edge it would be cut."""
    page = shown(opened, write(tmp_path / "r.html", EXAMPLES / "simulated-straggler")).page
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    wide = [
        table
        for table in page.query_selector_all(".scroll > table")
        if len(table.query_selector_all("thead th")) > 16
    ]
    assert wide
    for table in wide:
        heads = [head for head in table.query_selector_all("thead th") if head.is_visible()]
        assert len(heads) == 16
    assert "The first 16 of " in page.inner_text("body")
