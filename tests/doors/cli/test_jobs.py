"""`sightline jobs` and `sightline job`: what a person on a login node sees."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from formats import test_clustercockpit as cockpit
from formats import test_slurm as slurm
from sightline.doors.cli.main import main
from sightline.formats.cluster import _jobstats as jobstats
from support.command import sightline

# Three hours on four GPUs, of which two idle, and a job without a summary.
HOURS = 3 * 3600
SUMMARY = {
    "gpus": 4,
    "total_time": HOURS,
    "nodes": {
        "n1": {
            "cpus": 8,
            "total_time": HOURS,
            "total_memory": 80 << 30,
            "used_memory": 8 << 30,
            "gpu_utilization": {"0": 80, "1": 60, "2": 0, "3": 0},
            "gpu_used_memory": {"0": 1 << 30, "1": 1 << 30, "2": 0, "3": 0},
        }
    },
}


def write_sacct(folder: Path, name: str = "jobs.json") -> Path:
    job = slurm.ACCOUNTED | {
        "job_id": 4711,
        "array": {},
        "comment": {"administrator": jobstats.encode_summary(SUMMARY)},
        "state": {"current": ["COMPLETED"]},
        "time": {
            "start": 10**9,
            "end": 10**9 + HOURS,
            "elapsed": HOURS,
            "limit": slurm.number(240),
        },
        "tres": {
            "allocated": [
                {"type": "cpu", "name": "", "count": 8},
                {"type": "node", "name": "", "count": 1},
                {"type": "gres", "name": "gpu", "count": 4},
            ]
        },
    }
    other = job | {"job_id": 4712, "comment": {}, "association": {"user": "<b>bob</b>\x1b[31m"}}
    path = folder / name
    path.write_text(json.dumps({"jobs": [job, other]}))
    return path


def read_screen(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def test_the_id_of_a_job_is_never_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is what `sightline job` takes."""
    path = write_sacct(tmp_path)
    path.write_text(path.read_text().replace("4712", "8012944240935501"))
    assert "8012944240935501" in read_screen(capsys, "jobs", str(path))


def test_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen = read_screen(capsys, "jobs", str(write_sacct(tmp_path)))
    assert "2 jobs of 2 users" in screen
    assert "Given   24.0 GPU hours, 48.0 core hours" in screen
    assert "Wasted  at least 6.0 GPU hours (25 %)" in screen
    assert "GPUs of a job did nothing" in screen
    assert "idle GPUs" in screen
    assert "6.0 gh" in screen
    assert "gh hours of GPUs" in screen
    assert "Nothing says how the GPUs of 1 job were used" in screen
    assert "sightline job 4711 SOURCE" in screen
    assert "\x1b" not in screen
    assert max(map(len, screen.splitlines())) <= 80


def test_one_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen = read_screen(capsys, "job", "4711", str(write_sacct(tmp_path)))
    assert "2 of 4 GPUs did nothing." in screen
    assert "cost 6.0 GPU hours (50 %)" in screen
    assert "n1 GPU 2" in screen
    assert "ask for 2 GPUs" in screen
    (bar,) = [line for line in screen.splitlines() if line.strip().startswith("GPUs  [")]
    assert (bar.count("|"), bar.endswith(" 35%]")) == (18, True)
    assert max(map(len, screen.splitlines())) <= 80


def test_nothing_is_known_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen = read_screen(capsys, "job", "4712", str(write_sacct(tmp_path)))
    assert "Not judged" in screen
    assert "acc_utilization" in screen


def test_choices_and_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_sacct(tmp_path))
    data = json.loads(read_screen(capsys, "jobs", path, "--user", "ada", "--json"))
    assert [job["job_id"] for job in data["jobs"]] == ["4711"]
    assert data["total"]["wasted_gpu_hours"] == 6.0
    assert data["waste"][0] | {"user": "ada", "jobs": 1, "with_problems": 1} == data["waste"][0]
    none = json.loads(read_screen(capsys, "jobs", path, "--since", "2002-01-01", "--json"))
    assert none["jobs"] == []
    idle = json.loads(read_screen(capsys, "jobs", path, "--problem", "job-idle-gpus", "--json"))
    assert [job["job_id"] for job in idle["jobs"]] == ["4711"]
    one = json.loads(read_screen(capsys, "job", "4711", path, "--json"))
    assert one[0]["problems"][0]["gpu_hours"] == 6.0


def test_the_digest_is_markdown_without_foreign_marks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = read_screen(capsys, "jobs", str(write_sacct(tmp_path)), "--digest")
    assert "## ada" in text
    assert "**At least 6.0 GPU hours (50 %) were wasted**" in text
    assert "| 4711 | 35 |" in text
    site = read_screen(capsys, "jobs", str(write_sacct(tmp_path)), "--digest", "site")
    assert "## " not in site
    assert "<b>" not in text + site


def test_rules_of_four_dialects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The seed's rule of Puzzle, word for word, beside one of ClusterCockpit's and one of ours."""
    archive = tmp_path / "archive"
    place = cockpit.write_archive(archive)
    meta = cockpit.META | {"duration": 1200, "numAcc": 0}
    (place / "meta.json").write_text(json.dumps(meta))
    series = [{"hostname": "n1", "data": [2.0] * 20}, {"hostname": "n2", "data": [4.0] * 20}]
    data = {"cpu_load": {"node": {"unit": {"base": ""}, "timestep": 60, "series": series}}}
    (place / "data.json.gz").unlink()
    (place / "data.json").write_text(json.dumps(data))
    limits = [
        {"name": "cpu_load", "unit": {"base": ""}, "peak": 8, "normal": 8, "caution": 4, "alert": 2}
    ]
    (archive / "c1" / "cluster.json").write_text(json.dumps({"name": "c1", "metricConfig": limits}))
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "puzzle.json").write_text(
        json.dumps(
            {
                "tag": "low_cpu_load",
                "threshold": "config.low_cpu_threshold",
                "metrics": ["cpu_load"],
                "vars": {"avg_load": "mean(cpu_load.data)", "low_load": "avg_load < threshold"},
                "trigger": "low_load == True",
            }
        )
    )
    (rules / "config.json").write_text('{"low_cpu_threshold": 3.5}')
    (rules / "parameters.json").write_text('{"factor": 0.85}')
    (rules / "cockpit.json").write_text(
        json.dumps(
            {
                "name": "Low CPU load",
                "tag": "lowload",
                "parameters": ["factor"],
                "metrics": ["cpu_load"],
                "requirements": ['job.shared == "none"', "job.duration > 600"],
                "variables": [{"name": "least", "expr": "cpu_load.limits.peak * factor"}],
                "rule": "cpu_load.avg < least",
                "hint": "average cpu load {{.cpu_load.avg}} is below {{.least}}",
            }
        )
    )
    (rules / "ours.yaml").write_text(
        "tag: many-nodes\nmetrics: [load_one]\nrule: job.numNodes > 1 and load_one.avg > 0\n"
        "hint: '{job.numNodes} nodes'\n"
    )
    found = json.loads(read_screen(capsys, "jobs", str(archive), "--rules", str(rules), "--json"))
    told = {row["rule"]: row["text"] for row in found["problems"]}
    assert told["low-cpu-load"] == "low_cpu_load"
    assert told["lowload"] == "average cpu load 3 is below 6.8"
    assert told["many-nodes"] == "2 nodes"


def test_sacct_is_asked_on_a_login_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sacct(tmp_path, "answer.json")
    stub = tmp_path / "sacct"
    stub.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncat {tmp_path}/answer.json\n')
    stub.chmod(stub.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert "4711" in read_screen(capsys, "jobs", "--since", "2001-09-01")
    assert "2 of 4 GPUs" in read_screen(capsys, "job", "4711")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["--json --allusers --starttime 2001-09-01T00:00:00", "--json --jobs 4711"]


def test_an_old_sacct_is_asked_for_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "answer.txt").write_text(f"{slurm.NAMES}\n{slurm.JOB}\n")
    stub = tmp_path / "sacct"
    stub.write_text(
        "#!/bin/sh\nif [ $1 = --json ]; then echo 'no plugin' >&2; exit 1; fi\n"
        f"cat {tmp_path}/answer.txt\n"
    )
    stub.chmod(stub.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert "ada" in read_screen(capsys, "jobs", "--since", "2026-01-01")


@pytest.mark.parametrize("says", ["echo 'no configuration source' >&2; exit 1", "exit 0"])
def test_where_sacct_does_not_answer_it_is_said_what_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    stub = tmp_path / "sacct"
    stub.write_text(f"#!/bin/sh\n{says}\n")
    stub.chmod(stub.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert main(["jobs"]) != 0
    told = capsys.readouterr().err
    assert "sacct did not answer" in told
    assert "sightline jobs sacct.txt" in told
    assert "sacct --json --allusers --starttime now-7days > jobs.json" in told


def test_no_source_and_no_sacct(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["jobs"]) == 2
    assert "no sacct on the PATH" in capsys.readouterr().err


def test_a_recording_of_a_program_has_no_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cockpit.CLUSTER))
    assert main(["jobs", str(path)]) == 2
    assert "it describes a cluster" in capsys.readouterr().err
    assert main(["job", "1", str(write_sacct(tmp_path))]) == 2
    assert "there is no job 1" in capsys.readouterr().err


def test_report_and_findings_read_jobs_as_any_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write_sacct(tmp_path))
    found = json.loads(read_screen(capsys, "findings", path, "--json"))
    idle = next(f for f in found if f["rule"] == "job-idle-gpus")
    assert idle["cost_ns"] == 6 * 3600 * 10**9
    assert idle["cost_pct"] == 25.0
    assert "user" not in json.dumps(idle["rows"])
    assert "GPUs of a job did nothing" in read_screen(capsys, "report", path)


def test_a_source_behind_digest_is_a_source(tmp_path: Path) -> None:
    missing = sightline("jobs", "--digest", tmp_path / "none.json")
    assert "there is no digest by" in missing.err
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    asked, plain = sightline("jobs", "--digest", empty), sightline("jobs", empty, "--digest")
    assert asked.err == plain.err
    assert asked.out == plain.out
