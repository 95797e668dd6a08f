"""The page of many ranks: who is late when, why, and chosen ranks' timelines on one clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.campaigns import CAMPAIGNS
from support.command import sightline
from support.html_pages import read_data
from support.many_ranks import CLOCK, HOST, Cause, Program, write_ranks

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.pages]

# More than 128 ranks are drawn in groups, of which a campaign looks at each.
RANKS, STEPS, SLOW = (136, 5, 40) if CAMPAIGNS else (24, 3, 10)
LATE = RANKS - 5
CAUSES = (Cause(HOST, LATE, 9e5), Cause(CLOCK, SLOW, 0.4))


@pytest.fixture(scope="module")
def page_of_many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some ranks of a few steps, whose clocks are up to 50 ms apart."""
    folder = tmp_path_factory.mktemp("many")
    program = Program(RANKS, STEPS, causes=CAUSES, offset_ns=5e7, kernels=2)
    list(write_ranks(program, folder / "ranks"))
    target = folder / "ranks.html"
    outcome = sightline("ranks", folder / "ranks", "-o", target)
    assert outcome.code == 0, outcome.err
    return target


@pytest.mark.campaign
def test_rows_stay_few_and_outliers_have_their_own(page_of_many: Path) -> None:
    panels = {
        panel["name"]: panel["blocks"] for panel in read_data(page_of_many.read_bytes())["panels"]
    }
    choice = next(block for block in panels["summary"] if block["kind"] == "choice")
    grouped, *parts = (option["blocks"][0]["rows"] for option in choice["options"])
    assert [(row["label"], row["why"]) for row in grouped[:2]] == [
        ("131", "host late"),
        (str(SLOW), "slower clock"),
    ]
    assert len(grouped) <= 128 + 2
    assert all(0 <= value <= 100 for row in grouped for value in row["values"])
    singles = [row["label"] for part in parts for row in part]
    assert sorted(map(int, singles)) == list(range(136))
    table = next(b for b in panels["summary"] if b.get("title", "").startswith("Ranks by"))
    assert table["rows"] == 136


def test_the_chosen_timelines_are_on_one_clock(page_of_many: Path) -> None:
    """Of ranks that share no group: clocks are those of the whole job."""
    data = read_data(page_of_many.read_bytes())
    timeline = next(p["blocks"][0] for p in data["panels"] if p["name"] == "timeline")
    assert {SLOW, LATE} < {track["rank"] for track in timeline["tracks"]}
    program = Program(RANKS, STEPS, causes=CAUSES, offset_ns=5e7, kernels=2)
    assert data["length_ns"] < 1.1 * program.play().length_ns


def test_it_is_drawn_and_answers_the_pointer(opened, page_of_many: Path) -> None:
    shown = opened(page_of_many)
    page = shown.page
    page.wait_for_selector("canvas.segments")
    page.locator("canvas.segments").focus()
    page.keyboard.press("ArrowRight")
    page.locator("p[aria-live]", has_text=f"rank {LATE}: late by").wait_for()
    if CAMPAIGNS:
        page.select_option("label.choice select", label="0 to 127")
        page.wait_for_selector("canvas.segments")
    page.click('#panels a:has-text("Timelines")')
    page.wait_for_selector(".timeline canvas")
    assert shown.errors == []
    assert [url for url in shown.requests if not url.startswith("file:")] == []
