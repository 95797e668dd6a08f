"""The report as Markdown."""

from __future__ import annotations

import re

from sightline.views.markdown import escape_text
from support import traces
from support.command import sightline
from synth import SCENARIOS, kineto


def test_holds_the_answer_the_findings_and_the_kernels(tmp_path):
    files = kineto.write(SCENARIOS["dataloader_starved"](), tmp_path, dialect="2025")
    out = sightline("report", *files, "--format", "markdown").out
    for heading in ("# Why is it slow?", "## Where the time went", "## Findings", "## Top kernels"):
        assert heading in out
    assert out.index("The GPU computes for") < out.index("## Findings")
    tables = [line for line in out.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} <= {6, 7}


def test_names_are_text(tmp_path):
    evil = "<script>x</script> | [a](b) `c` **d** # e"
    trace = traces.write(tmp_path, [traces.kernel(evil, 0, 5), traces.kernel("k", 9, 50)])
    out = sightline("report", trace, "--format", "markdown").out
    assert "<script>" not in out
    assert escape_text(evil).endswith(r"&gt; \| \[a\]\(b\) \`c\` \*\*d\*\* \# e")


def test_two_formats_at_once_are_refused(tmp_path):
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    outcome = sightline("report", trace, "--json", "--format", "markdown")
    assert outcome.code == 2
    assert "contradict each other" in outcome.err


def test_an_unknown_format_is_said(tmp_path):
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    outcome = sightline("report", trace, "--format", "docx")
    assert outcome.code == 2
    assert "markdown" in outcome.err


def test_a_recording_without_a_gpu_shows_what_ran(tmp_path):
    stacks = tmp_path / "a.folded"
    stacks.write_text("main;sin_x 3\nmain 1\n")
    out = sightline("report", stacks, "--format", "markdown").out
    assert "## Top functions by samples" in out
    assert "| sin\\_x | 3 | 75.0 % | 3 |" in out
    ops = traces.write(tmp_path, [traces.op("aten::mm", 0, 9)])
    out = sightline("report", ops, "--format", "markdown").out
    assert "## Top operators on the CPU" in out
    assert "| aten::mm | 1 | 9.000 µs | 9.000 µs |" in out
