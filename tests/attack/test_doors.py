"""Every command has its attacks: which play it, and those of asking for jobs, health and variants.

A command without an attack fails here, as a format without a damaged recording fails the campaign.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest

from formats import test_slurm as slurm
from support import traces
from support.command import sightline

ROOT = Path(__file__).resolve().parents[2]
CLI = ROOT / "src" / "sightline" / "doors" / "cli"
CAMPAIGN = ROOT / "tests" / "attack" / "campaign.py"
# What asks a recording, beside those that the campaign asks; what stands behind the file.
ASKING: dict[str, tuple[str, ...]] = {
    "compare": ("{file}",), "critical-path": (), "events": (), "explain": (), "fingerprint": (),
    "graph": ("-o", "graph.json"), "memory": (), "next": (), "ranks": (), "roofline": (),
    "scaling": ("{file}",), "tables": (), "whatif": ("kernel:gemm=0.5",),
}  # fmt: skip
# Tests that attack a command in its own way.
ATTACKED = {
    "attach": "tests/record/collect/test_foreign_folders.py",
    "attach --jax": "tests/record/collect/test_jax_door.py",
    "cache": "tests/opening/test_cache_trust.py",
    "capture": "tests/attack/test_capture.py",
    "cluster": "tests/attack/test_cluster.py",
    "daemon": "tests/attack/test_capture.py",
    "daemon --push": "tests/capture/test_profile_push.py",
    "doctor": "tests/doors/cli/test_terminal_edge.py",
    "failures": "tests/health/test_doors_fuzzed.py",
    "health": "tests/attack/test_doors.py",
    "history": "tests/attack/test_surfaces.py",
    "mcp": "tests/attack/test_mcp.py",
    "mig": "tests/health/test_doors_fuzzed.py",
    "probe": "tests/record/probe/test_many_probes.py",
    "run": "tests/record/collect/test_secrets.py",
    "run --server": "tests/attack/test_server_recording.py",
    "serve": "tests/views/test_served_answers.py",
    "top": "tests/doors/cli/test_terminal.py",
    "try": "tests/attack/test_doors.py",
    "verify": "tests/doors/cli/test_verify.py",
    "watch": "tests/record/monitor/test_watch_command.py",
    "watch --server": "tests/attack/test_server_metrics.py",
}
# They print what is ours alone, of no file and no machine.
OF_OURS = {"analyses", "completion", "formats", "lab", "rules", "tour"}
EVIL = "<img src=x onerror=alert(1)> [x](javascript:alert(1)) =HYPERLINK(1) \x1b]0;x\x07"


def list_commands() -> set[str]:
    """The sub-commands, by the files that they are."""
    names = {path.stem for path in CLI.glob("*.py")} - {"__init__", "main"}
    return {name.rstrip("_").replace("_", "-") for name in names if not name.startswith("_")}


def test_every_command_is_attacked() -> None:
    campaign = set(re.findall(r'\["([a-z-]+)", (?:asked|"17"|"1404017"|rng)', CAMPAIGN.read_text()))
    assert {"report", "stats", "job", "jobs", "sql"} <= campaign
    assert list_commands() - campaign - ASKING.keys() - ATTACKED.keys() == OF_OURS
    for command, option in (door.split() for door in ATTACKED if " " in door):
        files = "".join(path.read_text() for path in CLI.glob(f"*{command}*.py"))
        assert f'"{option}"' in files, option
    for path in ATTACKED.values():
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("command", ASKING)
def test_a_damaged_recording_is_answered_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Bytes of no text, a name twice, and its end cut off: an answer, or a message."""
    monkeypatch.chdir(tmp_path)
    path = Path(
        traces.write(tmp_path, [traces.kernel(f"gemm{n}", 20 * n, 10, n) for n in range(9)])
    )
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + b'\0\xff"name": [' + data[len(data) // 2 : -9])
    done = sightline(command, path, *(word.format(file=path) for word in ASKING[command]))
    assert done.code in (0, 1, 2), done.err
    assert "Traceback" not in done.err
    assert done.out or done.err


def write_jobs(folder: Path) -> Path:
    """Output of scontrol with a job whose texts are of somebody else."""
    text = slurm.CONTROL
    for name in ("JobName", "Account", "Partition"):
        text, count = re.subn(rf"\b{name}=\S+", lambda _, n=name: f"{n}={EVIL}", text, count=1)
        assert count == 1, name
    path = folder / "jobs.txt"
    path.write_text(text)
    return path


def test_texts_of_jobs_are_no_markup(tmp_path: Path) -> None:
    path = write_jobs(tmp_path)
    done = sightline("jobs", path, "--digest", "project")
    assert done.code == 0, done.err
    assert "<img" not in done.out
    assert "](javascript" not in done.out
    assert "\x1b" not in done.out
    told = sightline("jobs", path, "--json")
    assert json.loads(told.out)["jobs"]
    assert "\x1b" not in told.out


@pytest.mark.parametrize(
    "number", ["../../etc/passwd", "-rf", "$(touch evil)", "' OR 1=1 --", "9" * 400, "\0"]
)
def test_numbers_of_jobs_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_jobs(tmp_path)
    done = sightline("job", number, path)
    assert done.code == 2, done.out
    assert "Traceback" not in done.err
    assert [one.name for one in tmp_path.iterdir()] == ["jobs.txt"]


@pytest.mark.parametrize(
    "hosts",
    ["-oProxyCommand=touch evil", "a,-oProxyCommand=touch${IFS}evil", "node[1-99999999999]",
     "a;touch evil", "../../etc"],
)  # fmt: skip
def test_hosts_that_ssh_would_take_for_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: str
) -> None:
    """None is asked, and no list fills the memory."""
    monkeypatch.chdir(tmp_path)
    began = time.process_time()
    done = sightline("health", f"--fleet={hosts}")
    assert done.code == 2, done.out
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []
    assert time.process_time() - began < 5


def test_recordings_of_health_print_no_escapes(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text(f"[1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name={EVIL}, has fallen off\n")
    done = sightline("health", log)
    assert done.code == 1, done.err  # a check failed
    assert "\x1b" not in done.out


def test_values_of_variants_are_no_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = "x=$(touch evil),; touch evil"
    done = sightline("try", "--set", values, "--runs", "4", "--no-why", "--", "echo", "{x}")
    assert done.code == 0, done.err
    assert list(tmp_path.iterdir()) == []


def test_a_variant_that_prints_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends by its time-out, says so, and fills no memory."""
    monkeypatch.chdir(tmp_path)
    endless = [sys.executable, "-c", "while True: print('x' * 1000)"]
    done = sightline(
        "try", "--timeout", "0.5", "--runs", "4", "--no-why", "--", *endless, "--", "true"
    )
    assert done.code == 2
    assert "--timeout" in done.err
    assert len(done.err) < 10_000
    assert list(tmp_path.iterdir()) == []
