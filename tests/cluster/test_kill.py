"""SIGKILL at random moments: what was acknowledged is there, once, and nothing else is."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from sightline.cluster.search import Search, Wanted
from sightline.cluster.store import Store
from support.campaigns import CAMPAIGNS
from support.cluster_jobs import NOW, read_values

KILLS = 60 if CAMPAIGNS else 4
# Writes points and jobs by two threads with a checkpoint each 30 ms, and says what came back.
CHILD = """
import sys, threading, time
from pathlib import Path
from sightline.cluster import store as module
from sightline.cluster.points import PointReader
from sightline.cluster import sealing
sealing.SCATTERED = 4
kept = module.Store(Path(sys.argv[1]))
first, now = int(sys.argv[2]), int(sys.argv[3])
lock = threading.Lock()
def say(text):
    with lock:
        print(text, flush=True)
def write_points():
    reader = PointReader()
    for n in range(first, first + 100_000):
        line = f"cpu_load,hostname=n1 value={n} {now - 10_000_000 + n}"
        kept.write_points(reader.read(line.encode(), "c1", now_ns=now * 10**9))
        say(f"point {n}")
def write_jobs():
    for n in range(first, first + 100_000):
        kept.start_job({"jobId": n, "cluster": "c1", "user": "ada", "startTime": now - 5000,
                        "resources": [{"hostname": "n1"}]})
        say(f"start {n}")
        if n % 3:
            kept.stop_job({"jobId": n, "cluster": "c1", "jobState": "completed", "stopTime": now})
            say(f"stop {n}")
for target in (write_points, write_jobs):
    threading.Thread(target=target, daemon=True).start()
say("ready 0")
while True:
    time.sleep(0.03)
    kept.checkpoint()
"""


def run_and_kill(folder: Path, first: int, after_s: float) -> Counter[str]:
    """What was acknowledged until the kill."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), str(first), str(NOW)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    said = [child.stdout.readline() for _ in range(2)]
    time.sleep(after_s)
    child.send_signal(signal.SIGKILL)
    said += child.stdout.read().splitlines()
    child.wait()
    child.stdout.close()
    return Counter(line.strip() for line in said if line.strip() != "ready 0")


def test_nothing_that_was_acknowledged_is_lost(tmp_path):
    rng = random.Random(int(os.environ.get("KILL_SEED", "62")))
    folder, acknowledged = tmp_path / "s", Counter()
    for number in range(KILLS):
        said = run_and_kill(folder, number * 100_000, rng.uniform(0.01, 0.9))
        acknowledged += said
        kept = Store(folder)
        points = read_values(kept)
        search = Search(kept)
        jobs, count = search.list_jobs(Wanted(), most=1_000)
        more = [
            search.list_jobs(Wanted(), most=1_000, offset=at)[0]
            for at in range(1_000, count, 1_000)
        ]
        search.close()
        rows = [row for part in (jobs, *more) for row in part]
        ended = {row["job_id"]: row["end_ns"] is not None for row in rows}
        assert len(ended) == len(rows) == count, "a job is there twice"
        for line in acknowledged:
            kind, _, text = line.partition(" ")
            if kind == "point":
                assert points[NOW - 10_000_000 + int(text)] == float(text), line
            elif kind == "start":
                assert text in ended, line
            else:
                assert ended[text], line
        # What else is there was under way when the kill came: one of each thread and run.
        done = Counter(line.partition(" ")[0] for line in acknowledged)
        assert len(points) - done["point"] <= number + 1
        assert count - done["start"] <= number + 1
        assert sum(ended.values()) - done["stop"] <= number + 1
        kept._guard.close()  # as it is: no checkpoint that would tidy up
        kept._journal.close()
    assert sum(acknowledged.values()) > 20 * KILLS
