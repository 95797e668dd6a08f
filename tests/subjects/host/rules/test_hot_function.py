"""hot-function: recordings of CPU stacks alone, by py-spy of three programs and as folded text.

The programs are in the docstrings of the tests; paths in their recordings were shortened.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline
from sightline.answer.functions import list_hot_functions
from sightline.core.model.declare import Finding
from sightline.views.terminal.screen import name_functions
from support.exports import opened
from support.rules import answers
from synth_nsys import Export, gtid

RULE = "hot-function"
RECORDED = Path(__file__).with_name("recorded")


def judge(name: str) -> Finding:
    (found,) = answers(sightline.open(str(RECORDED / f"stacks_{name}.speedscope.json")), RULE)
    return found


def judge_folded(folder: Path, text: str) -> list[Finding]:
    path = folder / "stacks.folded"
    path.write_text(text, encoding="utf-8")
    return answers(sightline.open(str(path)), RULE)


def test_a_loop_over_elements_names_its_line() -> None:
    """A stencil over lists, line 6: 36 of 40 samples of 10 ms are there, 39 in the function."""
    found = judge("loop")
    assert found.summary.startswith("Of 400.0 ms in which a thread ran, 97.5 % is in smooth")
    assert "(loop.py:6), 92.3 % of it in that line" in found.summary
    assert "NumPy" in found.fix
    assert found.cost is not None
    assert found.cost.amount == 390_000_000


@pytest.mark.parametrize(
    ("name", "title"),
    [("loop", "Top functions by CPU time"), ("pool", "Top functions by time, waits included")],
)
def test_time_in_which_threads_wait_is_not_called_the_cpus(name: str, title: str) -> None:
    run = sightline.open(str(RECORDED / f"stacks_{name}.speedscope.json"))
    assert name_functions(list_hot_functions(run)) == title


def test_evidence_says_how_much_of_a_function_is_in_the_line_that_it_names() -> None:
    (line,) = (fact for fact in judge("loop").evidence if "smooth (loop.py:6)" in fact)
    assert line.startswith("97.5 % smooth (loop.py:6), 390.0 ms, 92.3 % of it in that line")


def test_work_in_an_event_loop_is_said_to_block_it() -> None:
    """An asyncio server whose handlers write JSON for 3 ms each, and sleep between."""
    found = judge("serve")
    assert "JSONEncoder.iterencode" in found.summary
    assert "called by parse (serve.py:6)" in found.summary
    assert found.evidence[0].startswith("97.0 % in callbacks of asyncio's event loop")
    assert "to_thread" in found.fix
    assert "threads wait for 4" not in found.summary


def test_threads_of_a_pool_wait_for_its_processes() -> None:
    """multiprocessing.Pool.map: what its processes do was not recorded."""
    found = judge("pool")
    assert found.title == "Threads wait for most of the time"
    assert "called by main (pool.py:10)" in found.summary
    assert "--subprocesses" in found.fix


def test_idle_cores_and_names_that_nobody_knows_are_not_hot(tmp_path: Path) -> None:
    text = "swapper;intel_idle 900\nprog;[unknown] 60\nprog;main;sweep 40\n"
    (found,) = judge_folded(tmp_path, text)
    assert found.summary.startswith("Of 100 samples in which a thread ran, 40.0 % is in sweep")
    assert "at the same time no thread runs for 900 samples" in found.evidence


def test_what_the_allocator_takes_is_told_with_its_remedy(tmp_path: Path) -> None:
    (found,) = judge_folded(tmp_path, "prog;main;grow;_int_malloc 70\nprog;main;sum 30\n")
    assert "70.0 % is in _int_malloc" in found.summary
    assert "allocate before the loop" in found.fix


def test_a_garbage_collector_is_told_as_one(tmp_path: Path) -> None:
    """No function of it stands out, all together do."""
    names = [f"gc_sweep_{n}" for n in range(15)] + [f"work_{n}" for n in range(15)]
    samples = "".join(
        f"julia 7 {1 + n / 100:.6f}: 10000000 cpu-clock:\n"
        f"\t401000 {name}+0x1 (/usr/lib/libjulia-internal.so)\n"
        "\t400000 main+0x2 (/usr/bin/julia)\n\n"
        for n, name in enumerate(names)
    )
    path = tmp_path / "perf.txt"
    path.write_text(samples, encoding="utf-8")
    (found,) = answers(sightline.open(str(path)), RULE)
    assert "50.0 % collects garbage in Julia" in found.summary
    assert "allocate less" in found.fix


def test_few_samples_and_flat_profiles_say_nothing(tmp_path: Path) -> None:
    assert judge_folded(tmp_path, "prog;main;sum 3\n") == []
    flat = "".join(f"prog;main;f{n} 5\n" for n in range(20))
    assert judge_folded(tmp_path, flat) == []


def test_a_library_without_names_is_told_by_who_calls_it(tmp_path: Path) -> None:
    """strlen of a libc without debug symbols; the loop that calls it has a name and a line."""
    frames = [
        {"name": "main", "file": "/home/user/count.c", "line": 20},
        {"name": "count_spaces", "file": "/home/user/count.c", "line": 8},
        {"name": "[libc.so.6]"},
    ]
    profile = {
        "type": "sampled",
        "name": "prog",
        "unit": "milliseconds",
        "startValue": 0,
        "endValue": 600,
        "samples": [[0, 1, 2]] * 60,
        "weights": [10] * 60,
    }
    path = tmp_path / "prog.speedscope.json"
    schema = "https://www.speedscope.app/file-format-schema.json"
    path.write_text(
        json.dumps({"$schema": schema, "shared": {"frames": frames}, "profiles": [profile]})
    )
    (found,) = answers(sightline.open(str(path)), RULE)
    assert "100.0 % is in [libc.so.6], called by count_spaces (count.c:8)" in found.summary
    assert "how often count_spaces calls it" in (found.fix or "")


@pytest.mark.parametrize(("calls", "is_told"), [(12, True), (120, False)])
def test_beside_a_handful_of_calls_samples_say_more(
    tmp_path: Path, calls: int, is_told: bool
) -> None:
    """Under WSL2 a program's kernels may be lost; of hundreds of calls another rule speaks."""
    export = Export()
    for n in range(calls):
        export.api("cudaLaunchKernel", 1_000_000 * n, 1_000_000 * n + 5_000, n + 1)
    for n, name in enumerate(("initWith", "checkElements")):
        symbol, module = export.text(name), export.text("/home/user/vectors")
        export.add(
            "SAMPLING_CALLCHAINS",
            id=n + 1,
            symbol=symbol,
            module=module,
            stackDepth=0,
            kernelMode=0,
        )
    for n in range(100):
        export.add(
            "COMPOSITE_EVENTS",
            id=1 if n < 80 else 2,
            start=1_000_000 * n,
            cpu=1,
            threadState=1,
            globalTid=gtid(7, 9),
            cpuCycles=1_000,
        )
    found = answers(opened(tmp_path, export), RULE)
    assert [f.summary for f in found if not f.abstained] == (
        ["Of 100 samples in which a thread ran, 80.0 % is in initWith."] if is_told else []
    )
