"""host-outside: most of the program lies before the GPU's window, or behind it."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

import sightline
from sightline.core.model.run import Run
from sightline.session import Session
from sightline.views.for_llm import write_for_llm
from sightline.views.html import page as page_of
from support import exports, traces
from support.rules import answers, assert_silent
from support.traces import host
from synth_nsys import Export, gtid

RULE = "host-outside"
MS = 1_000_000


def recorded(
    folder: Path,
    before: int,
    after: int,
    *,
    free: bool = False,
    call: tuple[str, int] | None = None,
    pid: int = 7,
) -> Run:
    """A kernel of 100 ms, with so many ms of the recording before its launch and behind its end.

    `free`: memory is freed as the recording ends; `call`: a call of the system for so many ms
    before the launch.
    """
    e = Export()
    e.api("cudaLaunchKernel", before * MS, before * MS + 5_000, 1)
    e.kernel("k(int*)", before * MS + 10_000, (before + 100) * MS, 1)
    end = before + 100 + after
    if free:
        e.api("cudaFree", (end - 1) * MS, end * MS, 2, pid=pid)
    if call is not None:
        name, length = call
        start, nameId = (before - length) * MS, e.text(name)
        e.add("OSRT_API", start=start, end=before * MS, globalTid=gtid(7, 7), nameId=nameId)
    e.add("ANALYSIS_DETAILS", globalVid=0, duration=end * MS, startTime=0, stopTime=end * MS)
    return exports.opened(folder, e)


@pytest.mark.parametrize(
    ("case", "place", "cost", "leads"),
    [
        ({"before": 10_000, "after": 0}, "before its first work", 10_000, True),
        ({"before": 0, "after": 10_000}, "after its last work", 10_000, True),
        # What is freed at the end is no work on the GPU.
        ({"before": 0, "after": 10_000, "free": True}, "after its last work", 9_999, True),
        ({"before": 3_000, "after": 0}, "before its first work", 3_000, False),
        ({"before": 10_000, "after": 6_000}, "before its first work", 10_000, False),
    ],
)
def test_where_most_of_the_program_is(
    tmp_path: Path, case: dict[str, int], place: str, cost: int, leads: bool
) -> None:
    run = recorded(tmp_path, **case)  # type: ignore[arg-type]
    (found,) = answers(run, RULE)
    assert place in found.summary
    assert (found.cost_ns, found.gain, found.severity) == (cost * MS, None, "info")
    assert found.states_limit == leads
    assert (sightline.findings(run)[0].rule == RULE) == leads


@pytest.mark.parametrize(
    "case",
    [
        {"before": 900, "after": 0},
        {"before": 5_000, "after": 5_000},
        # Several processes: who of them is meant nobody knows.
        {"before": 0, "after": 10_000, "free": True, "pid": 8},
    ],
)
def test_what_is_no_finding(tmp_path: Path, case: dict[str, int]) -> None:
    assert_silent(recorded(tmp_path, **case), RULE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        (("read", 9_000), "in larger pieces"),
        (("read", 4_000), "all cores"),
        (("nanosleep", 9_000), "what it waits for"),
        (("munmap", 9_000), "all cores"),
    ],
)
def test_the_systems_call_that_it_is_in(tmp_path: Path, call: tuple[str, int], fix: str) -> None:
    (found,) = answers(recorded(tmp_path, 10_000, 0, call=call), RULE)
    assert fix in (found.fix or "")
    assert any(call[0] in line for line in found.evidence) == (call[1] > 5_000)


def test_a_window_that_was_chosen_is_all_that_is_asked_about(tmp_path: Path) -> None:
    run = recorded(tmp_path, 10_000, 0)
    chosen = sightline.open(str(tmp_path / "run.sqlite"), window="0ms..50ms")
    assert answers(run, RULE)
    assert_silent(chosen, RULE)


def test_every_view_begins_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded(tmp_path, before=10_000, after=0)
    answer = Session.of(run).answer()
    assert [f["rule"] for f in answer.leads][:1] == [RULE]
    title = answer.leads[0]["title"]
    monkeypatch.setattr(page_of, "FIRST_VIEW_BYTES", 0)
    page = page_of.write(run).decode()
    page = unescape(page[page.index("<h2>Summary") :])
    for text in (write_for_llm(answer), page):
        assert title in text
        assert "Also noticed" not in text.partition(title)[0]
    assert "of the recording" in page


@pytest.mark.parametrize("loads", [True, False], ids=["a loader", "nothing"])
def test_under_the_framework_s_own_profiler(tmp_path: Path, loads: bool) -> None:
    """PyTorch's began in the running program: 2 s before its first kernel are the program's."""
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    loader = [host("user_annotation", name, 500_000, 1_000_000)] if loads else []
    run = traces.opened(
        tmp_path,
        [
            traces.op("aten::zeros", 0, 10),
            *loader,
            traces.op("aten::mm", 2_000_000, 50),
            traces.launched(2_000_010, traces.kernel("gemm", 2_000_100, 10_000)),
        ],
    )
    (found,) = answers(run, RULE)
    assert found.states_limit
    assert ("persistent_workers=True" in (found.fix or "")) == loads
    assert any(name in line for line in found.evidence) == loads
