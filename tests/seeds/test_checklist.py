"""What profiling guides tell a person to type, item by item: it can be typed, and answers.

checklist.tsv: `how` is a command line of sightline, run in this process (recording is dry, on a
machine that is made up, so that no vendor's tool is needed), `doc:PAGE`, or `test:FILE::NAME` where
an item takes more than one command. `expects` must be in the answer. What is there in part says
what is missing; what is absent names the issue that brings it.
"""

from __future__ import annotations

import csv
import re
import shlex
import shutil
from pathlib import Path

import pytest

from record.collect.test_plan import WITH_GPU
from sightline.record.collect import machine
from support.command import sightline
from support.histories import Phase, train, write_history
from support.pages import ROOT

TABLE = Path(__file__).with_name("checklist.tsv").read_text()
ROWS = list(csv.DictReader(TABLE.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
TYPED = [row for row in ROWS if row["how"]]
STATES = ("works", "part", "absent", "background")
FACTS = {
    **WITH_GPU, "lttng": "2.13", "mpi_rank": "OMPI_COMM_WORLD_RANK", "nsys_help": None,
}  # fmt: skip
DMON = """\
#Entity   POWER    TOTEC    GPUTL  MCUTL  SMACT  SMOCC  TENSO  DRAMA
ID
GPU 0     414.000  100000   100    40     0.910  0.620  0.000  0.350
GPU 0     415.000  515000   100    40     0.912  0.620  0.000  0.350
GPU 0     414.000  930000   100    40     0.908  0.620  0.000  0.350
"""
SMI = """\
timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]
2026/01/05 10:00:00.000, 0, 97 %, 4000 MiB, 300.00 W
2026/01/05 10:00:01.000, 0, 98 %, 4000 MiB, 301.00 W
"""
NCCL = """\
n1:10:10 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
n1:10:30 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 - Init COMPLETE
n1:10:30 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
"""
PUZZLE = """\
{"tag": "low_cpu_load", "threshold": "config.low", "metrics": ["cpu_load"],
 "vars": {"avg_load": "mean(cpu_load.data)", "low_load": "avg_load < threshold"},
 "trigger": "low_load == True", "name": "low-load"}
"""
LIKWID = """\
Group 1: MEM_DP
+-----------------------------+------------+
|            Metric           | HWThread 0 |
+-----------------------------+------------+
|     Runtime (RDTSC) [s]     |     2.5000 |
|         DP [MFLOP/s]        |   706.5689 |
| Memory bandwidth [MBytes/s] |   631.0914 |
+-----------------------------+------------+
"""
LIKWID_RULE = """\
{"tag": "low_flops", "metrics": ["flops_dp", "mem_bw"],
 "rule": "flops_dp.max < 1 and mem_bw.max > 0.5"}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the command lines name."""
    folder = tmp_path_factory.mktemp("checklist")
    (folder / "dmon.txt").write_text(DMON)
    (folder / "smi.csv").write_text(SMI)
    (folder / "nccl.log").write_text(NCCL)
    shutil.copy(ROOT / "examples" / "simulated-dataloader.json.gz", folder / "trace.json.gz")
    shutil.copytree(ROOT / "examples" / "simulated-straggler", folder / "ranks")
    (folder / "likwid.txt").write_text(LIKWID)
    (folder / "likwid.json").write_text(LIKWID_RULE)
    (folder / "puzzle.json").write_text(PUZZLE)
    (folder / "config.json").write_text('{"low": 1.0}')
    host = {"power": 10.0, "load": 0.2}
    write_history(folder / "gpu-history", [Phase(120, {0: train(), -1: host})])
    return folder


@pytest.fixture(autouse=True)
def made_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr(machine, "examine_machine", lambda: dict(FACTS))


def test_every_item_has_a_state() -> None:
    numbers = [part for row in ROWS for part in _expand(row["number"])]
    assert numbers == list(range(1, 141))
    for row in ROWS:
        assert row["state"] in STATES, row
        assert bool(row["how"]) == (row["state"] in ("works", "part")), row
        assert bool(row["missing"]) == (row["state"] in ("part", "absent")), row
        # An issue brings it, or nobody here can: the vendor has no door, no recording is at hand.
        assert not row["missing"] or re.match(r"issue \d+: |limit: ", row["missing"]), row
        assert row["state"] != "absent" or row["missing"].startswith("issue "), row


def _expand(number: str) -> range:
    first, _, last = number.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("row", TYPED, ids=[f"{r['number']} {r['item']}"[:40] for r in TYPED])
def test_it_can_be_typed_and_answers(row: dict[str, str]) -> None:
    how, expects = row["how"], row["expects"]
    if how.startswith("doc:"):
        assert expects in (ROOT / "docs" / how[4:]).read_text()
        return
    if how.startswith("test:"):
        file, _, name = how[5:].partition("::")
        assert f"def {name}(" in (ROOT / "tests" / file).read_text()
        return
    outcome = sightline(*shlex.split(how))
    assert outcome.code in (0, 1), outcome.err  # 1: of a gate, as MIG's without a place
    assert expects in f"{outcome.out}\n{outcome.err}"
