"""The screen, line by line, from data that is made up for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sightline.answer.summary import answer_run
from sightline.views.markdown import write_markdown
from sightline.views.terminal.finding_text import write_price
from sightline.views.terminal.marks_text import print_marks
from sightline.views.terminal.screen import _name_rows, render_screen
from support import traces
from support.command import sightline
from support.traces import opened


def finding(**changes: Any) -> dict[str, Any]:
    return {
        "rule": "host-late",
        "title": "host-late",
        "severity": "info",
        "summary": "It is late.",
        "cost_ns": 5_000,
        "cost_pct": 20.0,
        "gain_ns": 4_000,
        "gain_pct": 16.0,
        "confidence": "medium",
        "states_limit": False,
        "evidence": (),
        "fix": None,
        "verify": None,
        "where": {},
        "abstained": False,
        "reason": None,
    } | changes


@pytest.fixture
def screen(tmp_path):
    data = answer_run(opened(tmp_path, [traces.kernel("k", 0, 5), traces.kernel("k", 20, 5)]))

    def lines(*findings: dict[str, Any]) -> list[str]:
        return render_screen(replace(data, findings=list(findings))).plain.splitlines()

    return lines


def test_a_sentence_of_evidence_is_broken_not_cut(screen):
    said = "removing it alone gains 128.0 µs of 2.397 ms: the next limit is the host, then"
    lines = screen(finding(evidence=(f"{said} 98.0 % of the path",)))
    start = next(i for i, line in enumerate(lines) if line.startswith("   · "))
    assert " ".join(" ".join(lines[start : start + 2]).split()) == f"· {said} 98.0 % of the path"
    assert lines[start + 1].startswith("     ")
    assert max(map(len, lines)) <= 80


def test_a_name_that_fits_no_line_is_cut_from_its_middle(screen):
    name = "begins" + "x" * 90 + "last"
    lines = screen(finding(evidence=(f"mostly in  {name}",)))
    shown = next(line for line in lines if "begins" in line)
    assert "…" in shown
    assert shown.endswith("last")
    assert len(shown) <= 80


def test_evidence_of_any_length_leaves_room_for_the_rest(screen):
    lines = screen(finding(evidence=("word " * 400,)))
    assert sum("word" in line for line in lines) == 4
    assert [line for line in lines if "word" in line][-1].endswith("…")


def test_cost_gain_and_confidence_stand_on_one_line_in_one_pair_of_units(screen):
    widest = {"cost_ns": 999_900_000, "cost_pct": 100.0, "gain_ns": 999_900_000, "gain_pct": 100.0}
    lines = screen(finding(title="The host launches late"), finding(**widest))
    head = next(i for i, line in enumerate(lines) if line.startswith("1  The host launches late"))
    assert lines[head].endswith("  host-late")
    price = "costs 5.000 µs (20.0 %)  could save up to 4.000 µs (16.0 %) medium confidence"
    assert lines[head + 1] == f"   {price}"
    # The columns stay where they are, and the widest figures fit.
    second = lines[lines.index(next(line for line in lines if line.startswith("2  "))) + 1]
    assert second.index("could save") == lines[head + 1].index("could save")
    assert len(second) <= 80


def test_a_gain_that_is_the_whole_cost_is_no_second_figure(screen):
    (line,) = (
        line
        for line in screen(
            finding(cost_ns=11_070_400, cost_pct=16.0, gain_ns=11_070_000, gain_pct=16.0)
        )
        if line.startswith("   costs")
    )
    assert "costs 11.07 ms (16.0 %)" in line
    assert "could save all of it" in line
    assert line.count("11.07") == 1


def test_what_gains_nothing_is_a_remark_below_the_findings(screen):
    lines = screen(
        finding(gain_ns=0, gain_pct=0.0, summary="Nothing to win."), finding(summary="It is late.")
    )
    remarks = lines.index("Also noticed (no gain by itself, or no estimate of one)")
    assert any(line.startswith("1  ") for line in lines[:remarks])
    assert lines[remarks + 2] == "   Costs 5.000 µs (20.0 %). Nothing to win."
    assert not any(line.startswith("2  ") for line in lines)


def test_a_remark_shows_a_fact_and_why_it_gains_nothing(screen):
    alone = "removing it alone gains 0 ns of 5.000 µs: the next limit is the host"
    facts = ("55 × reduce, 326.9 ms", "each takes about 5.955 ms", alone)
    lines = screen(finding(gain_ns=0, gain_pct=0.0, evidence=facts), finding(summary="It is late."))
    remarks = next(i for i, line in enumerate(lines) if line.startswith("Also noticed"))
    told = [line for line in lines[remarks:] if line.startswith("   · ")]
    assert told[0] == "   · 55 × reduce, 326.9 ms"
    assert told[1].startswith("   · removing it alone gains 0 ns")
    assert len(told) == 2
    lines = screen(finding(gain_ns=None, evidence=facts[:2]), finding(summary="It is late."))
    assert "Also noticed (no estimate of a gain)" in lines


def test_rules_that_lacked_the_same_share_a_line(screen):
    lacked = {"abstained": True, "reason": "no energy was recorded"}
    lines = screen(finding(rule="idle-burn", **lacked), finding(rule="busy-but-idle", **lacked))
    assert lines[-1] == "Not checked: idle-burn, busy-but-idle (no energy was recorded)."


def test_what_the_run_is_bound_by_leads_without_a_number(screen):
    limit = {"gain_ns": None, "cost_ns": None, "cost_pct": None, "states_limit": True}
    lines = screen(finding(title="The GPU is busy", **limit), finding(title="Late"))
    order = [line[:10].rstrip() for line in lines if line.endswith("host-late")]
    assert order == ["   The GPU", "1  Late"]
    assert not any(line.startswith("Remarks") for line in lines)


def test_the_cost_over_several_gpus_says_so(tmp_path):
    events = [traces.kernel("k", 0, 5), traces.kernel("k", 0, 5, device=1)]
    data = answer_run(opened(tmp_path, events))
    price = write_price(finding(), data.breakdown)
    assert price[0] == "costs 5.000 µs over 2 GPUs (20.0 %)"


def test_a_profiled_kernels_share_is_not_one_of_the_programs_window(screen, tmp_path):
    lines = screen(finding(rule="ncu-stall", cost_pct=70.9), finding(cost_pct=20.0))
    assert any("(70.9 % of profiled kernel time)" in line for line in lines)
    assert any("(20.0 %)" in line for line in lines)
    data = answer_run(opened(tmp_path, [traces.kernel("k", 0, 5)]))
    text = write_markdown(replace(data, findings=[finding(rule="ncu-stall", cost_pct=70.9)]))
    assert "70.9 % of profiled kernel time" in text


def test_one_device_computes_for_so_much_and_no_more(screen):
    assert "No finding: the GPU computes for 40.0 % of the window." in screen()


def test_one_is_no_plural(tmp_path):
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    assert "1 GPU operation\n" in sightline("report", trace).out


def test_why_a_rule_abstained_is_one_clause(tmp_path):
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    found = json.loads(sightline("findings", trace, "--json").out)
    reasons = [f["reason"] for f in found if f["abstained"]]
    assert reasons
    assert not any("\n" in reason or reason.endswith(".") for reason in reasons)


def test_a_recording_of_stacks_shows_which_functions_ran(tmp_path):
    file = tmp_path / "my run.folded"
    file.write_text("main;work;sin 6\nmain;work 3\nmain;work;work 1\n")
    lines = sightline("report", file, "--no-html").out.splitlines()
    assert f"  sightline flame '{file}' -o flame.html" in lines
    top = next(i for i, line in enumerate(lines) if line.startswith("Top functions by samples"))
    # A function that calls itself is counted once in what stands below it.
    assert [line.split() for line in lines[top + 1 : top + 3]] == [
        ["sin", "6", "60.0", "%", "6"],
        ["work", "4", "40.0", "%", "10"],
    ]
    assert max(map(len, lines[top:])) <= 80


def checkpoint(**changes: Any) -> dict[str, Any]:
    return {
        "rank": 0,
        "name": "c",
        "allocated_bytes": None,
        "reserved_bytes": None,
        "process_bytes": 5,
        "synchronized": False,
    } | changes


def marked(**changes: Any) -> list[str]:
    marks = {
        "steps": [],
        "ranges": [],
        "checkpoints": [],
        "counters": [],
        "ranges_left_out": 0,
        "checkpoints_left_out": 0,
    } | changes
    return [line.plain for block in print_marks(marks) for line in block]


def test_marks_that_are_left_out_are_counted():
    length = {"name": "r", "instances": 1, "total_ns": 5, "mean_ns": 5}
    lines = marked(
        ranges=[length], ranges_left_out=3, checkpoints=[checkpoint()], checkpoints_left_out=52
    )
    assert "… 3 more: sightline stats annotations" in lines
    assert any(line.startswith("… 52 more: sightline sql RUN") for line in lines)
    assert max(map(len, lines)) <= 80


def test_that_the_gpu_was_not_waited_for_is_said_where_there_is_one():
    assert not any("waited" in line for line in marked(checkpoints=[checkpoint()]))
    on_gpu = marked(checkpoints=[checkpoint(allocated_bytes=7)])
    assert on_gpu[1].startswith("c *")
    assert on_gpu[-1].startswith("* when the host got there")
    assert len(marked(checkpoints=[checkpoint(allocated_bytes=7, synchronized=True)])) == 2


def test_recorded_allocations_are_summed_up(tmp_path):
    def memory(ts: int, size: int, total: int) -> dict[str, Any]:
        args = {
            "Device Type": 1,
            "Device Id": 0,
            "Addr": 64,
            "Bytes": size,
            "Total Allocated": total,
            "Total Reserved": 4096,
        }
        return {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": 100,
            "tid": 101,
            "ts": ts,
            "args": args,
        }

    events = [memory(0, 1024, 1024), memory(1, 512, 1536), memory(2, -1024, 512)]
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5), *events])
    lines = sightline("report", trace).out.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("Memory"))
    assert lines[head].split()[1:] == ["allocations", "allocated", "freed", "peak", "reserved"]
    assert " ".join(lines[head + 1].split()) == "GPU 0 2 1.536 kB 1.024 kB 1.536 kB 4.096 kB"


def test_several_limits_are_a_list(tmp_path):
    data = answer_run(opened(tmp_path, [traces.kernel("k", 0, 5)]))
    note = {"severity": "info", "count": None, "remedy": None}
    texts = ["the first: a, b; c", "the second"]
    several = replace(data, limits=[{**note, "text": t} for t in texts])
    shown = render_screen(several).plain.splitlines()
    start = shown.index("What limits this")
    assert shown[start + 1 : start + 3] == ["  · the first: a, b; c", "  · the second"]
    one = render_screen(replace(data, limits=[{**note, "text": "the first"}])).plain
    assert "What limits this: the first." in one


def test_the_root_that_py_spy_gives_a_process_is_no_function(tmp_path):
    frames = [{"name": 'process 7:"python a.py"', "file": "", "line": 0}, {"name": "f"}]
    profile = {
        "type": "sampled",
        "name": "t",
        "unit": "seconds",
        "startValue": 0,
        "endValue": 2,
        "samples": [[0], [0, 1]],
        "weights": [2, 1],
    }
    file = tmp_path / "a.speedscope.json"
    schema = "https://www.speedscope.app/file-format-schema.json"
    file.write_text(
        json.dumps(
            {
                "$schema": schema,
                "exporter": "py-spy@0.4.1",
                "shared": {"frames": frames},
                "profiles": [profile],
            }
        )
    )
    lines = sightline("report", file).out.splitlines()
    top = next(i for i, line in enumerate(lines) if line.startswith("Top functions by CPU time"))
    assert lines[top + 1].startswith("(in no Python function)")


def test_a_program_without_ranks_has_none(tmp_path):
    """Only a rank that the recording or its name states is shown."""
    kernel = [traces.kernel("k", 0, 5)]
    plain = traces.write(tmp_path, kernel)
    assert "rank" not in sightline("report", plain, "--no-html").out.splitlines()[0]
    named = traces.write(tmp_path, kernel, name="rank3.json")
    assert sightline("report", named, "--no-html").out.splitlines()[0].endswith(" · rank 3")


def test_a_profile_of_regions_alone_ranks_them(tmp_path):
    nodes = [{"label": "main", "column": "path"}]
    nodes += [{"label": "solve", "column": "path", "parent": 0}]
    document = {
        "data": [[1_000, 0], [3_000, 1]],
        "columns": ["time.duration", "path"],
        "column_metadata": [{"is_value": True, "attribute.unit": "usec"}, {"is_value": False}],
        "nodes": nodes,
    }
    (tmp_path / "profile.json").write_text(json.dumps(document))
    lines = sightline("report", tmp_path / "profile.json", "--no-html").out.splitlines()
    top = next(i for i, line in enumerate(lines) if line.startswith("Top regions by CPU time"))
    assert lines[top + 1].split() == ["solve", "3.000", "ms", "75.0", "%", "3.000", "ms"]
    assert lines[top + 2].split() == ["main", "1.000", "ms", "25.0", "%", "4.000", "ms"]


@pytest.mark.parametrize(
    ("table", "one"),
    [("source_files", "source file"), ("file_accesses", "file access"), ("devices", "device")],
)
def test_rows_of_a_table_are_named_as_people_do(table, one):
    assert _name_rows(table) == (one, table.replace("_", " "))
