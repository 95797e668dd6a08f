"""What a page shows before its script runs is what the script will show there."""

from __future__ import annotations

import re
from html import unescape

import pytest

import sightline
from sightline.answer.answer import Answer
from sightline.answer.summary import answer_run
from sightline.lab.exercises import find_exercise
from sightline.views.html import page as html
from sightline.views.html.first_view import keep_units, write_first_view, write_panel_list
from sightline.views.html.panels import summary
from sightline.views.html.view import PageView
from support import traces
from support.html_pages import read_data
from support.simulated import simulated


@pytest.fixture(autouse=True)
def every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones, too."""
    monkeypatch.setattr(html, "FIRST_VIEW_BYTES", 0)


@pytest.fixture(scope="module")
def made() -> tuple[bytes, Answer]:
    """A page that is made once, and the answer on it."""
    run = simulated("dataloader_starved").run
    answer = answer_run(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "FIRST_VIEW_BYTES", 0)
        return html.write(run, answer), answer


def read_texts(markup: str) -> list[str]:
    return [unescape(t) for t in re.findall(r">([^<]+)<", markup)]


@pytest.mark.pages
def test_the_first_finding_stands_in_the_file_before_its_data(
    made: tuple[bytes, Answer],
) -> None:
    page, data = made
    before = page.split(b'id="page-data"')[0].decode()
    first = next(f for f in data.findings if not f["abstained"] and f["gain_ns"])
    for text in (first["title"], first["summary"], first["fix"], "Timeline"):
        assert keep_units(text) in unescape(before), text
    assert before.index("</style>") < before.index(first["title"][:20])
    content = read_data(page)
    assert [p["title"] for p in content["panels"]] == read_texts(write_panel_list(content))


@pytest.mark.pages
def test_a_page_with_little_data_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    page = html.write(simulated("dataloader_starved").run).decode()
    assert '<article class="card' not in page.split('id="page-data"')[0]
    assert "Timeline</a>" in page


@pytest.mark.pages
def test_what_gains_nothing_is_a_remark_and_a_server_makes_its_panels_later(
    made: tuple[bytes, Answer],
) -> None:
    content = read_data(made[0])
    cards = next(b for b in content["panels"][0]["blocks"] if b["kind"] == "findings")["cards"]
    for card in cards:
        card |= {"gain_ns": None, "gain_bytes": None, "gain_j": None}
    assert "Noticed (no estimate of a gain)" in write_first_view(content)
    cards.clear()
    assert "card" not in write_first_view(content)
    content["panels"][0]["blocks"] = None
    assert write_first_view(content) == ""


@pytest.mark.pages
def test_costs_of_all_kinds_are_named(made: tuple[bytes, Answer]) -> None:
    content = read_data(made[0])
    card = next(b for b in content["panels"][0]["blocks"] if b["kind"] == "findings")["cards"][0]
    card |= {"cost_bytes": 3_000_000, "gain_bytes": 2_000_000, "cost_j": 4.0, "gain_j": 1.5}
    card |= {"cost_pct": None, "gain_pct": 12.0}
    texts = read_texts(write_first_view(content))
    for text in ("could free up to", "2.000 MB (12.0 %)", "could save up to", "1.5 J (12.0 %)"):
        assert keep_units(text) in texts
    assert keep_units("3.000 MB") in texts


@pytest.mark.pages
def test_names_are_not_markup(tmp_path) -> None:
    evil = "</script><b>&"
    run = traces.opened(tmp_path, [traces.kernel(evil, 0, 5), traces.kernel("k", 9, 5)])
    assert b"<b>&" not in html.write(run, title=evil)


def test_stacks_alone_begin_with_where_the_time_goes() -> None:
    """py-spy's samples have no timeline: the page says what they say, and lists the functions."""
    folder = find_exercise("cpu-sampling").folder / "recorded"
    run = sightline.open(str(folder / "sampled-baseline.speedscope.json"))
    answer = run.answer()
    assert answer.headline.startswith("Of 3.290 s in which a thread ran, 66.6 % is in split_text ")
    shown = summary.data(PageView(run, answer))
    table = next(block for block in shown if block["kind"] == "table")
    assert table["title"] == "Top functions by CPU time"
    assert [column["name"] for column in table["columns"]] == ["name", "own", "own_pct", "total"]
    names = table["columns"][0]
    assert "labels" not in names
    assert names["values"][0] == answer.functions[0]["short_name"]
