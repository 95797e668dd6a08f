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

pytestmark = pytest.mark.xdist_group("browser")
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
    page.check("#icicle")
    page.fill("#search", "gemm")
    page.locator("#found", has_text="%").wait_for()
    again = opened(page_of, page.url[page.url.index("#") :]).page
    assert again.input_value("#order") == "why"
    assert again.is_checked("#icicle")
    again.locator("#found", has_text="%").wait_for()
    assert again.inner_text("#found") == page.inner_text("#found")
    assert labels(again) == labels(page)


def test_keyboard_alone_is_enough(opened, page_of):
    page = opened(page_of).page
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("Escape")
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    assert page.locator("#crumbs button").count() == 4
    assert "rank 0" not in page.inner_text("#details")


def test_narrow_and_dark(opened, page_of):
    shown = opened(page_of, viewport={"width": 390, "height": 800}, color_scheme="dark")
    assert shown.errors == []
    assert shown.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert shown.page.evaluate("document.body.scrollWidth") <= 400


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
