"""Rules of a program's ranges name the lines that samples of its stacks fell in."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model import usage_metrics as m
from sightline.core.model.run import Run
from sightline.core.model.run_folder import WALL_TIME
from support.profiles import PY_SPY, Stack, write_profile
from support.rules import answers
from support.stepped import MS, PID, write_program

PACKAGES = "/venv/lib/python3.11/site-packages"
MAIN = ("<module>", "/home/me/train.py", 40)
NEXT = ("__next__", f"{PACKAGES}/torch/utils/data/dataloader.py", 740)
DECODE = ("Images.__getitem__", "/home/me/images.py", 13)
LINEAR = ("Linear.forward", f"{PACKAGES}/torch/nn/modules/linear.py", 134)
HASH = ("fingerprint", "/home/me/train.py", 10)
DUMP = ("dumps", "/usr/lib/python3.11/json/__init__.py", 231)
WRITE = ("write_metrics", "/home/me/train.py", 14)
IMPORT = ("_call_with_frames_removed", "<frozen importlib._bootstrap>", 241)
LIBRARY = ("<module>", "/home/me/models.py", 3)
END = ("Session._end", "/checkout/src/sightline/record/inline/torch_profiler.py", 119)
EXIT = ("profile.__exit__", f"{PACKAGES}/torch/autograd/profiler.py", 434)
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

# Each with its seconds on a CPU and those in all: of Python outside PyTorch 5 s, of which 4 hash;
# of the loader 2 s; of waits 3 s, in one line.
STACKS: tuple[tuple[Stack, float, float], ...] = (
    ((MAIN, NEXT, DECODE), 1.5, 1.5),
    ((MAIN, NEXT), 0.5, 0.5),
    ((MAIN, LINEAR), 9.0, 9.0),
    ((MAIN, WRITE, HASH), 4.0, 4.0),
    ((MAIN, WRITE, DUMP), 1.0, 1.0),
    ((MAIN, WRITE), 0.0, 3.0),
    ((MAIN, IMPORT, LIBRARY), 20.0, 20.0),
    ((MAIN, END, EXIT), 30.0, 30.0),
    ((MAIN, END), 7.0, 40.0),
)


def record(folder: Path, rises: dict[str, int], *, is_sampled: bool = True) -> Run:
    """Steps of 10 ms: 3 ms of loading, 3 ms of a matrix product, 4 ms in no operator."""
    counted = {m.THREAD_CPU: 10 * MS, m.THREAD_QUEUED: 0, m.PROCESS_CPU: 10 * MS, m.KERNEL_CPU: 0}
    operators = [(LOADER, 0, 3 * MS), ("aten::mm", 3 * MS, 6 * MS)]
    write_program(folder, step_ns=10 * MS, rises=counted | rises, operators=operators)
    if is_sampled:
        stem = folder / f"host-aaaaaaaa.{PID}"
        write_profile(
            stem.with_name(f"{stem.name}.cpu.speedscope.json"),
            {stack: ran for stack, ran, _ in STACKS if ran},
            PY_SPY,
        )
        write_profile(
            stem.with_name(f"{stem.name}.wall.speedscope.json"),
            {stack: whole for stack, _, whole in STACKS},
            WALL_TIME,
        )
    return sightline.open(str(folder))


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (
            "host-python",
            "samples of Python outside PyTorch, start-up included: 80.0 % fingerprint "
            "(train.py:10), 20.0 % write_metrics (train.py:14)",
        ),
        (
            "host-loading",
            "samples of Python in the loader: 75.0 % Images.__getitem__ (images.py:13), 25.0 % "
            "<module> (train.py:40)",
        ),
    ],
)
def test_the_lines_that_ran_are_named(tmp_path: Path, rule: str, line: str) -> None:
    (found,) = answers(record(tmp_path / "a", {}), rule)
    assert line in found.evidence
    (bare,) = answers(record(tmp_path / "b", {}, is_sampled=False), rule)
    assert [each for each in found.evidence if each != line] == list(bare.evidence)
    assert (found.cost_ns, found.gain_ns) == (bare.cost_ns, bare.gain_ns)


def test_the_line_that_waits_is_named_and_nobody_is_told_to_look_for_it(tmp_path: Path) -> None:
    """3 of 10 ms asleep; the recorder's own wait is none of the program's."""
    slept = {m.THREAD_CPU: 3 * MS, m.PROCESS_CPU: 3 * MS}
    (found,) = answers(record(tmp_path / "a", slept), "host-waiting")
    assert "samples of Python that waits: 100.0 % write_metrics (train.py:14)" in found.evidence
    assert "py-spy" not in (found.fix or "")
    (bare,) = answers(record(tmp_path / "b", slept, is_sampled=False), "host-waiting")
    assert "py-spy dump" in (bare.fix or "") or "gdb" in (bare.fix or "")
