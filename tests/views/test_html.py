"""The page's data, without a browser: packing, lanes, evidence, what is absent and why."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.answer.answer import Answer
from sightline.answer.summary import answer_run
from sightline.core import registry
from sightline.core.algebra.lanes import assign_lanes, thin_events
from sightline.core.model.columns import Column
from sightline.core.model.run import Run
from sightline.core.page import blocks
from sightline.core.page.blocks import MAX_POINTS, reduce_series
from sightline.core.page.pack import Packed, number_within
from sightline.errors import MissingDataError
from sightline.views.html import generator
from sightline.views.html import page as html
from sightline.views.html.evidence import pack_places
from sightline.views.html.panels import timeline
from sightline.views.html.view import PageView
from support import traces
from support.command import sightline
from support.html_pages import TEMPLATE, read_column, read_data, read_part
from support.jobs import opened_job
from support.simulated import simulated


@pytest.fixture(autouse=True)
def template(monkeypatch):
    """What the page is built of is tested with it; here its data is looked at."""
    monkeypatch.setattr(html, "load_page", lambda *_: TEMPLATE)


@given(st.lists(st.integers(-(2**52), 2**52), max_size=60))
def test_columns_come_back_exactly(values):
    packed = Packed()
    packed.add(pl.Series([1, 2, 3]))
    for factor in (1, 1_000):
        column = [factor * v // 1_000 for v in values]
        for delta in (False, True):
            entry = packed.add(pl.Series(column, dtype=pl.Int64), delta=delta)
            assert read_column(bytes(packed.body), entry) == column
            absolute = [abs(v) for v in column]
            entry = packed.add(pl.Series(absolute, dtype=pl.Int64), delta=delta)
            assert read_column(bytes(packed.body), entry) == absolute


EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 60), st.integers(0, 20)),
    max_size=60,
)


def events(rows) -> pl.DataFrame:
    return pl.DataFrame(
        [(t, level, start, start + n, i) for i, (t, level, start, n) in enumerate(rows)],
        schema=["track", "level", "start_ns", "end_ns", "id"],
        orient="row",
        schema_overrides=dict.fromkeys(["track", "level", "start_ns", "end_ns", "id"], pl.Int64),
    )


@given(EVENTS)
def test_in_a_lane_nothing_overlaps_and_nothing_is_lost(rows):
    laned = assign_lanes(events(rows))
    assert sorted(laned.get_column("id").to_list()) == list(range(len(rows)))
    for (_, _), lane in laned.group_by("track", "lane"):
        assert lane.get_column("level").n_unique() == 1
        reach = None
        for start, end in lane.select("start_ns", "end_ns").rows():
            assert reach is None or start >= reach
            reach = max(end, start + 1)


@given(EVENTS, st.integers(1, 40))
def test_marks_say_how_many_they_are(rows, limit):
    laned = assign_lanes(events(rows))
    marks, merged = thin_events(laned, limit)
    assert marks.get_column("count").sum() == len(rows)
    lengths = (laned.get_column("end_ns") - laned.get_column("start_ns")).sum()
    assert marks.get_column("busy_ns").sum() == lengths
    several = marks.filter(pl.col("count") > 1)
    assert several.get_column("count").sum() == merged
    for _, lane in marks.group_by("track", "lane"):
        ordered = lane.sort("start_ns")
        gap = ordered.get_column("start_ns").shift(-1) - ordered.get_column("end_ns")
        assert (gap.drop_nulls() >= 0).all()


def test_many_points_keep_their_lowest_and_highest():
    points = pl.DataFrame({"t": range(100_000), "v": [float(i % 977) for i in range(100_000)]})
    short, count = reduce_series(points.lazy())
    assert count == 100_000
    assert short.height <= MAX_POINTS
    assert short.get_column("high").max() == 976
    assert short.get_column("low").min() == 0


@pytest.mark.parametrize("scenario", ["dataloader_starved", "exposed_communication", "cpu_only"])
def test_every_panel_is_there_or_says_why_not(scenario):
    run = simulated(scenario).run
    view = PageView(run, answer_run(run))
    absent = []
    for _, module in registry.load_members("panels"):
        try:
            assert module.data(view)
        except MissingDataError as missing:
            absent.append(module.PANEL.title)
            assert missing.why
    page = read_data(html.write(run))
    recording = next(p for p in page["panels"] if p["name"] == "recording")
    listed = next((b["items"] for b in recording["blocks"] if b["kind"] == "list"), [])
    assert sorted(line.split(":")[0] for line in listed) == sorted(absent)
    assert page["panels"][0]["name"] == "summary"


def test_the_summary_of_a_run_on_the_cpu_says_where_its_time_went():
    run = simulated("cpu_only").run
    answer = answer_run(run)
    found = registry.load("panels", "summary").data(PageView(run, answer))
    assert [block["kind"] for block in found] == ["text", "findings", "table", "table", "limits"]
    parts = {column["name"]: column["values"] for column in found[2]["columns"]}
    assert parts["part"] == [row["part"] for row in answer.main_parts]
    assert parts["own_ns"] == [row["own_ns"] for row in answer.main_parts]
    assert sum(parts["own_ns"]) == answer.main_parts[0]["window_ns"]
    names, own = found[3]["columns"][0], found[3]["columns"][-1]
    assert own["name"] == "host_self_ns"
    largest = run.ask("ops").sort("host_self_ns", descending=True).head(1)
    assert (names["values"][0], own["values"][0]) == largest.select("name", "host_self_ns").row(0)


def test_the_timeline_holds_every_row_of_the_tables():
    run = simulated("exposed_communication").run
    view = PageView(run, answer_run(run))
    line = view.timeline
    rows = run.rows("device_ops") + run.rows("host_ops") + run.rows("device_ranges")
    assert line.events.height == line.in_tables == rows
    # Links go from a device operation to the place of the call that launched it.
    linked = line.events.filter(pl.col("link") > 0)
    launched = run.table("device_ops").drop_nulls("launch_id")
    assert linked.height == launched.height
    calls = line.events[linked.get_column("link").cast(pl.Int64) - 1]
    names = [line.names[i] for i in calls.get_column("name")]
    assert {n for n in names if "aunch" not in n and "emcpy" not in n and "emset" not in n} == set()


def test_findings_are_shown_where_they_happen():
    run = simulated("dataloader_starved").run
    data = answer_run(run)
    page = read_data(html.write(run, data))
    cards = next(b for b in page["panels"][0]["blocks"] if b["kind"] == "findings")["cards"]
    assert cards
    placed = [c for c in cards if c["where"]["count"]]
    assert placed
    for card in placed:
        assert len(card["where"]["spark"]) == 60
        assert max(card["where"]["spark"]) > 0
    line = next(b for b in page["panels"][1]["blocks"] if b["kind"] == "timeline")
    assert [mark["title"] for mark in line["marks"]] == [card["title"] for card in placed]
    for mark, card in zip(line["marks"], placed, strict=True):
        assert len(mark["starts"]) == len(mark["lengths"]) == card["where"]["count"]
        assert min(mark["lengths"]) >= 0
        assert all(step >= 0 for step in mark["starts"])


def test_a_finding_has_all_its_places_and_the_longest_where_they_are_too_many():
    places = pl.DataFrame(
        {
            "start_ns": [1000 + 10 * i for i in range(300)],
            "end_ns": [1001 + 10 * i + i % 7 for i in range(300)],
        }
    ).with_columns(rank=pl.lit(None, pl.Int64))
    whole = pack_places(places, (1000, 9000))
    assert whole["count"] == len(whole["starts"]) == 300
    assert whole["starts"][:3] == [0, 10, 10]
    assert whole["lengths"][:8] == [1, 2, 3, 4, 5, 6, 7, 1]
    assert "ranks" not in whole
    longest = pack_places(places.with_columns(rank=pl.int_range(pl.len()) % 2), (1000, 9000), 3)
    # Of length 7 are the places 6, 13 and 20.
    assert longest == {
        "count": 300,
        "starts": [60, 70, 70],
        "lengths": [7, 7, 7],
        "ranks": [1, 2, 1],
    }


def test_places_of_many_kernels_are_events(monkeypatch):
    """In whatever order of lanes: the page sorts them by time."""
    view = PageView(simulated("exposed_communication").run, Answer())
    ops = view.run.table("device_ops").select("start_ns", "end_ns", "rank")
    monkeypatch.setattr(timeline, "MOST_IN_TEXT", 1)
    packed = timeline._pack_places(view, ops)
    assert packed["count"] == ops.height
    assert packed["by_rank"] == (ops.get_column("rank").n_unique() > 1)
    at = read_column(bytes(view.packed.body), packed["at"])
    assert len(set(at)) == ops.height
    found = view.timeline.events[at].select(pl.col("start_ns", "end_ns") + view.span[0])
    times = ["start_ns", "end_ns"]
    assert found.sort(times).rows() == ops.select(times).sort(times).rows()
    # One place that is no kernel: all stand as times.
    odd = ops.with_columns(end_ns=pl.col("end_ns") + (pl.int_range(pl.len()) == 3).cast(pl.Int64))
    packed = timeline._pack_places(view, odd)
    lengths = read_column(bytes(view.packed.body), packed["lengths"])
    assert sum(lengths) == int((odd.get_column("end_ns") - odd.get_column("start_ns")).sum())


def test_the_critical_path_leads_from_event_to_event():
    run = simulated("dataloader_starved").run
    pieces, view = run.ask("critical_path"), PageView(run, Answer())
    page = html.write(run, answer_run(run))
    panels, body = read_data(page)["panels"], read_part(page, "page-columns")
    line = next(b for b in panels[1]["blocks"] if b["kind"] == "timeline")
    texts = ("parts", "names")
    path = {k: v if k in texts else read_column(body, v) for k, v in line["path"].items()}
    assert path["lengths"] == pieces.get_column("duration_ns").to_list()
    ends = pl.Series(path["gaps"]) + pl.Series([0, *path["lengths"][:-1]])
    assert (ends.cum_sum() + view.span[0]).to_list() == pieces.get_column("start_ns").to_list()
    assert [path["parts"][i] for i in path["part"]] == pieces.get_column("part").to_list()
    events = view.timeline
    for at, name in zip(path["at"], pieces.get_column("name"), strict=True):
        assert at
        assert events.names[events.events.item(at - 1, "name")] == name


def test_names_are_not_markup_in_the_file(tmp_path: Path):
    evil = "</script><b>&"
    run = traces.opened(tmp_path, [traces.kernel(evil, 0, 5), traces.kernel("k", 9, 5)])
    data = html.write(run, title=evil)
    assert data.count(b"</script>") == TEMPLATE.count("</script>")
    assert b"&lt;/script&gt;" in data


def test_numbers_that_json_cannot_hold_are_missing():
    frame = pl.DataFrame({"v": [1.5, float("nan"), float("inf"), None]})
    block = blocks.make_table("t", frame, [Column("v", pl.Float64, "value")])
    assert block["columns"][0]["values"] == [1.5, None, None, None]
    points = frame.with_columns(t=pl.int_range(pl.len(), dtype=pl.Int64))
    series = blocks.make_lines("t", points, "t", {"v": "v"}, 0, "")["series"]
    assert series[0]["low"] == [1.5]


def test_the_same_recording_gives_the_same_page():
    run = simulated("exposed_communication").run
    assert html.write(run) == html.write(run)


def test_without_the_page_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.undo()
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    monkeypatch.setattr("sightline.core.installation.ASSETS", tmp_path)
    outcome = sightline("report", trace, "-o", tmp_path / "r.html")
    assert outcome.code == 2
    assert "-o report.md" in outcome.err
    assert "install sightline again" in outcome.err
    # A wheel has no scripts/.
    assert "scripts/" not in outcome.err


def test_without_a_terminal_nothing_is_left_in_the_folder(tmp_path, monkeypatch):
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert sightline("report", trace).code == 0
    assert list(here.iterdir()) == []


def test_on_a_terminal_the_page_is_written_beside_and_nothing_of_others_is(tmp_path, monkeypatch):
    from sightline.doors.cli import report

    monkeypatch.chdir(tmp_path)
    run = traces.opened(tmp_path, [traces.kernel("k", 0, 5)])
    monkeypatch.setattr(html, "load_page", lambda *_: generator.MARK.decode() + TEMPLATE)
    report.write_page_beside(run, answer_run(run))
    assert generator.is_ours(tmp_path / "report.html")
    report.write_page_beside(run, answer_run(run))  # an own one is replaced
    (tmp_path / "report.html").write_text("my thesis")
    report.write_page_beside(run, answer_run(run))
    assert (tmp_path / "report.html").read_text() == "my thesis"


def test_the_page_is_the_same_whoever_ran_the_rules():
    """Panels made beside the rules hold what they hold when they are made after them."""
    run = simulated("dataloader_starved").run
    fresh = Run(run.parts)
    assert html.write(fresh) == html.write(run, answer_run(run))


def test_ranks_are_compared_where_there_are_several(tmp_path: Path) -> None:
    """Who waits for whom has its own tables; one rank has nothing to compare."""
    several = opened_job(tmp_path / "two", [[1_000 * k, 1_000 * k + 300] for k in range(10)])
    alone = opened_job(tmp_path / "one", [[0], [1_000]])
    panel = registry.load("panels", "communication")
    titles = [
        {block.get("title") for block in panel.data(PageView(run, answer_run(run)))}
        for run in (several, alone)
    ]
    new = {"Who waits for whom", "Collectives that ranks waited for most", "The ranks' clocks"}
    assert new <= titles[0]
    assert not new & titles[1]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9))))
def test_what_is_numbered_within_groups_comes_back(rows: list[tuple[int, int]]) -> None:
    groups, values = (pl.Series([row[i] for row in rows], dtype=pl.Int64) for i in (0, 1))
    places, lists = number_within(groups, values)
    assert [lists[g][p] for g, p in zip(groups, places, strict=True)] == values.to_list()
    for group, known in enumerate(lists):
        seen = dict.fromkeys(value for g, value in rows if g == group)
        assert known == list(seen), "in the order in which they first appear"
