"""Slurm's outputs: every figure worked out by hand."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.declare import ImportOptions
from sightline.errors import InputError
from sightline.formats.cluster import _jobstats as jobstats
from sightline.formats.cluster._slurm import (
    count_gpus,
    count_gres,
    expand_hosts,
    read_length,
    read_request,
    read_size,
    read_time,
    read_tres,
)
from sightline.opening.run import open_run
from sightline.session import Session

SECOND, GIB = 10**9, 1 << 30
SUMMARY = {
    "gpus": 2,
    "total_time": 1000,
    "nodes": {
        "n1": {
            "cpus": 4,
            "total_time": 1000,
            "total_memory": 8 * GIB,
            "used_memory": 2 * GIB,
            "gpu_utilization": {"0": 90, "1": 0},
            "gpu_used_memory": {"0": 3 * GIB, "1": 0},
            "gpu_total_memory": {"0": 40 * GIB, "1": 40 * GIB},
        }
    },
}
NAMES = "JobID|User|Account|State|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES|ReqMem|TotalCPU|"
NAMES += "TRESUsageInTot|AdminComment|NodeList"


def write_line(job: str, **cells: str) -> str:
    return "|".join([job, *(cells.get(name, "") for name in NAMES.split("|")[1:])])


def write_job(comment: str = "") -> str:
    return write_line(
        "17",
        User="ada",
        Account="physics",
        State="CANCELLED by 1000",
        Start="2026-01-31T10:00:00",
        End="2026-01-31T10:16:40",
        ElapsedRaw="1000",
        TimelimitRaw="60",
        AllocTRES="billing=8,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=8G,node=1",
        AdminComment=comment,
        NodeList="n1",
    )


JOB = write_job()


def open_text(folder: Path, text: str, name: str = "jobs.txt") -> Session:
    path = folder / name
    path.write_text(text)
    return Session.of(open_run([str(path)], options=ImportOptions(keep_identity=True)))


def read_job(run: Session, place: int = 0) -> dict[str, Any]:
    return run.table("jobs").row(place, named=True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93_784), ("00:23.5", 23.5), ("5-12", 475_200), ("UNLIMITED", None), ("", None)],
)
def test_lengths(text: str, seconds: float | None) -> None:
    assert read_length(text) == (None if seconds is None else seconds * SECOND)


def test_times_and_sizes() -> None:
    assert read_time("1970-01-02T00:00:00") == 86_400 * SECOND
    assert read_time("Unknown") is None
    assert read_size("77460K") == 77_460 << 10
    assert read_size("62.50G") == 62.5 * GIB
    assert read_request("64Gn") == (64 * GIB, "n")
    assert read_request("4000Mc") == (4000 << 20, "c")
    assert read_request("word") is None


def test_resources() -> None:
    assert count_gpus(read_tres("cpu=8,gres/gpu:a100=4,gres/gpu=4")) == (4, "a100")
    assert count_gpus(read_tres("gres/gpu:v100=2,gres/gpu:a100=1")) == (3, "v100")
    assert count_gpus(read_tres("cpu=8")) == (None, None)
    assert count_gres("gpu:ampere:8(S:0-1),nvme:1") == 8


def test_hosts() -> None:
    assert expand_hosts("n[08-10,12],login1") == ["n08", "n09", "n10", "n12", "login1"]
    assert expand_hosts("r[1-2]n[1-2]") == ["r1n1", "r1n2", "r2n1", "r2n2"]
    assert len(expand_hosts("n[0-99999999999]")) == 100_000
    assert expand_hosts("(null)") == []


def test_a_job_and_its_steps(tmp_path: Path) -> None:
    step = write_line("17.0", TotalCPU="00:33:20", TRESUsageInTot="cpu=00:33:20,mem=2097152K")
    run = open_text(tmp_path, f"{NAMES}\n{JOB}\n{step}\n")
    job = read_job(run)
    assert run.rows("jobs") == 1
    assert (job["job_id"], job["user"], job["project"], job["state"]) == (
        "17", "ada", "physics", "cancelled",
    )  # fmt: skip
    assert job["duration_ns"] == 1000 * SECOND
    assert job["limit_ns"] == 3600 * SECOND
    assert (job["cpus"], job["gpus"], job["gpu_type"], job["nodes"]) == (4, 2, "a100", 1)
    assert job["memory_bytes"] == 8 * GIB
    assert job["used_memory_bytes"] == 2 * GIB
    assert job["cpu_time_ns"] == 2000 * SECOND
    assert run.table("job_nodes").get_column("host").to_list() == ["n1"]


def test_the_batch_script_says_nothing_of_other_nodes(tmp_path: Path) -> None:
    """It is one task on the first of two nodes, and held 2 GiB there."""
    job = JOB.replace("node=1", "node=2")
    batch = write_line("17.batch", TRESUsageInTot="cpu=0,mem=2097152K")
    run = open_text(tmp_path, f"{NAMES}\n{job}\n{batch}\n")
    assert read_job(run)["used_memory_bytes"] is None


def test_owners_are_left_out_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(f"{NAMES}\n{JOB}\n")
    run = sightline.open(str(path))
    job = read_job(run)
    assert (job["user"], job["project"], job["name"]) == ("user 1", "project 1", None)
    assert run.table("job_nodes").get_column("host").to_list() == ["node 1"]


def test_a_comment_of_three_lines_and_a_broken_one(tmp_path: Path) -> None:
    long = write_job("one\ntwo\nthree")
    run = open_text(tmp_path, f"{NAMES}\nrest of a line|COMPLETED\n{long}\n{JOB}\n18|cut")
    assert run.rows("jobs") == 2
    notes = dict(run.table("quality").select("kind", "count").rows())
    assert notes["damaged_lines"] == 2


def test_a_requeued_job_is_there_twice(tmp_path: Path) -> None:
    run = open_text(tmp_path, f"{NAMES}\n{JOB}\n{JOB}\n")
    assert run.table("jobs").get_column("job_id").to_list() == ["17", "17"]


def test_any_delimiter(tmp_path: Path) -> None:
    run = open_text(tmp_path, f"{NAMES}\n{JOB}\n".replace("|", "|#"))
    assert read_job(run)["gpus"] == 2


def test_nothing_whole(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        open_text(tmp_path, f"{NAMES}\nxyz\n")
    assert caught.value.why == "no line of it is a whole job"


# -- Jobstats' summary ---------------------------------------------------------------------------


def test_a_summary_comes_back_as_it_was() -> None:
    assert jobstats.decode_summary(jobstats.encode_summary(SUMMARY)) == SUMMARY
    # As Python's gzip writes it, which is what Jobstats calls.
    packed = base64.b64encode(gzip.compress(json.dumps(SUMMARY).encode())).decode()
    assert jobstats.decode_summary(f"site note JS1:{packed}") == SUMMARY


@pytest.mark.parametrize(
    ("comment", "word"),
    [("JS1:Short", "short"), ("JS1:None", "none"), ("hello", None), (None, None),
     ("JS1:!!!", "damaged"), ("JS1:H4sIAAAAAAAAA6uuBQBDv6ajAgAAAA==", "damaged"),
     (f"JS{'AAAA2OOw' * 8}==", "damaged"), ("a note of the site on this job", None)],
)  # fmt: skip
def test_words_in_its_place(comment: str | None, word: str | None) -> None:
    assert jobstats.decode_summary(comment) == word


def test_a_bomb_is_damage() -> None:
    bomb = base64.b64encode(gzip.compress(b" " * (80 << 20))).decode()
    assert jobstats.decode_summary(f"JS1:{bomb}") == "damaged"


def test_a_summary_in_accounting(tmp_path: Path) -> None:
    run = open_text(tmp_path, f"{NAMES}\n{write_job(jobstats.encode_summary(SUMMARY))}\n")
    check_summary(run)


def check_summary(run: Session) -> None:
    job = read_job(run)
    assert job["cpu_time_ns"] == 1000 * SECOND
    assert job["used_memory_bytes"] == 2 * GIB
    columns = ("metric", "host", "element", "avg", "max")
    assert sorted(run.table("job_means").select(columns).rows(), key=str) == sorted(
        [
            ("cpu_user", "n1", None, 25.0, None),
            ("mem_used", "n1", None, None, 2.0 * GIB),
            ("acc_utilization", "n1", "0", 90.0, None),
            ("acc_utilization", "n1", "1", 0.0, None),
            ("acc_mem_used", "n1", "0", None, 3.0 * GIB),
            ("acc_mem_used", "n1", "1", None, 0.0),
        ],
        key=str,
    )


# -- JSON and text for people --------------------------------------------------------------------


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


ACCOUNTED = {
    "job_id": 17,
    "allocation_nodes": 1,
    "account": "physics",
    "association": {"user": "ada", "cluster": "c1"},
    "array": {"job_id": 16, "task_id": number(3)},
    "comment": {"administrator": jobstats.encode_summary(SUMMARY)},
    "nodes": "n1",
    "partition": "gpu",
    "state": {"current": ["TIMEOUT"]},
    "time": {"start": 1000, "end": 2000, "elapsed": 1000, "limit": number(60), "submission": 900},
    "tres": {
        "allocated": [
            {"type": "cpu", "name": "", "count": 4},
            {"type": "mem", "name": "", "count": 8192},
            {"type": "node", "name": "", "count": 1},
            {"type": "gres", "name": "gpu", "count": 2},
            {"type": "gres", "name": "gpu:h100", "count": 2},
        ]
    },
}


def test_accounting_as_json(tmp_path: Path) -> None:
    document = {"jobs": [ACCOUNTED, "none"], "meta": {"slurm": {"release": "24.05.1"}}}
    run = open_text(tmp_path, json.dumps(document), "jobs.json")
    job = read_job(run)
    assert (job["job_id"], job["user"], job["cluster"], job["state"]) == (
        "16_3", "ada", "c1", "timeout",
    )  # fmt: skip
    assert (job["cpus"], job["gpus"], job["gpu_type"]) == (4, 2, "h100")
    assert (job["start_ns"], job["end_ns"]) == (1000 * SECOND, 2000 * SECOND)
    assert job["limit_ns"] == 3600 * SECOND
    assert job["memory_bytes"] == 8 * GIB
    check_summary(run)
    assert run.table("recordings").item(0, "tool_version") == "24.05.1"


CONTROL = """JobId=21 ArrayJobId=20 ArrayTaskId=4 JobName=my job
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   Priority=1 Nice=0 Account=physics QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   RunTime=00:10:00 TimeLimit=1-00:00:00 TimeMin=N/A
   SubmitTime=2026-01-31T10:00:00 EligibleTime=2026-01-31T10:00:00
   StartTime=2026-01-31T10:00:00 EndTime=2026-02-01T10:00:00 Deadline=N/A
   Partition=gpu AllocNode:Sid=login:1
   NodeList=n[1-2]
   NumNodes=2 NumCPUs=8 NumTasks=2 CPUs/Task=4 ReqB:S:C:T=0:0:*:*
   TRES=cpu=8,mem=16G,node=2,billing=8,gres/gpu=4
   OverSubscribe=EXCLUSIVE Contiguous=0 Licenses=(null) Network=(null)
   Command=/home/ada/run.sh --lr=1 two words
   WorkDir=/home/ada
"""
NODE = """NodeName=n1 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=8 CPUTot=32 CPULoad=7.50
   Gres=gpu:a100:4
   RealMemory=1024 AllocMem=512 FreeMem=100 Sockets=2 Boards=1
   State=MIXED+DRAIN ThreadsPerCore=1
   Partitions=gpu,all
   CfgTRES=cpu=32,mem=1G,billing=32,gres/gpu=4
   AllocTRES=cpu=8,mem=512M,gres/gpu=2
   Reason=fan is loud [root@2026-01-31]
"""


def test_control_of_a_job_and_a_node(tmp_path: Path) -> None:
    run = open_text(tmp_path, CONTROL + "\n" + NODE)
    job = read_job(run)
    assert (job["job_id"], job["name"], job["user"], job["sharing"]) == (
        "20_4", "my job", "ada", "none",
    )  # fmt: skip
    assert (job["gpus"], job["cpus"], job["memory_bytes"]) == (4, 8, 16 * GIB)
    assert (job["duration_ns"], job["end_ns"]) == (600 * SECOND, None)
    assert run.table("job_nodes").get_column("host").to_list() == ["n1", "n2"]
    node = run.table("cluster_nodes").row(0, named=True)
    assert (node["host"], node["state"], node["reason"]) == (
        "n1", "mixed+drain", "fan is loud [root@2026-01-31]",
    )  # fmt: skip
    assert (node["cpus"], node["used_cpus"], node["gpus"], node["used_gpus"]) == (32, 8, 4, 2)
    assert (node["memory_bytes"], node["load"]) == (GIB, 7.5)


def test_queue_and_efficiency(tmp_path: Path) -> None:
    queue = (
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        "              12_3       gpu  a b c       ada  R 1-00:00:10      2 n[1-2]\n"
        "                13       gpu  long        bob PD       0:00      1 (Priority)\n"
    )
    run = open_text(tmp_path, queue)
    assert run.table("jobs").select("job_id", "name", "user", "state", "nodes").rows() == [
        ("12_3", "a b c", "ada", "running", 2),
        ("13", "long", "bob", "pending", 1),
    ]
    assert run.rows("job_nodes") == 2
    seff = (
        "Job ID: 7\nCluster: c1\nUser/Group: ada/users\nState: COMPLETED (exit code 0)\nNodes: 1\n"
        "Cores per node: 4\nCPU Utilized: 01:00:00\n"
        "CPU Efficiency: 25.00% of 04:00:00 core-walltime\nJob Wall-clock time: 01:00:00\n"
        "Memory Utilized: 1.50 GB\nMemory Efficiency: 18.75% of 8.00 GB\n"
    )
    job = read_job(open_text(tmp_path, seff, "seff.txt"))
    assert (job["cpus"], job["cpu_time_ns"], job["duration_ns"]) == (
        4,
        3600 * SECOND,
        3600 * SECOND,
    )
    assert (job["used_memory_bytes"], job["memory_bytes"]) == (1.5 * GIB, 8 * GIB)
