"""The kernel's events as perf prints them: by line, from perf itself, and damaged."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run
from sightline.errors import SightlineError
from sightline.record.collect.backends import _perf

TEXT = """\
            app    40/41    [001]   10.000001000:         sched:sched_switch: prev_comm=app prev_pid=41 prev_prio=120 prev_state=R+ ==> next_comm=k w:1 next_pid=7 next_prio=100
          k w:1     7/7     [001]   10.000002000:         sched:sched_switch: prev_comm=k w:1 prev_pid=7 prev_prio=100 prev_state=D|K ==> next_comm=app next_pid=41 next_prio=120
            app    40/41    [001]   10.000003000:   syscalls:sys_enter_futex: uaddr: 0x7f00, op: 0x00000081, val: 0x00000001
            app    40/41    [001]   10.000004000:         sched:sched_switch: app:41 [120] S ==> swapper/1:0 [120]
        swapper     0/0     [001]   10.000005000:          irq:softirq_entry: vec=4 [action=BLOCK]
        swapper     0/0     [001]   10.000006000:         sched:sched_waking: comm=app pid=41 prio=120 target_cpu=001
        swapper     0/0     [001]   10.000007000:           irq:softirq_exit: vec=4 [action=BLOCK]
        swapper     0/0     [001]   10.000008000:         sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=app next_pid=41 next_prio=120
            app    40/41    [001]   10.000009000:    syscalls:sys_exit_futex: 0xfffffffffffffff5
            app    40/41    [001]   10.000010000:       block:block_rq_issue: 254,1 WS 4096 () 800 + 8 [app]
            app    40/41    [001]   10.000011000:       block:block_rq_issue: 254,1 FF 0 () 18446744073709551615 + 0 [app]
            app    40/41    [001]   10.000012000:    block:block_rq_complete: 254,1 WS () 800 + 8 [0]
            app    40/41    [001]   10.000013000:    block:block_rq_complete: 254,1 FF () 18446744073709551615 + 0 [0]
"""  # noqa: E501


def opened(folder: Path, text: str = TEXT) -> Run:
    path = folder / "run.perf-trace.txt"
    path.write_text(text)
    return sightline.open(str(path))


def rows(run: Run, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return run.table(table).select(columns).rows()


def test_every_event(tmp_path: Path) -> None:
    run = opened(tmp_path)
    assert rows(run, "sched_events", "time_ns", "cpu", "pid", "tid", "switched_in", "state") == [
        (10_000_001_000, 1, 40, 41, False, "R+"),
        (10_000_001_000, 1, 7, 7, True, None),
        (10_000_002_000, 1, 7, 7, False, "D"),
        (10_000_002_000, 1, 40, 41, True, None),
        (10_000_004_000, 1, 40, 41, False, "S"),
        (10_000_008_000, 1, 40, 41, True, None),
    ]
    assert rows(run, "wakeups", "time_ns", "tid", "woken_tid", "kind") == [
        (10_000_006_000, 0, 41, "sched_waking")
    ]
    assert rows(run, "interrupts", "start_ns", "end_ns", "kind", "number", "name") == [
        (10_000_005_000, 10_000_007_000, "softirq", 4, "BLOCK")
    ]
    calls = rows(run, "host_ops", "start_ns", "end_ns", "tid", "name", "return_value", "payload")
    assert calls == [(10_000_003_000, 10_000_009_000, 41, "futex", -11, "0x7f00")]
    assert rows(run, "disk_requests", "start_ns", "end_ns", "sector", "sectors", "operation") == [
        (10_000_010_000, 10_000_012_000, 800, 8, "write"),
        (10_000_011_000, 10_000_013_000, None, 0, "flush"),
    ]
    assert rows(run, "threads", "pid", "tid", "thread_name") == [(7, 7, "k w:1"), (40, 41, "app")]
    sleeps = run.ask("sleep_causes").filter(tid=41).select("call", "source", "total_ns").rows()
    assert sleeps == [("futex", "disk", 2000)]


def test_damage_is_an_error_or_a_note(tmp_path: Path) -> None:
    random = Random(5)
    for _ in range(40):
        text = list(TEXT)
        for _ in range(random.randrange(1, 30)):
            text[random.randrange(len(text))] = random.choice("0 9:[]\n\t=>\0é")
        try:
            run = opened(tmp_path, "".join(text[: random.randrange(100, len(text))]))
            run.ask("thread_states") if run.rows("sched_events") else None
        except SightlineError as error:
            assert str(error)


def can_trace() -> bool:
    words = ["perf", "record", "-q", "-a", "-o", "/dev/null", "-e", "sched:sched_switch", "true"]
    return bool(shutil.which("perf")) and subprocess.run(words, capture_output=True).returncode == 0


SWITCH = re.compile(
    r"\]\s+(\d+)\.(\d{9}):\s+sched:sched_switch: .* prev_pid=(\d+) .* prev_state=(\S+) ==> "
    r".* next_pid=(\d+) "
)


@pytest.mark.skipif(not can_trace(), reason="perf may not trace the whole system here")
def test_perf_s_own_file_is_as_its_lines_say(tmp_path: Path) -> None:
    """How long each thread ran, added up line by line from what perf itself prints."""
    data = tmp_path / "run.perf.data"
    program = "for i in 1 2 3 4 5 6 7 8; do sleep 0.01; done"
    record = ["perf", "record", "-q", "-a", "-o", str(data), "-e", "sched:sched_switch"]
    subprocess.run([*record, "sh", "-c", program], check=True, capture_output=True)
    words = ["perf", "script", "--ns", "-F", "cpu,time,event,trace", "-i", str(data)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    since: dict[int, int] = {}
    ran: dict[int, int] = {}
    at = 0
    for found in sorted(
        (int(f[1]) * 10**9 + int(f[2]), int(f[3]), int(f[5])) for f in SWITCH.finditer(done.stdout)
    ):
        at, leaves, comes = found
        if leaves in since:
            ran[leaves] = ran.get(leaves, 0) + at - since.pop(leaves)
        since.setdefault(comes, at)  # perf may lose a switch: then it goes on running
    for tid, begin in since.items():
        ran[tid] = ran.get(tid, 0) + at - begin
    ran.pop(0, None)
    states = sightline.open(str(data)).ask("thread_states")
    ours = dict(states.filter(states["running_ns"] > 0).select("tid", "running_ns").rows())
    assert ours == {tid: ns for tid, ns in ran.items() if ns}
    assert len(ours) >= 3


def test_the_calls_of_perf_itself_are_left_out() -> None:
    words = _perf.trace_system(Path("x"), (3, 4))
    assert words.index("--exclude-perf") == words.index(",".join(_perf.CALL_EVENTS)) + 1
