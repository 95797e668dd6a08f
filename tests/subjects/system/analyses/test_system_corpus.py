"""A kernel's trace of LTTng: a second computation, event by event, from babeltrace2's own text."""

from __future__ import annotations

import gzip
import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

import sightline

NAME = "lttng-tracefile-rotation"
TRACE = f"ctf/efficios__babeltrace/ctf-traces/succeed/{NAME}"
TEXT = f"peer_expected/efficios__babeltrace/tests/data/plugins/src.ctf.fs/succeed/trace-{NAME}"
EVENT = re.compile(
    r", ([\d,]+) ns from origin\]\n\{Trace 0, .*?Stream ID (\d+)\}\nEvent `(\w+)`.*\n"
)
FIELD = re.compile(r"^    (\w+): (.*)$", re.MULTILINE)


class Machine:
    """Each thread's state, and the sums of what it has done."""

    def __init__(self) -> None:
        self.now: dict[int, tuple[str, int]] = {}  # of a thread: its state, and since when
        self.sums: dict[tuple[int, str], int] = Counter()
        self.waits: dict[int, list[int]] = defaultdict(list)
        self.cores: dict[int, list[int]] = defaultdict(list)

    def enter(self, tid: int, state: str, at: int) -> None:
        if tid in self.now:
            before, since = self.now[tid]
            self.sums[tid, before] += at - since
            if before == "woken" and state == "running":
                self.waits[tid].append(at - since)
        self.now[tid] = (state, at)

    def take(self, at: int, core: int, name: str, fields: dict[str, str]) -> None:
        if name == "sched_switch":
            leaves, comes = int(fields["prev_tid"]), int(fields["next_tid"])
            left = int(fields["prev_state"])
            if leaves:
                # 1026: an idle thread of the kernel (TASK_IDLE), which ps shows as I, not D
                kind = "uninterruptible" if left & 2 and left != 1026 else "blocked"
                kind = "preempted" if left in (0, 256, 512, 1024, 2048, 4096) else kind
                kind = "ended" if left in (16, 32) else kind
                self.enter(leaves, kind, at)
            if comes:
                self.enter(comes, "running", at)
                self.cores[comes].append(core)
        elif name in ("sched_waking", "sched_wakeup", "sched_wakeup_new"):
            tid = int(fields["tid"])
            if self.now.get(tid, ("", 0))[0] in ("blocked", "uninterruptible"):
                self.enter(tid, "woken", at)


@pytest.mark.corpus
def test_threads_of_a_desktop(corpus: Path) -> None:
    text = gzip.decompress((corpus / f"{TEXT}.expect.gz").read_bytes()).decode()
    machine, last = Machine(), 0
    for found in EVENT.finditer(text):
        at = int(found[1].replace(",", ""))
        body = text[found.end() : text.find("\n\n", found.end())]
        machine.take(at, int(found[2]), found[3], dict(FIELD.findall(body.replace(",", ""))))
        if found[3].startswith(("sched_switch", "sched_wak")):
            last = at
    for tid in [tid for tid, (state, _) in machine.now.items() if state != "ended"]:
        machine.enter(tid, machine.now[tid][0], last)

    run = sightline.open(corpus / TRACE)
    states = run.ask("thread_states")
    assert states.height == len(machine.now) > 100
    for row in states.iter_rows(named=True):
        for state in ("running", "preempted", "woken", "blocked", "uninterruptible"):
            assert row[f"{state}_ns"] == machine.sums[row["tid"], state], (row["tid"], state)
    latency = run.ask("wakeup_latency")
    ours = {
        row["tid"]: (row["count"], row["total_ns"], row["max_ns"]) for row in latency.to_dicts()
    }
    assert ours == {tid: (len(w), sum(w), max(w)) for tid, w in machine.waits.items()}
    moves = run.ask("thread_migrations").select("tid", "migrations").rows()
    theirs = {t: sum(a != b for a, b in pairwise(c)) for t, c in machine.cores.items()}
    assert dict(moves) == theirs
    path = run.ask("thread_critical_path", tid=1668)  # Xorg
    begin, end = path.item(0, "start_ns"), path.item(-1, "end_ns")
    assert path.get_column("duration_ns").sum() == end - begin
    # Its own time is on the path as it is; only its sleeps are someone else's.
    mine = path.filter(depth=0).group_by("state").agg("duration_ns")
    sums = {state: sum(each) for state, each in mine.rows()}
    for state in ("running", "preempted", "woken"):
        assert sums[state] == machine.sums[1668, state]
    assert path.filter(state="running").filter(tid=3692).height > 0  # a terminal that drew
