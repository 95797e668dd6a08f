"""Recordings that hold stacks: each format's small input, and the stacks it gives."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightline as door
from sightline.flames.build import build_stacks
from sightline.flames.layers import SIDE
from support.campaigns import sample
from support.command import sightline

IAPROF = """\
string\t1\tpython3
string\t2\tmain;train;launch
string\t3\tgemm.cl
string\t4\tgemm_kernel
string\t5\tmad
interval\t0\t12.5
kernel\t0x7f00\t1\t4711\t2\t3\t4
eustall\t0x40\t5\t0\t0\t0\t7\t0\t9\t0\t0\t0\t0
eustall\t0x48\t5\t3\t2\t0\t7\t0\t9\t0\t0\t0\t0
metric\tfrequency-MHz\t1200
"""
UNITRACE = """\
=== Device #0 Metrics ===

          Kernel, IP[Address], Active[Events], ControlStall[Events], SbidStall[Events]
   "gemm, big",           c0,              2,                    0,                 5
     "copy",              80,              1,                    3,                 0
"""
STOCHASTIC = """\
"Sample_Timestamp","Exec_Mask","Dispatch_Id","Instruction","Instruction_Comment","Correlation_Id",\
"Wave_Issued_Instruction","Instruction_Type","Stall_Reason","Wave_Count"
1,1,24,"s_waitcnt vmcnt(0)","/src/ops.cpp:133",24,0,"T","ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_\
ISSUED_REASON_WAITCNT",4
2,1,24,"v_add","/src/ops.cpp:134",24,1,"T","ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON\
_NONE",4
"""
PROTON = [
    {
        "frame": {"name": "ROOT"},
        "metrics": {},
        "children": [
            {
                "frame": {"name": "/x/model.py:forward@12"},
                "metrics": {"count": 0},
                "children": [
                    {"frame": {"name": "gemm"}, "metrics": {"time (ns)": 500}, "children": []}
                ],
            }
        ],
    },
    {"CUDA": {"0": {"arch": "90"}}},
]
PERF = """\
# ========
# captured on: some day
# ========
train  4711/4712 [003] 12.000001: 1001001 cpu-clock:
\t  4005d6 step+0x10 (/usr/bin/train)
\t  4006aa main (/usr/bin/train)

train  4711/4712 [003] 12.001002: 1001001 cpu-clock:
\tffffffff81 do_syscall_64 ([kernel.kallsyms])
\t  4006aa main (/usr/bin/train)

"""
SPEEDSCOPE = {
    "$schema": "https://www.speedscope.app/file-format-schema.json",
    "shared": {"frames": [{"name": "main", "file": "a.py", "line": 3}, {"name": "work"}]},
    "profiles": [
        {
            "type": "evented",
            "name": "t",
            "unit": "milliseconds",
            "startValue": 0,
            "endValue": 9,
            "events": [
                {"type": "O", "frame": 0, "at": 0},
                {"type": "O", "frame": 1, "at": 2},
                {"type": "C", "frame": 1, "at": 6},
                {"type": "C", "frame": 0, "at": 7},
            ],
        }
    ],
}
PREFIX = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
ROCPROF_JSON = {
    "rocprofiler-sdk-tool": [
        {
            "kernel_symbols": [{"kernel_id": 3, "formatted_kernel_name": "vecadd(float*)"}],
            "strings": {"pc_sample_instructions": ["v_add"], "pc_sample_comments": ["a.cpp:7"]},
            "buffer_records": {
                "kernel_dispatch": [{"dispatch_info": {"dispatch_id": 1, "kernel_id": 3}}],
                "pc_sample_stochastic": [
                    {
                        "inst_index": 0,
                        "record": {
                            "dispatch_id": 1,
                            "wave_issued": 0,
                            "pc": {"code_object_offset": 64},
                            "snapshot": {"stall_reason": PREFIX + "WAITCNT"},
                        },
                    },
                ],
                "pc_sample_host_trap": [
                    {"inst_index": -1, "record": {"dispatch_id": 9}},
                ],
            },
        }
    ]
}
FORMATS = {
    "collapsed": "main;step;do_syscall_[k] 3\nmain;-;gemm.cl_[G];gemm_[G];mad_[g];sbid_[g] 4\n",
    "iaprof": IAPROF,
    "unitrace_stalls": UNITRACE,
    "rocprof_pc": STOCHASTIC,
    "proton": json.dumps(PROTON),
    "perf_script": PERF,
    "speedscope": json.dumps(SPEEDSCOPE),
}


def stacks_of(folder: Path, text: str, weight: str, name: str = "recording") -> dict[str, int]:
    """'layer:frame|...' to weight."""
    path = folder / name
    path.write_text(text)
    stacks = build_stacks(door.open(str(path)))
    known = {i: f"{layer}:{frame}" for i, layer, frame in stacks.frames.rows()}
    rows = stacks.rows.select("frames", weight).rows()
    return {"|".join(known[f] for f in frames): value for frames, value in rows if value}


@pytest.mark.parametrize("name", FORMATS)
def test_each_is_known_by_its_content(name, tmp_path):
    path = tmp_path / "recording"
    path.write_bytes(gzip.compress(FORMATS[name].encode()))
    assert door.open(str(path)).table("recordings").item(0, "format") == name


def test_collapsed(tmp_path):
    assert stacks_of(tmp_path, FORMATS["collapsed"], "samples") == {
        "native:main|native:step|os:do_syscall": 3,
        "native:main|gpu_file:gemm.cl|kernel:gemm|instruction:mad|stall_class:sbid": 4,
    }


def test_iaprof_counts_every_reason(tmp_path):
    found = stacks_of(tmp_path, IAPROF, "samples")
    assert sum(found.values()) == 37
    above = (
        "process:python3 4711|native:main|native:train|native:launch|gpu_file:gemm.cl|"
        "kernel:gemm_kernel|instruction:"
    )
    assert found == {
        above + "+0x40 mad|stall_class:memory queue full|stall_reason:send": 7,
        above + "+0x40 mad|stall_class:memory wait|stall_reason:sbid": 9,
        above + "+0x48 mad|stall_class:issuing|stall_reason:active": 3,
        above + "+0x48 mad|stall_class:control|stall_reason:control": 2,
        above + "+0x48 mad|stall_class:memory queue full|stall_reason:send": 7,
        above + "+0x48 mad|stall_class:memory wait|stall_reason:sbid": 9,
    }


def test_unitrace(tmp_path):
    assert stacks_of(tmp_path, UNITRACE, "samples") == {
        "device:Device #0|kernel:gemm, big|instruction:+0xc0|stall_class:issuing|"
        "stall_reason:active": 2,
        "device:Device #0|kernel:gemm, big|instruction:+0xc0|stall_class:memory wait|"
        "stall_reason:sbid": 5,
        "device:Device #0|kernel:copy|instruction:+0x80|stall_class:issuing|stall_reason:active": 1,
        "device:Device #0|kernel:copy|instruction:+0x80|stall_class:control|"
        "stall_reason:control": 3,
    }


def test_rocprof_csv_tells_issued_from_stalled(tmp_path):
    above = "gpu_file:/src/ops.cpp|kernel:[kernel of dispatch 24]|gpu_line:ops.cpp:"
    stalled = (
        above + "133|instruction:s_waitcnt vmcnt(0)|stall_class:memory wait|stall_reason:waitcnt"
    )
    issued = above + "134|instruction:v_add|stall_class:issuing|stall_reason:wave_issued"
    assert stacks_of(tmp_path, STOCHASTIC, "samples") == {stalled: 1, issued: 1}
    assert stacks_of(tmp_path, STOCHASTIC, "latency_samples") == {stalled: 1}


def test_rocprof_json_names_the_kernel(tmp_path):
    assert stacks_of(tmp_path, json.dumps(ROCPROF_JSON), "samples") == {
        "gpu_file:a.cpp|kernel:vecadd(float*)|gpu_line:a.cpp:7|instruction:+0x40 v_add|"
        "stall_class:memory wait|stall_reason:waitcnt": 1,
        "kernel:[kernel of dispatch 9]|instruction:[unknown instruction]": 1,
    }


def test_rocprof_json_is_known_however_long_it_says_who_recorded(tmp_path):
    # A machine of eight devices is described on more than the 64 kB that are looked at.
    (tool,) = ROCPROF_JSON["rocprofiler-sdk-tool"]
    text = json.dumps({"rocprofiler-sdk-tool": [{"agents": ["gfx942"] * 20_000, **tool}]})
    assert sum(stacks_of(tmp_path, text, "samples", "long").values()) == 2
    none = {"buffer_records": {"kernel_dispatch": []}}
    file = tmp_path / "no_samples.json"
    file.write_text(json.dumps({"rocprofiler-sdk-tool": [none]}))
    with pytest.raises(door.DamagedError, match="it holds no kernel"):
        door.open(str(file))


def test_proton(tmp_path):
    assert stacks_of(tmp_path, json.dumps(PROTON), "gpu_time_ns") == {
        "phase:ROOT|python:forward (model.py:12)|kernel:gemm": 500
    }


def test_perf_script(tmp_path):
    root = "run:rank 0|process:process 4711 train|thread:thread 4712|native:main"
    assert stacks_of(tmp_path, PERF, "samples") == {
        root + "|native:step": 1,
        root + "|os:do_syscall_64": 1,
    }
    assert stacks_of(tmp_path, PERF, "cpu_time_ns") == {
        root + "|native:step": 1001001,
        root + "|os:do_syscall_64": 1001001,
    }


def test_a_moment_of_perf_that_no_64_bits_hold_is_counted(tmp_path):
    late = re.sub(r" \d+\.\d+:", " 999999999999.000000001:", PERF.split("\n\n")[0])
    (tmp_path / "late.perf.txt").write_text(f"{PERF.rstrip()}\n\n{late}\n\n")
    run = door.open(tmp_path / "late.perf.txt")
    assert run.rows("cpu_samples") == 2
    assert "damaged_lines" in run.table("quality").get_column("kind").to_list()


def test_speedscope_evented(tmp_path):
    assert stacks_of(tmp_path, json.dumps(SPEEDSCOPE), "cpu_time_ns") == {
        "python:main (a.py:3)": 3_000_000,
        "python:main (a.py:3)|native:work": 4_000_000,
    }


@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_an_error_or_a_note_never_a_traceback(name, tmp_path):
    data = FORMATS[name].encode()
    for cut in sample(range(0, len(data), max(1, len(data) // 20)), 3):
        path = tmp_path / f"cut{cut}"
        path.write_bytes(data[:cut])
        assert sightline("flame", path).code in (0, 2), cut


def _set_frame(**fields: object) -> str:
    frames = [{"name": "main"} | fields, {"name": "work"}]
    return json.dumps(SPEEDSCOPE | {"shared": {"frames": frames}})


def _set_times(times: list[int]) -> str:
    events = SPEEDSCOPE["profiles"][0]["events"]
    events = [e | {"at": at} for e, at in zip(events, times, strict=True)]
    return json.dumps(SPEEDSCOPE | {"profiles": [SPEEDSCOPE["profiles"][0] | {"events": events}]})


@pytest.mark.pages
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (_set_frame(line=-(2**63) - 1), 0),
        (_set_frame(line=2**70), 0),
        (_set_frame(file="half a letter: \ud800"), 0),
        (json.dumps(SPEEDSCOPE | {"shared": {"frames": ["main", "work"]}}), 2),
        (json.dumps(SPEEDSCOPE | {"profiles": ["main"]}), 2),
        # Each fits, in ns, but not both together: nothing rather than a number that ran over.
        (_set_times([0, 5 * 10**12, 10**13, 10**13]), 2),
        (json.dumps([{"frame": {"name": "\ud800"}, "metrics": {"time (ns)": 5}}]), 0),
    ],
)
def test_json_holds_what_no_column_does(text, code, tmp_path):
    path = tmp_path / "odd.json"
    path.write_text(text)
    outcome = sightline("flame", path, "-o", tmp_path / "flame.html")
    assert outcome.code == code, outcome.err


def test_a_weight_beyond_64_bits_is_said_to_be_missing(tmp_path):
    path = tmp_path / "beyond.json"
    path.write_text(_set_times([0, 2, 10**20, 10**20 + 1]))
    run = door.open(path)
    # Beyond 64 bits a time is the nearest float: what lies between two of them is lost.
    assert run.table("stack_weights").get_column("value").to_list() == [2_000_000]
    assert "damaged_weights" in run.table("quality").get_column("kind").to_list()


@given(st.data())
def test_flipped_bytes_are_no_bug_either(data):
    import tempfile

    text = bytearray(FORMATS[data.draw(st.sampled_from(sorted(FORMATS)))].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        assert sightline("flame", file.name).code in (0, 2)


@pytest.mark.corpus
def test_rocprof_samples_of_the_corpus_equal_a_plain_count(corpus):
    path = corpus / "rocprofv3/ROCm__rocm-systems/pc_sampling_stochastic_debug.csv"
    with path.open() as file:
        rows = list(csv.DictReader(file))
    expected = Counter(
        "issuing"
        if r["Wave_Issued_Instruction"] == "1"
        else r["Stall_Reason"].rsplit("REASON_")[-1]
        for r in rows
    )
    stacks = build_stacks(door.open(str(path)))
    assert stacks.total("samples") == len(rows)
    assert stacks.total("latency_samples") == len(rows) - expected["issuing"]


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("file", "weight", "total"),
    [
        ("linux-perf/simple-with-header.linux-perf.txt", "samples", None),
        ("stackcollapse/simple.txt", "samples", 14),
        ("stackcollapse/simple-crlf.txt", "samples", 14),
        ("stackcollapse/simple-utf16-le.txt", "samples", 14),
        ("stackcollapse/simple-utf16-be.txt", "samples", 14),
        ("stackcollapse/simple-with-invalids.txt", "samples", 14),
        ("speedscope/0.6.0/two-sampled.speedscope.json", "cpu_time_ns", 28_000_000_000),
    ],
)
def test_other_tools_samples(corpus, file, weight, total):
    path = corpus / "cpu_stacks/jlfwong__speedscope/sample/profiles" / file
    stacks = build_stacks(door.open(str(path)))
    if total is None:  # counted in the file: each sample has one header line
        total = sum(
            "cpu-clock:" in line and not line.startswith("#")
            for line in path.read_text().splitlines()
        )
    assert stacks.total(weight) == total


def test_every_layer_of_a_format_is_a_layer(tmp_path):
    for name, text in FORMATS.items():
        for stack in stacks_of(
            tmp_path,
            text,
            "gpu_time_ns"
            if name == "proton"
            else ("cpu_time_ns" if name == "speedscope" else "samples"),
            name,
        ):
            assert all(frame.partition(":")[0] in SIDE for frame in stack.split("|"))


def test_symbols_of_cxx_are_written_as_in_the_program(tmp_path):
    found = stacks_of(tmp_path, "main;_Z5alphav;_Z4betaPKfi 5\n", "samples")
    assert found == {"native:main|native:alpha()|native:beta(float const*, int)": 5}
