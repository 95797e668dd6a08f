"""The examples of README.md and docs/ do what they say: each is run, or skipped with its reason."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import symtable
from pathlib import Path

import pytest
import yaml

from support.command import sightline
from support.flight import entry, write_dumps
from support.pages import ROOT, blocks, pages

EXAMPLES = ROOT / "examples"
GPU, MAKES, SERVES = (
    "needs a GPU",
    "sets up the environment that this test runs in; scripts/test is what CI calls",
    "serves until it is stopped: tests/doors/cli/test_serve_command.py",
)
# Lines that are not run, by how they begin, and why.
NOT_RUN = {
    "make ": MAKES,
    "pip install .": "compiles: tests/test_packaging.py",
    "pip install distributed": "installs from the network",
    "sightline ranks '/shared/": "needs more machines: tests/fleet/test_cluster.py",
    "sightline report '/shared/": "needs more machines: tests/fleet/test_cluster.py",
    "ncclras ": "asks a job of NCCL that runs: tests/formats/test_nccl_ras.py",
    "sightline serve ": SERVES,
    "sightline cluster demo": "serves until it is stopped: tests/doors/cli/test_cluster_command.py",
    "sightline daemon": "serves until it is stopped: tests/doors/cli/test_fleet_commands.py",
    "sightline capture": "needs a job that runs: tests/capture",
    "sightline ranks capture.sightline": "a capture of that job",
    "sightline history push": "needs a server of profiles: tests/capture/test_profile_push.py",
    "(umask 077": "makes a secret",
    "sightline mcp ": "serves until its input ends: tests/doors/mcp",
    "sightline try ": "runs programs: tests/doors/cli/test_try.py",
    "sightline lab run": "runs programs for a minute: tests/lab",
    "sightline top": "runs until it is ended: tests/record/monitor/test_top.py",
    "sightline watch": "runs until it is ended: tests/record/monitor/test_watch_command.py",
    "sightline attach": "lists what runs, or records it: tests/record/collect/test_attach.py",
    "sudo sightline probe": "needs a program that uses a GPU library: tests/record/probe",
    "sightline doctor --for kernels": "its exit code says whether this machine has a GPU",
    "sightline run --for kernels": GPU,
    "sightline run -- torchrun": "needs a launcher of several processes: tests/record/collect",
    "sightline run --every": "needs a launcher on several machines",
    "srun ": "needs Slurm",
    "sightline run --server": "needs a model server: tests/record/collect/test_server.py",
    "for p in": GPU,
    "sightline history bisect": "needs a repository: tests/history/test_bisect.py",
    "python examples/record.py": "needs PyTorch: tests/test_examples.py",
    "sightline $p": "part of a loop that needs a GPU",
    "done": "part of a loop that needs a GPU",
    "nvcc ": GPU,
    "ncu ": GPU,
}
LINES = [
    pytest.param(
        line.strip(),
        id=f"{block.page}: {line.strip()}",
        marks=pytest.mark.pages if ".html" in line else (),
    )
    for block in blocks("sh")
    for line in block.text.splitlines()
    if line.split("#")[0].strip()
]
SNIPPETS = [
    pytest.param(block.text, id=str(block))
    for block in blocks("python")
    if not block.page.endswith("contributing.md")  # these are run by test_newcomer.py
]
# Inline commands, such as `sightline stats kernels trace.json`, and those of a screen, after "$ ".
TRANSCRIPTS = [
    pytest.param(line, id=f"{page.name}: {line}")
    for page in [ROOT / "docs" / "own-rules.md"]
    for line in re.findall(r"^\$ (sightline .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the examples speak of, all made of the recordings in examples/."""
    place = tmp_path_factory.mktemp("docs")
    one = EXAMPLES / "simulated-dataloader.json.gz"
    names = ("trace.json", "trace.json.gz", "before.json", "after.json")
    for name in (*names, "run1.json", "run2.json", "run3.json"):
        shutil.copy(one, place / name)
    for rank in (0, 1, 2):
        source = EXAMPLES / "simulated-straggler" / f"rank{rank}.pt.trace.json.gz"
        shutil.copy(source, place / f"rank{rank}.json.gz")
    for count, name in enumerate(("one", "two", "three"), 1):
        (place / name).mkdir()
        for rank in range(count):
            shutil.copy(place / f"rank{rank}.json.gz", place / name)
    write_dumps(place, [entry(2)], [entry(1)])
    channel = "node:71:92 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read"
    (place / "nccl.log").write_text(channel)
    for block in blocks("yaml"):
        named = re.match(r"# (\S+\.yaml)\n", block.text)
        assert named, f"{block}: the first line names the file"
        (place / named[1]).write_text(block.text)
    claim = next(b for b in blocks("json") if b.page.endswith("agents.md"))
    (place / "claim.json").write_text(claim.text)
    (place / "train.py").write_text("print('one step')\n")
    ranks = sorted(place.glob("rank*.json.gz"))
    assert sightline("import", *ranks, "-o", place / "job.sightline").code == 0
    shutil.copytree(place / "job.sightline", place / "run.sightline")
    # Examples before it make these, too, but each example runs by itself.
    assert sightline("fingerprint", place / "before.json", "-o", place / "baseline.json").code == 0
    kept = ("--history", place / "sightline-history")
    assert sightline("history", "add", place / "before.json", *kept).code == 0
    runs = sorted(place.glob("run?.json"))
    assert sightline("compare", "--calibrate", place / "floor.json", *runs).code == 0
    return place


def words_of(line: str, folder: Path) -> tuple[list[str], str | None]:
    """The words that a shell would make of a line, and the file that it would write to."""
    words = shlex.split(line, comments=True)
    target = words[words.index(">") + 1] if ">" in words else None
    words = words[: words.index(">")] if target else words
    found = []
    for word in words:
        matches = sorted(p.name for p in folder.glob(word)) if "*" in word else []
        found += matches or [word]
    return found, target


@pytest.mark.parametrize("line", LINES)
def test_shell_line(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for begin, reason in NOT_RUN.items():
        if line.startswith(begin):
            pytest.skip(reason)
    monkeypatch.chdir(folder)
    (program, *words), target = words_of(line, folder)
    assert program == "sightline", "no other program is known here: run it, or say why not"
    outcome = sightline(*words)
    assert outcome.code == 0, outcome.err
    if target is not None:
        assert outcome.out
    if "-o" in words:
        assert (folder / words[words.index("-o") + 1]).exists()


@pytest.mark.parametrize("line", TRANSCRIPTS)
def test_transcript(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate of CI may fail, which is an answer; anything else is a mistake in the page."""
    monkeypatch.chdir(folder)
    outcome = sightline(*words_of(line, folder)[0][1:])
    assert outcome.code in (0, 1), outcome.err


@pytest.mark.parametrize("code", SNIPPETS)
def test_python(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program of the reader would have around it is given: a loader and a model.

    All that it imports and assigns has a value then, and all files that it names exist.
    """
    monkeypatch.chdir(folder)
    names = {"loader": [[1.0], [2.0]], "model": sum}
    exec(compile(code, "example", "exec"), names)
    symbols = symtable.symtable(code, "example", "exec").get_symbols()
    bound = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    assert bound
    assert bound <= set(names)
    texts = [n.value for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Constant)]
    files = [text for text in texts if isinstance(text, str) and re.fullmatch(r"[\w-]+\.\S+", text)]
    assert [name for name in files if not (folder / name).exists()] == []


LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
LINKED_PAGES = sorted({*pages(), *ROOT.glob("*.md"), ROOT / "changes" / "README.md"})


@pytest.mark.parametrize("page", LINKED_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_issue_forms_ask_for_the_report_and_for_what_was_lost() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert forms
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        questions = [part for part in form["body"] if part["type"] != "markdown"]
        names = [part["id"] for part in questions]
        assert len(set(names)) == len(names)
        labels = " ".join(part["attributes"]["label"] for part in questions)
        assert "sightline report RECORDING --json" in labels
        assert 'sightline sql RECORDING "SELECT * FROM quality" --format json' in labels


def test_nothing_is_left_out_for_nothing() -> None:
    """Every reason not to run a line belongs to a line that stands in a page."""
    lines = [parameter.values[0] for parameter in LINES]
    unused = [begin for begin in NOT_RUN if not any(line.startswith(begin) for line in lines)]
    assert unused == []
