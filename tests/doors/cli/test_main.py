"""The command line as a person meets it: help, errors, exit codes."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import sightline as door
from sightline.core.model.cache_folder import find_cache_folder
from sightline.doors.cli import main as cli_main
from sightline.doors.cli._groups import GROUPS, write_groups
from sightline.doors.cli.main import command_names
from sightline.record.collect.cupti import find_injection
from sightline.record.probe.bpf import find_object
from support import traces
from support.command import sightline
from support.places import EXAMPLES


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return traces.write(
        tmp_path,
        [
            traces.op("aten::mm", 0, 30),
            traces.call("cudaLaunchKernel", 5, 5, 1),
            traces.kernel("gemm", 20, 100, 1),
            traces.copy("Memcpy HtoD (Pinned -> Device)", 130, 20, 1000),
        ],
    )


def test_help_names_every_command():
    outcome = sightline("--help")
    assert outcome.code == 0
    for name in command_names():
        assert outcome.out.count(f"\n  {name} ") == 1, name
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_commands_are_listed_by_task():
    """What is in no group is listed all the same; a group's names are commands."""
    grouped = [name for _, names in GROUPS for name in names]
    assert len(set(grouped)) == len(grouped)
    assert set(grouped) <= set(command_names())
    assert write_groups({"report": "why", "new-one": "what"}) == (
        "Why is it slow:\n  report   why\n\nMore:\n  new-one  what\n"
    )


@pytest.mark.parametrize("name", command_names())
def test_every_command_explains_itself_in_80_columns(name):
    outcome = sightline(name, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith("usage: sightline " + name)
    assert len(outcome.out.splitlines()) > 4
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_the_list_of_commands_loads_nothing_that_takes_time():
    """What `sightline` alone or with --help waits for: 0.1 s in all."""
    heavy = "polars", "rich", "pathlib", "sightline.core.redaction", "sightline.core.kernel_labels"
    code = (
        "import atexit, sys\n"
        f"check = lambda: print(*(m for m in {heavy} if m in sys.modules), file=sys.stderr)\n"
        "atexit.register(check)\n"
        "from sightline.doors.cli.main import main; main(['--help'])"
    )
    # -S: what lies in this environment's .pth files is not ours.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True, text=True, check=False, env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert "usage: sightline" in done.stdout
    assert done.stderr.split() == []


def test_one_recording_is_opened_without_what_only_several_need():
    """NumPy takes a tenth of a second to load: as long as all of a small recording's answer."""
    code = (
        "import sys; from sightline.opening.run import open_run; "
        "open_run([sys.argv[1]]).ask('breakdown'); "
        "print([m for m in ('numpy', 'scipy') if m in sys.modules])"
    )
    recording = EXAMPLES / "simulated-dataloader.json.gz"
    done = subprocess.run(
        [sys.executable, "-c", code, str(recording)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def loaded(*words: str, cache: Path) -> tuple[str, set[str]]:
    """What a command prints in a process of its own, and the modules that it has loaded."""
    code = (
        "import atexit, sys\n"
        "before = set(sys.modules)\n"  # what this environment's .pth files load is not ours
        "atexit.register(lambda: print(*set(sys.modules) - before, file=sys.stderr))\n"
        "from sightline.doors.cli.main import start; sys.exit(start())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True,
        env={**os.environ, "SIGHTLINE_CACHE": str(cache)},
    )  # fmt: skip
    return done.stdout, set(done.stderr.split())


# Each takes 5 ms and more to load, some of them 100 ms (benchmarks/start.py).
HEAVY = {"concurrent.futures", "email", "importlib.metadata", "inspect", "logging", "numpy"} | {
    "platform", "polars", "random", "rich", "socket", "tempfile", "zipfile"
}  # fmt: skip


_CORE = ("text", "talk", "cleanup", "installation", "optional_packages", "units")


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_what_is_typed_first_loads_nothing_that_takes_time(word: str, tmp_path: Path) -> None:
    printed, modules = loaded(word, cache=tmp_path)
    assert "sightline" in printed
    assert modules & HEAVY == set()
    ours = {m for m in modules if m.startswith("sightline.") and ".cli" not in m}
    core = {f"sightline.core.{m}" for m in _CORE}
    rooms = {"sightline.core", "sightline.doors"}
    assert ours <= {"sightline.errors", "sightline.version", *rooms, *core}


def test_a_recording_that_was_reported_on_is_answered_without_polars(trace, tmp_path: Path) -> None:
    first, modules = loaded(str(trace), cache=tmp_path)
    # Of the importers, only the one that reads it: the others' declarations lie in one file.
    parts = [m.split(".") for m in modules if m.startswith("sightline.formats.")]
    readers = {tuple(p[2:4]) for p in parts if len(p) > 3 and not p[3].startswith("_")}
    assert readers == {("pytorch", "kineto")}
    again, modules = loaded(str(trace), cache=tmp_path)
    assert again == first
    assert modules & HEAVY == set()
    rooms = ("sightline.subjects", "sightline.diagnosis", "sightline.formats")
    assert not any(m.startswith(rooms) for m in modules)


def test_version():
    outcome = sightline("--version")
    first, reader, pages, cupti, ebpf = outcome.out.splitlines()
    assert (outcome.code, first.split(" (")[0]) == (0, f"sightline {door.__version__}")
    assert reader == "compiled reader: yes"
    assert pages.startswith("HTML pages: ")
    # Each says that it is there exactly where what uses it finds it.
    assert cupti.startswith(f"GPU recorder (CUPTI): {'yes' if find_injection() else 'no; '}")
    assert ebpf.startswith(f"probes by eBPF: {'yes' if find_object() else 'no; install clang'}")


def test_python_m_sightline_is_the_command():
    run = [sys.executable, "-m", "sightline", "--version"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == (
        sightline("--version").out
    )


def test_a_path_alone_is_the_main_job(trace):
    assert sightline(trace).out == sightline("report", trace).out != ""


def test_a_mistyped_command_is_not_taken_for_a_file():
    outcome = sightline("reprot")
    assert outcome.code == 2
    assert "no command and no file called 'reprot': did you mean report" in outcome.err
    assert len(outcome.err.splitlines()) < 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", "nowhere.json"], "there is no such file"),
        (["stats", "kernel", "TRACE"], "did you mean kernels"),
        (["stats", "copies", "TRACE"], "did you mean copy_exposure or memcpy"),
        (["stats", "kernels", "TRACE", "--format", "xml"], "there is no format 'xml'"),
        (["stats", "kernels", "TRACE", "--window", "soon"], "'soon' is not a window"),
        (["stats", "kernels", "TRACE", "--window", "steady"], "marks no steps"),
        (["stats", "kernels", "TRACE", "--window", "3ms..2ms"], "ends before it starts"),
        (["stats", "idle_gaps", "TRACE", "--set", "treshold_ns=1"], "threshold_ns"),
        (["stats", "idle_gaps", "TRACE", "--set", "threshold_ns=soon"], "is not a duration"),
        (["report", "TRACE", "-o", "report.docx"], "must be .txt, .md, .json or .html"),
        (["stats", "TRACE", "kernels"], "sightline stats kernels"),
        (["stats", "TRACE"], "arguments are required"),
        (["kernels", "TRACE"], "sightline stats kernels"),
        (["launch-bound"], "sightline explain launch-bound"),
        (["explain", "lanch-bound"], "did you mean launch-bound"),
        (["findings", "TRACE", "--fail-on", "warnin"], "did you mean warning? All rules"),
        (["export", "TRACE"], "--to does not say in which format"),
        (["export", "--to", "chrome"], "no recording to export"),
        (["explain", "nothing"], "sightline rules"),
        (["tables", "nothing"], "sightline tables"),
    ],
)
def test_wrong_requests_say_what_is_wrong(trace, words, said):
    outcome = sightline(*[str(trace) if w == "TRACE" else w for w in words])
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())
    assert outcome.out == ""
    assert outcome.err.startswith(("sightline: ", "usage: sightline"))
    assert "?." not in outcome.err


def test_a_bug_of_ours_is_told_apart(trace, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(cli_main, "dispatch", lambda _: 1 / 0)
    outcome = sightline("report", trace)
    assert outcome.code == 3
    assert "ZeroDivisionError" in outcome.err
    (details,) = tmp_path.glob("sightline-bug-*.txt")
    assert "Traceback" in details.read_text()


def test_interrupt(monkeypatch):
    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_main, "dispatch", stop)
    assert sightline("report").code == 130


def test_a_reader_that_leaves_early_is_no_error(trace):
    words = [sys.executable, "-m", "sightline.doors.cli.main", "stats", "kernels", str(trace)]
    command = f"{shlex.join(words)} --format csv | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False, env=os.environ
    )
    assert done.stderr == b""


def test_json_is_a_list_of_row_objects_and_nothing_else(trace):
    outcome = sightline("stats", "breakdown", trace, "--format", "json")
    (row,) = json.loads(outcome.out)
    assert outcome.err == ""
    assert (row["window_ns"], row["compute_ns"], row["exposed_copy_ns"], row["idle_ns"]) == (
        130_000,
        100_000,
        20_000,
        10_000,
    )


def test_every_format_holds_the_same_table(trace):
    as_json = json.loads(sightline("stats", "kernels", trace, "--json").out)
    csv = pl.read_csv(sightline("stats", "kernels", trace, "--format", "csv").out.encode())
    assert csv.get_column("total_ns").to_list() == [row["total_ns"] for row in as_json] == [100_000]
    table = sightline("stats", "kernels", trace).out
    assert table.splitlines()[0].split()[:3] == ["name", "instances", "total"]
    assert "100.0 µs" in table
    markdown = sightline("stats", "kernels", trace, "--format", "markdown").out.splitlines()
    assert markdown[0].startswith("| name | instances |")
    assert {line.count("|") for line in markdown} == {markdown[0].count("|")}


def test_parquet(trace, tmp_path):
    target = tmp_path / "kernels.parquet"
    with target.open("wb") as file:
        command = [sys.executable, "-m", "sightline.doors.cli.main", "stats", "kernels", str(trace)]
        subprocess.run([*command, "--format", "parquet"], stdout=file, check=True)
    assert pl.read_parquet(target).get_column("instances").to_list() == [1]


def test_limit_cuts_what_is_for_people_and_says_so(tmp_path):
    events = [traces.kernel(f"k{i:02}", 10 * i, 5) for i in range(40)]
    trace = traces.write(tmp_path, events)
    outcome = sightline("stats", "kernels", trace)
    assert len(outcome.out.splitlines()) == 32
    assert "10 more rows" in outcome.err
    assert len(json.loads(sightline("stats", "kernels", trace, "--json").out)) == 40
    assert len(sightline("stats", "kernels", trace, "--limit", "0").out.splitlines()) == 42


def test_import_then_report(trace, tmp_path):
    outcome = sightline("import", trace, "-o", tmp_path / "run")
    assert outcome.code == 0
    assert outcome.out.strip() == str(tmp_path / "run.sightline")
    assert sightline("stats", "kernels", tmp_path / "run.sightline", "--json").out == (
        sightline("stats", "kernels", trace, "--json").out
    )


@pytest.mark.parametrize("listing", ["formats", "analyses", "rules", "tables"])
def test_listings_name_each_member_and_its_module(listing):
    rows = json.loads(sightline(listing, "--json").out)
    text = sightline(listing).out
    assert len(rows) >= 1
    assert all(row["name"] in text and row["module"] and row["about"] for row in rows)
    # Who looks for a rule or a question reads names; where they are written stands in the data.
    is_grouped = listing in ("analyses", "rules")
    assert all((row["module"] in text) != is_grouped for row in rows)


def test_explain_prints_a_rules_page():
    for name in ("launch_bound", "launch-bound"):
        page = sightline("explain", name).out
        for heading in ("Symptom", "Threshold", "Fix", "False positives", "References"):
            assert f"\n{heading}\n" in page


def test_tables_shows_units_and_joins():
    assert "launch_id  (Int64, → host_ops.host_op_id)" in sightline("tables", "device_ops").out


def test_cache_shows_and_clears(trace, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "own"))
    sightline(trace)
    assert sightline("cache").out.splitlines()[0] == str(find_cache_folder())
    assert sightline("cache", "clear").out.endswith("freed\n")
    assert not find_cache_folder().exists()


def test_what_would_record_the_missing_is_said(tmp_path):
    stacks = tmp_path / "a.folded"
    stacks.write_text("main;work 3\n")
    outcome = sightline("stats", "breakdown", stacks)
    assert outcome.code == 2
    assert "has no device_ops" in outcome.err
    assert "sightline run -- COMMAND" in outcome.err
    assert max(map(len, outcome.err.splitlines())) <= 80


@pytest.mark.parametrize("form", ["chrome", "perfetto"])
def test_an_empty_timeline_is_not_exported(tmp_path, form):
    stacks = tmp_path / "a.folded"
    stacks.write_text("main;work 3\n")
    outcome = sightline("export", stacks, "--to", form, "-o", tmp_path / "out")
    assert outcome.code == 2
    assert "has no timeline" in " ".join(outcome.err.split())
    assert not (tmp_path / "out").exists()


def test_a_terminal_is_not_filled_with_folded_stacks(trace, monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("support.command.io.TextIOWrapper", Terminal)
    outcome = sightline("flame", trace)
    assert outcome.code == 2
    assert "-o flame.html" in outcome.err


def end(code: str, *, interrupted: bool = False) -> subprocess.CompletedProcess[str]:
    """A process that lists the rules, once `code` has run in it, and how it ended.

    It hears interrupts, though a shell that started the tests in its background ignores them.
    """
    hears = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code = f"import sys, sightline.doors.cli.main as main\n{code}\nsys.exit(main.start())"
    code = hears + code
    with subprocess.Popen(
        [sys.executable, "-c", code, "rules"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        if interrupted:
            assert process.stderr.readline() == "waits\n"
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)  # what a test waits for takes longer
    return subprocess.CompletedProcess([], process.returncode, out, err)


def test_a_process_ends_as_it_would_with_its_objects_freed() -> None:
    """Threads are waited for, exit functions run, output is written; what fails is told."""
    late = """
import atexit, threading, time
def work():
    while threading.main_thread().is_alive(): time.sleep(0.01)
    time.sleep(0.1)
    print("late")
threading.Thread(target=work).start()
atexit.register(lambda: print("last"))
"""
    done = end(late)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-2:] == ["late", "last"]
    full = end("import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)")
    assert full.returncode == 120 or "no space" in full.stderr
    assert "Traceback" not in full.stderr
    profiled = end(
        "import atexit, cProfile\nprofile = cProfile.Profile()\nprofile.enable()\n"
        "atexit.register(lambda: (profile.disable(), print(len(profile.getstats()))))"
    )
    assert int(profiled.stdout.splitlines()[-1]) > 10


def test_an_interrupt_while_a_process_ends_is_quiet_and_at_once() -> None:
    waits = """
import threading, time
def work():
    while threading.main_thread().is_alive(): time.sleep(0.01)
    time.sleep(0.1)
    print("waits", file=sys.stderr, flush=True)
    time.sleep(600)
threading.Thread(target=work).start()
"""
    done = end(waits, interrupted=True)
    assert done.returncode == 130
    assert done.stderr == ""


def test_an_interrupt_leaves_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though no thread is waited for."""
    waits = """
import threading, time
from sightline.core.cleanup import register_cleanup
from sightline.core.model.cache_folder import replace_cache_folder
made = replace_cache_folder("for a test")
assert made.is_dir()
register_cleanup(lambda: 1 / 0)
threading.Thread(target=time.sleep, args=(15,)).start()
def run(*_):
    print("waits", file=sys.stderr, flush=True)
    time.sleep(15)
import sightline.doors.cli.rules as rules
rules.run = run
"""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    began = time.monotonic()
    done = end("import logging\nlogging.disable()\n" + waits, interrupted=True)
    assert (done.returncode, done.stderr) == (130, "")
    assert time.monotonic() - began < 14
    assert list(tmp_path.iterdir()) == []


def test_what_a_thread_says_at_the_end_does_not_turn_the_exit_code() -> None:
    late = """
import logging, os, threading, time
os.dup2(os.open('/dev/full', os.O_WRONLY), 2)
def work():
    while threading.main_thread().is_alive(): time.sleep(0.01)
    logging.getLogger("sightline").warning("nothing is cached")
threading.Thread(target=work).start()
"""
    assert end(late).returncode == 0


def test_an_interrupt_ends_a_wait_for_a_thread(tmp_path: Path) -> None:
    """Polars has the system begin such waits anew."""
    waits = """
import threading
import sightline.doors.cli._progress as progress
class Waits:
    def __init__(self, stream): self.ended = threading.Event()
    def __enter__(self):
        timer = threading.Timer(600, self.ended.set)
        timer.daemon = True
        timer.start()
        print("waits", file=sys.stderr, flush=True)
        self.ended.wait()
    def __exit__(self, *error): pass
progress.Progress = Waits
sys.argv[1:] = ["report", "trace.json"]
"""
    done = end(waits, interrupted=True)
    assert (done.returncode, done.stderr) == (130, "")
