"""A backend is one file: what it declares is in the plan, doctor, the remedies and the help."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from record.collect.test_plan import MACHINE, WITH_GPU
from sightline.core import registry
from sightline.errors import RequestError
from sightline.record.collect import backend, backends, plan
from sightline.record.collect.commands import wrap_command
from sightline.record.collect.machine import examine_machine, list_recordable
from sightline.record.collect.questions import QUESTIONS
from sightline.record.collect.remedies import list_missing, list_needs
from support import fakes, recording
from support.command import sightline
from support.pages import members_of_the_guide

TOY = members_of_the_guide()["record/collect/backends/mytrace"]


def forget() -> None:
    registry.list_names.cache_clear()
    backend.list_backends.cache_clear()


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One new file in a folder of backends, and nothing else."""
    folder = tmp_path / "backends"
    folder.mkdir()
    (folder / "mytrace.py").write_text(TOY)
    monkeypatch.setattr(backends, "__path__", [*backends.__path__, str(folder)])
    forget()
    yield
    forget()
    sys.modules.pop("sightline.record.collect.backends.mytrace")
    del backends.mytrace  # type: ignore[attr-defined]


def list_known() -> list[str]:
    return [known.name for known in backend.list_backends()]


def test_the_order_of_backends() -> None:
    assert list_known() == [
        "torch", "jax", "nsys", "ncu", "cupti", "rocprofv3", "unitrace", "cpu", "iaprof", "nvml",
        "lttng", "sched", "mpi",
    ]  # fmt: skip
    orders = [known.order for known in backend.list_backends()]
    assert len(set(orders)) == len(orders)


def test_a_new_backend_is_one_new_file(toy: None, tmp_path: Path) -> None:
    facts = {**MACHINE, "mytrace": "0.1"}
    assert list_known().index("mytrace") == list_known().index("unitrace") + 1
    made = plan.make_plan(["./a.out"], facts, question="stalls")
    assert made.backends == ["mytrace"]  # ncu is picked, too, and is not there
    words = wrap_command(["./a.out"], made.backends, tmp_path, "host-1", made.options)
    assert words == ["mytrace", "--output", str(tmp_path / "host-1.mytrace"), "./a.out"]
    both = plan.make_plan(["./a.out"], {**WITH_GPU, "mytrace": "0.1"}, question="stalls")
    (left,) = (c for c in both.choices if c.backend == "mytrace")
    assert left.why == "ncu records, and only one tool can trace a GPU at a time"
    with pytest.raises(RequestError) as raised:
        plan.make_plan(["./a.out"], {**facts, "mytrace": None}, question="stalls")
    assert raised.value.why == "ncu is not on the PATH; mytrace is not on the PATH"


def test_a_new_backend_is_in_doctor(toy: None, tmp_path: Path) -> None:
    nvml = {"gpus": [], "unreachable": [], "driver": None, "version": None, "problem": "none"}
    facts = examine_machine(
        lambda words: "mytrace 0.1" if words[0] == "mytrace" else None, tmp_path, lambda: nvml
    )
    names = list(facts)
    assert facts["mytrace"] == "0.1" and names.index("mytrace") == names.index("unitrace") + 1
    assert "Stalls (mytrace)" in [way.what for way in list_recordable(facts)]
    assert list_needs()["mytrace"] == ("mytrace",)
    (missing,) = list_missing("mytrace", {**facts, "mytrace": None})
    assert missing.remedy == ("pip install mytrace",)


START = (
    "import sys; from sightline.record.collect import backends\n"
    "backends.__path__.append(sys.argv.pop(1))\n"
    "from sightline.doors.cli.main import start; sys.exit(start())"
)


def test_a_new_backend_is_in_the_help_and_records(toy: None, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    script = '#!/bin/sh\n[ "$1" = --version ] && echo 0.1 && exit\necho "$@"\nshift 2; exec "$@"\n'
    fakes.program(tools, "mytrace", script)
    assert "unitrace, mytrace, cpu" in " ".join(sightline("run", "--help").out.split())
    words = ["run", "--backend", "mytrace", "-o", "r", "--no-report", "--", "sh", "-c", "exit 4"]
    done = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path / "backends"), *words],
        cwd=tmp_path,
        env=recording.clean(PATH=f"{tools}:/usr/bin:/bin"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    assert "  mytrace mytrace 0.1" in done.stderr
    assert "r.sightline/host-" in done.stdout
    (facts,) = (tmp_path / "r.sightline").glob("*.recorded.json")
    assert json.loads(facts.read_text())["backends"] == ["mytrace"]


@pytest.mark.parametrize("name", list_known())
def test_what_a_backend_declares_exists(name: str) -> None:
    (own,) = (known for known in backend.list_backends() if known.name == name)
    assert set(own.answers) <= set(QUESTIONS) and set(own.carries) <= set(own.answers)
    assert own.needs and own.answers
    # Whatever is missing, an empty machine lets every check be made.
    list_missing(name, MACHINE, root=False)
    assert all(getattr(own, field.name) is not None for field in fields(own)[:5])


def test_questions_are_answered_by_somebody() -> None:
    """Where something is said to be missing, something is declared to carry the question."""
    for name, question in QUESTIONS.items():
        assert any(name in known.answers for known in backend.list_backends())
        carried = any(name in known.carries for known in backend.list_backends())
        assert carried == (question.failure is not None)


def test_reasons_are_of_what_cannot_record() -> None:
    """Not of CPU stacks that were asked for beside, and can be sampled."""
    with pytest.raises(RequestError) as raised:
        plan.make_plan(["./a.out"], MACHINE, question="stalls", options={"cpu_stacks": "perf"})
    assert raised.value.why == "ncu is not on the PATH"
    with pytest.raises(RequestError) as raised:
        plan.make_plan(["python", "t.py"], WITH_GPU, question="energy", backends=["torch"])
    assert raised.value.why == "--backend torch leaves out nvml"  # and not that there is no GPU
