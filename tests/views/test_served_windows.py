"""Pages over a continuous profile: launch, then click."""

from __future__ import annotations

import gzip
import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from sightline.compare.sides import open_side
from sightline.errors import RequestError
from sightline.history.profiles import add_window
from sightline.views.serve.windows import HistoryService
from support.many_ranks import Program, write_ranks

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("windows")
    for number, job in enumerate(["4711", "4711", HOSTILE]):
        program = Program(1, steps=6, kernel_ns=60_000 + 9000 * number, seed=number)
        (trace,) = write_ranks(program, folder / f"w{number}")
        (sample,) = open_side([str(trace)])
        labels = {"job": job, "node": "n1"}
        counts = {"between:launches": 1234.5, "between:waits_ns": 5e8} if number == 1 else {}
        moment = 1_700_000_000 * 10**9 + number * 600 * 10**9
        add_window(folder / "h", sample, labels, moment, counts)
    return folder / "h"


@pytest.fixture(scope="module")
def service(folder: Path) -> HistoryService:
    return HistoryService(folder)


def ask(service: HistoryService, link: str) -> str:
    parts = urlsplit(link)
    found = service.answer(parts.path, dict(parse_qsl(parts.query)))
    assert found is not None, link
    assert found[0].startswith("text/html")
    return found[1].decode()


def test_what_was_counted_between_windows(service: HistoryService) -> None:
    """On its window, a series like any other, and no part of a step."""
    job = ask(service, "job?job=4711")
    assert "metric=between%3Alaunches" in job
    first, last = ask_windows(service, job)
    assert "Since the window before" not in first
    after = last.partition("<h2>Since the window before</h2>")[2]
    assert "launches</td><td>1,234" in after
    assert "waits</td><td>500.0 ms" in after
    assert "between" not in last
    assert "1,234" in ask(service, "job?job=4711&metric=between%3Alaunches")


def ask_windows(service: HistoryService, job: str) -> list[str]:
    """The pages of a job's windows, the first of them first."""
    links = [link for link in list_links(job) if link.startswith("window?")]
    return [ask(service, link) for link in links[::-1]]


def list_links(page: str) -> list[str]:
    return [unescape(link) for link in re.findall(r'href="([^"]+)"', page)]


@pytest.mark.pages
def test_every_link_leads_somewhere(service: HistoryService) -> None:
    waiting, seen = [""], set()
    while waiting:
        link = waiting.pop()
        if link in seen or link == "./":
            continue
        seen.add(link)
        if link.startswith("profile.pb.gz"):
            parts = urlsplit(link)
            found = service.answer(parts.path, dict(parse_qsl(parts.query)))
            assert found is not None
            assert gzip.decompress(found[1])
            continue
        page = ask(service, link)
        if not link.startswith("flame"):  # that page's own script draws it
            assert "<script" not in page
            waiting += list_links(page)
    pages = {link.partition("?")[0] for link in seen}
    assert pages == {"", "job", "window", "flame", "profile.pb.gz"}


def test_a_job_and_its_windows(service: HistoryService) -> None:
    page = ask(service, "job?job=4711&metric=compute_ns")
    assert "2023-11-14 22:23:20" in page  # 1,700,000,600 s after 1970
    assert "<svg" in page
    assert len([link for link in list_links(page) if link.startswith("window")]) == 2


def test_a_window_and_what_changed(service: HistoryService) -> None:
    job = ask(service, "job?job=4711")
    latest = next(link for link in list_links(job) if link.startswith("window"))
    page = ask(service, latest)
    assert "Breakdown" in page
    assert "compute" in page
    compared = page.partition("Against the windows before")[2]
    (line,) = [line for line in compared.splitlines() if line.startswith("  compute")]
    # 20 of 60 µs and 69 µs: all kernels of a step are 15 % longer.
    before, after = (float(text) for text in re.findall(r"([\d.]+) ms", line)[:2])
    assert 1.13 < after / before < 1.17


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("job?job=4712", "no window of this job"),
        ("job", "no window of this job"),
        ("window?id=../../etc/passwd", "no such window"),
        ("flame?job=4711&from=1e9", "is not a time"),
        ("flame?job=4711&to=5", "no window of this job"),
        ("flame?job=4711&from=99999999999999999999", "is not a time"),
    ],
)
def test_what_there_is_not(service: HistoryService, link: str, problem: str) -> None:
    parts = urlsplit(link)
    with pytest.raises(RequestError, match=problem):
        service.answer(parts.path, dict(parse_qsl(parts.query)))
    assert service.answer("secret", {}) is None
