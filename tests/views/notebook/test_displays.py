"""What shows itself: as HTML without script, as text, as rows, as a chart."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

import sightline
from sightline.core import registry
from sightline.errors import MissingDataError, RequestError
from sightline.session import Session
from support import traces
from support.places import EXAMPLES
from support.traces import kernel, opened

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def run() -> Session:
    return sightline.open(EXAMPLES / "simulated-dataloader.json.gz")


@pytest.fixture(scope="module")
def shown(run: Session) -> dict[str, Any]:
    """One value of each display."""
    return {
        "findings": run.findings(),
        "breakdown": run.breakdown(),
        "timeline": run.timeline(),
        "flame": run.flame(),
        "comparison": run.with_window("step:2").compare(run.with_window("step:3")),
    }


class _Elements(HTMLParser):
    """Which elements are open, and which attributes lead elsewhere."""

    void = frozenset({"br", "img", "input", "meta", "link", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in self.void:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href") or name.startswith("on") or "url(" in (value or ""):
                self.outside.append(f"{name}={value}")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _read(html: str) -> _Elements:
    elements = _Elements()
    elements.feed(html)
    elements.close()
    assert elements.open == [], "an element stays open"
    return elements


@pytest.mark.parametrize("name", registry.list_names("displays"))
def test_each_is_one_element_without_script_or_links(shown: dict[str, Any], name: str) -> None:
    html = shown[name]._repr_html_()
    elements = _read(html)
    assert html.startswith('<div class="sightline">')
    assert elements.seen.isdisjoint({"script", "link", "iframe", "img"})
    assert elements.outside == []


@pytest.mark.parametrize("name", registry.list_names("displays"))
def test_each_is_text_and_rows_of_plain_data(shown: dict[str, Any], name: str) -> None:
    text, rows = repr(shown[name]), shown[name].to_rows()
    assert max(map(len, text.splitlines())) < 200
    assert rows
    assert json.loads(json.dumps(rows)) == rows


def test_they_say_what_the_commands_say(shown: dict[str, Any]) -> None:
    assert "Waiting for the DataLoader" in shown["findings"]._repr_html_()
    assert "costs 11.07 ms (63.5 %) · could save all of it" in repr(shown["findings"])
    assert "5.415 ms (31.0 %)" in shown["breakdown"]._repr_html_()
    assert "gemm" in shown["flame"]._repr_html_()
    assert shown["comparison"]["verdict"]["word"] in shown["comparison"]._repr_html_().lower()
    assert shown["timeline"].to_rows()[0]["name"].startswith("Memcpy")


def test_a_finding_and_what_could_not_be_judged_show_themselves(run: Session) -> None:
    found = run.findings()
    assert "<h4>Waiting for the DataLoader</h4>" in found[0]._repr_html_()
    silent = next(one for one in found if one.abstained)
    _read(silent._repr_html_())


def test_they_are_still_lists_and_dictionaries(shown: dict[str, Any]) -> None:
    assert isinstance(shown["findings"], list)
    assert shown["findings"] == list(shown["findings"])
    assert json.loads(json.dumps(shown["comparison"]))["verdict"]


def test_names_of_recordings_are_text(tmp_path: Any) -> None:
    run = opened(tmp_path, [kernel(EVIL, 0, 400), kernel(EVIL, 600, 400)])
    session = Session.of(run)
    for value in (session, session.findings(), session.flame(), session.timeline()):
        assert "script" not in _read(value._repr_html_()).seen
    path = traces.write(tmp_path, [kernel("k", 0, 5), kernel("k", 9, 5)])
    evil = path.with_name(f"{EVIL.replace('/', '')}.json")
    path.rename(evil)
    assert "script" not in _read(sightline.open(evil).flame()._repr_html_()).seen


def test_a_recording_without_a_device_has_no_breakdown() -> None:
    cpu = sightline.open(EXAMPLES / "cpu-training.json.gz")
    for ask in (cpu.breakdown, cpu.timeline):
        with pytest.raises(MissingDataError):
            ask()
    _read(cpu.findings()._repr_html_())


@pytest.mark.parametrize("name", registry.list_names("displays"))
def test_as_a_pandas_frame(shown: dict[str, Any], name: str) -> None:
    pytest.importorskip("pandas")
    assert len(shown[name].to_pandas()) == len(shown[name].to_rows())


@pytest.mark.parametrize("name", registry.list_names("displays"))
def test_as_a_chart_that_carries_its_data(shown: dict[str, Any], name: str) -> None:
    pytest.importorskip("altair")
    chart = shown[name].plot().to_dict()
    values = chart["data"]["values"]
    assert values
    fields = {e["field"] for e in chart["encoding"].values() if "field" in e}
    assert fields <= set(values[0])


@pytest.mark.parametrize(("ask", "package"), [("to_pandas", "pandas"), ("plot", "altair")])
def test_what_is_missing_is_named(
    shown: dict[str, Any], monkeypatch: pytest.MonkeyPatch, ask: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RequestError, match="pip install"):
        getattr(shown["findings"], ask)()
