"""The flame graph's page, used as a person uses it."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from sightline.flames import html
from sightline.flames.stacks import stack_paths
from support.command import sightline
from synth import kineto, scenarios

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.pages]
EVIL = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&;"


@pytest.fixture(scope="module")
def page_of(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("flame")
    kineto.write(scenarios.dataloader_starved(), folder, dialect="2025")
    target = folder / "flame.html"
    outcome = sightline("flame", folder, "-o", target)
    assert outcome.code == 0, outcome.err
    return target


def labels(page) -> list[str]:
    return page.eval_on_selector_all("g.frame", "all => all.map(g => g.getAttribute('name'))")


def test_opens_without_errors_or_network(opened, page_of):
    shown = opened(page_of)
    assert shown.page.get_attribute("body", "data-ready") == "yes"
    assert shown.errors == []
    assert [url for url in shown.requests if not url.startswith("file:")] == []
    assert "ampere_bf16_s16816gemm" in " ".join(labels(shown.page))
    assert "exact 100.0 %" in shown.page.inner_text("#grades")


def test_search_shows_its_share(opened, page_of):
    page = opened(page_of).page
    page.fill("#search", "layer_norm")
    page.locator("#found", has_text="%").wait_for()
    # 902.9 µs of 6.289 ms: the README's kernel table against the sum of all its rows.
    assert re.match(r"902\.9 µs, 14\.\d %", page.inner_text("#found"))
    page.keyboard.press("Escape")
    assert page.inner_text("#found") == ""


def test_zoom_breadcrumb_and_reset(opened, page_of):
    page = opened(page_of).page
    page.locator("g.frame[name^='aten::']").first.click()
    page.locator("#crumbs button").nth(1).wait_for()
    assert "z=" in page.url
    page.click("#reset")
    assert page.locator("#crumbs button").count() == 0
    assert "z=" not in page.url


def test_why_puts_kernels_below_and_totals_stay(opened, page_of):
    page = opened(page_of).page
    before = page.inner_text("#details")
    page.select_option("#order", "why")
    assert page.inner_text("#details") == before
    depth_one = page.eval_on_selector_all(
        "g.frame", "all => all.filter(g => g.__data__.depth === 1).map(g => g.getAttribute('name'))"
    )
    assert any("gemm" in name for name in depth_one)


def test_weights_and_layers_switch(opened, page_of):
    page = opened(page_of).page
    page.select_option("#weight", "gpu_idle_ns")
    assert page.inner_text("#details") == "GPU idle time: 11.16 ms"
    page.select_option("#weight", "gpu_time_ns")
    page.click("summary")
    page.get_by_label("framework operator or module").uncheck()
    assert not [name for name in labels(page) if name.startswith("aten::")]


def test_a_link_brings_the_same_picture_back(opened, page_of):
    page = opened(page_of).page
    page.select_option("#order", "why")
    page.locator("summary", has_text="View").click()
    page.check("#upward")
    page.fill("#search", "gemm")
    page.locator("#found", has_text="%").wait_for()
    again = opened(page_of, page.url[page.url.index("#") :]).page
    assert again.input_value("#order") == "why"
    assert again.is_checked("#upward")
    again.locator("#found", has_text="%").wait_for()
    assert again.inner_text("#found") == page.inner_text("#found")
    assert labels(again) == labels(page)


def test_keyboard_alone_is_enough(opened, page_of):
    page = opened(page_of).page
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("Escape")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert page.locator("#crumbs button").count() == 4
    assert "rank 0" not in page.inner_text("#details")


def test_narrow_and_dark(opened, page_of):
    shown = opened(page_of, viewport={"width": 390, "height": 800}, color_scheme="dark")
    assert shown.errors == []
    assert shown.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert shown.page.evaluate("document.body.scrollWidth") <= 400


def by_rank(steps: range, blocks: int = 2) -> list:
    """Stacks of two ranks whose steps, threads, streams and blocks have numbers of their own."""
    return [
        (
            [
                ("run", f"rank {rank}"),
                ("thread", f"thread {steps[0]}{rank}"),
                ("phase", f"ProfilerStep#{step}"),
                ("op", f"nn.Module: EncoderLayer_{block}"),
                ("device", f"GPU {rank} stream {steps[0]}"),
                ("kernel", "gemm"),
            ],
            "exact",
            {"samples": 10},
        )
        for rank in range(2)
        for step in steps
        for block in range(blocks)
    ]


def test_instances_stand_together_until_they_are_split(opened, tmp_path):
    target = tmp_path / "ranks.html"
    target.write_bytes(html.write(stack_paths(by_rank(range(3, 6))), "samples", "t"))
    page = opened(target).page
    assert labels(page) == [
        "all",
        "all 2 ranks",
        "all 2 threads",
        "ProfilerStep#*",
        "nn.Module: EncoderLayer_*",
        "all 2 streams",
        "gemm",
    ]
    page.check("#split")
    assert sum(name.startswith("nn.Module: EncoderLayer_") for name in labels(page)) == 12
    assert page.inner_text("#details") == "samples: 120 samples"
    page.select_option("#filters select >> nth=0", label="rank 1")
    assert page.inner_text("#details") == "samples: 60 samples"


def test_a_difference_aligns_runs_whose_numbers_differ(opened, tmp_path):
    before, after = (stack_paths(by_rank(steps)) for steps in (range(3, 6), range(107, 110)))
    target = tmp_path / "diff.html"
    target.write_bytes(html.write(after, "samples", "t", before=before))
    page = opened(target).page
    # The same work: nothing has grown, shrunk, come or gone.
    assert not [name for name in labels(page) if name[0] in "▲▼"]
    assert "ProfilerStep#*" in labels(page)


def test_the_root_is_in_view_and_the_page_looks_as_the_report_does(opened, page_of):
    page = opened(page_of, color_scheme="dark").page
    root = page.locator("g.frame[name='all']").bounding_box()
    assert 0 < root["y"] < 400
    style = "e => [getComputedStyle(e).fontFamily, getComputedStyle(e).color]"
    font, colour = page.locator(".d3-flame-graph-label").first.evaluate(style)
    assert font == page.evaluate("getComputedStyle(document.body).fontFamily")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.locator(".d3-flame-graph-label").first.evaluate(style)[1] != colour


def test_a_function_with_its_callers_and_callees(opened, tmp_path):
    stacks = stack_paths(
        [
            ([("op", "a"), ("op", "f"), ("kernel", "k1")], "exact", {"samples": 1}),
            ([("op", "b"), ("op", "f"), ("kernel", "k2")], "exact", {"samples": 2}),
            ([("op", "b"), ("op", "f"), ("op", "f"), ("kernel", "k2")], "exact", {"samples": 4}),
            ([("op", "b"), ("kernel", "k1")], "exact", {"samples": 8}),
        ]
    )
    target = tmp_path / "functions.html"
    target.write_bytes(html.write(stacks, "samples", "t"))
    page = opened(target).page
    page.select_option("#order", "function")
    cells = "all => all.map(r => [...r.cells].map(c => c.firstChild.textContent))"
    rows = page.locator("#function-table tbody tr").evaluate_all(cells)
    values = {name: (own, total) for name, own, total in rows}
    assert values["f"] == ("0 samples", "7 samples")  # the recursive stack counts once
    assert values["k1"] == ("9 samples", "9 samples")
    assert values["b"] == ("0 samples", "14 samples")
    page.locator("#function-table tbody").get_by_role("button", name="f", exact=True).click()
    assert page.inner_text("#function-name") == "f: 7 samples, 46.7 %"
    described = (
        "all => all.map(t => t.textContent.split('[')[0].trim() + t.textContent.split(']')[1])"
    )
    callers, callees = (
        page.locator(f"#{part} g.frame title").evaluate_all(described)
        for part in ("callers", "callees")
    )
    assert {text.split(",")[0] for text in callers} == {
        "f: 7 samples",
        "a: 1 sample",
        "b: 6 samples",
    }
    assert {text.split(",")[0] for text in callees} == {
        "f: 7 samples",
        "f: 4 samples",
        "k1: 1 sample",
        "k2: 2 samples",
        "k2: 4 samples",
    }
    page.locator("#callees g.frame", has_text="k1").click()
    assert page.inner_text("#function-name") == "k1: 9 samples, 60.0 %"
    again = opened(target, page.url[page.url.index("#") :]).page
    assert again.inner_text("#function-name") == "k1: 9 samples, 60.0 %"


def test_a_screen_reader_hears_the_largest_frames(opened, page_of):
    label = opened(page_of).page.get_attribute("#chart svg", "aria-label")
    assert label.startswith("Flame graph. GPU time: ")
    assert "ampere_bf16" in label


def test_names_are_shown_as_text(opened, tmp_path):
    stacks = stack_paths([([("op", EVIL), ("kernel", EVIL)], "exact", {"samples": 5})])
    target = tmp_path / "evil.html"
    target.write_bytes(html.write(stacks, "samples", EVIL))
    shown = opened(target)
    assert shown.errors == []
    assert shown.page.title() == f"{EVIL} · sightline"
    assert shown.page.inner_text("#title") == EVIL
    assert shown.page.locator("img").count() == 0


def test_a_difference_shows_new_and_vanished_frames(opened, tmp_path):
    before = stack_paths(
        [([("op", "a")], "exact", {"samples": 5}), ([("op", "b")], "exact", {"samples": 2})]
    )
    after = stack_paths(
        [([("op", "a")], "exact", {"samples": 7}), ([("op", "c")], "exact", {"samples": 1})]
    )
    target = tmp_path / "diff.html"
    target.write_bytes(html.write(after, "samples", "t", before=before))
    shown = opened(target)
    assert sorted(labels(shown.page)) == ["▲ a", "▲ all", "▲ c", "▼ b"]
    titles = shown.page.eval_on_selector_all("g.frame title", "all => all.map(t => t.textContent)")
    assert any("(gone)" in title for title in titles)
    assert any("(new)" in title for title in titles)


def test_a_change_within_the_noise_is_grey_and_has_no_sign(opened, tmp_path):
    one = stack_paths([([("op", "a")], "exact", {"samples": 100})])
    other = stack_paths([([("op", "a")], "exact", {"samples": 104})])
    target = tmp_path / "diff.html"
    target.write_bytes(html.write(other, "samples", "t", before=one, noise_ratio=0.05))
    shown = opened(target)
    assert labels(shown.page) == ["all", "a"]
    assert shown.page.locator("g.frame[name='a'] rect").get_attribute("fill") == "rgb(205,205,205)"
    assert "Grey: changes within 5.0 %" in shown.page.inner_text("#notes")


@pytest.mark.campaign
def test_60_000_stacks_make_a_small_page_that_works(opened, tmp_path):
    rng = random.Random(1)
    layers = ["python"] * 10 + ["op"] * 5 + ["api", "device", "kernel"]

    def path(i: int) -> list[tuple[str, str]]:
        return [(layer, f"{layer}_{d}_{i >> max(0, 16 - d)}") for d, layer in enumerate(layers)]

    stacks = stack_paths(
        (path(i), "exact", {"samples": rng.randint(1, 1000)}) for i in range(60_000)
    )
    assert stacks.rows.height == 60_000
    began = time.perf_counter()
    data = html.write(stacks, "samples", "60 000 stacks")
    took = time.perf_counter() - began
    print(f"60 000 stacks: {took:.1f} s, {len(data) / 1e6:.2f} MB")
    assert len(data) < 2_200_000
    target = tmp_path / "large.html"
    target.write_bytes(data)
    shown = opened(target)
    assert shown.errors == []
    assert f"{stacks.total('samples'):,} samples" in shown.page.inner_text("#details")
    shown.page.select_option("#order", "why")
    shown.page.fill("#search", "kernel_17")
    shown.page.locator("#found", has_text="%").wait_for()
    assert f"{stacks.total('samples'):,} samples" in shown.page.inner_text("#details")
