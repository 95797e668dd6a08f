"""Damaged, foreign and unequal sides: a clear sentence, and never a traceback."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from compare.programs import Program, write_runs
from sightline.record.inline.recorder import Recorder
from support.command import sightline
from support.traces import Event, kernel, launch, op, step, write


def _write_whole(folder: Path) -> Path:
    return Path(write_runs(folder, Program(), 1, "whole")[0])


def _cut(folder: Path, whole: Path) -> Path:
    path = folder / "cut.json.gz"
    path.write_bytes(gzip.compress(whole.read_bytes())[:2000])
    return path


def _write_bytes(name: str, data: bytes):
    def make(folder: Path, _: Path) -> Path:
        path = folder / name
        path.write_bytes(data)
        return path

    return make


def _write_trace(*events: Event, **told: object):
    def make(folder: Path, _: Path) -> Path:
        return write(folder, list(events), "other.json", **told)

    return make


CPU = [e for i in range(4) for e in (step(i, 100 * i, 100), op("aten::mm", 100 * i + 5, 50))]
FOUR = {"distributedInfo": {"rank": 0, "world_size": 4}}
STEPS = [e for i in range(4) for e in (step(i, 900 * i, 900), kernel("gemm_tn", 900 * i, 400))]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (_write_bytes("empty.json", b""), 2, "empty.json"),
        (_write_bytes("text.txt", b"hello\n" * 100), 2, "text.txt"),
        (_write_bytes("page.html", b"<html></html>"), 2, "page.html"),
        (_write_bytes("a.folded", b"main;work 10\n"), 2, "cannot be compared"),
        (_write_trace(), 2, "other.json"),
        (_write_trace(*CPU), 0, "one side has a GPU's timeline, the other has none"),
        (_write_trace(*STEPS, **FOUR), 0, "ranks"),
        (_cut, 0, "reading stopped early: the compressed file ends in the middle"),
    ],
)
def test_one_broken_side(tmp_path: Path, make, code: int, said: str, swapped: bool) -> None:
    whole = _write_whole(tmp_path / "whole")
    sides = [whole, make(tmp_path, whole)]
    done = sightline("compare", *(reversed(sides) if swapped else sides), "--no-findings")
    assert done.code == code, done.err
    assert said in " ".join((done.out + done.err).split())
    assert "Traceback" not in done.err
    assert "bug in sightline" not in done.err


def test_versions_of_the_runtime_are_not_the_profilers(tmp_path: Path) -> None:
    """PyTorch's traces state the version of CUDA's runtime, and none of the profiler."""
    sides = []
    for version in (12040, 12080):
        path = write(
            tmp_path,
            [launch(0, 5, 1), kernel("gemm", 10, 100, 1)],
            f"{version}.json",
            cuda_runtime_version=version,
        )
        sides.append(path)
    shown = sightline("compare", *sides).out
    assert "different versions of the GPU's runtime" in shown
    assert "12040 before, 12080 after" in " ".join(shown.split())


def test_versions_of_pytorch_are_told_apart(tmp_path: Path) -> None:
    sides = []
    for version in ("2.8.0", "2.9.1"):
        folder = tmp_path / version
        folder.mkdir()
        recorder = Recorder(folder / "proc-abcdefgh-1.events")
        recorder.fact(sightline="0.1.0", torch_profiler={"version": version})
        at = 10**9
        for number in range(4):
            recorder.put(1, recorder.name(f"range {number}"), at, at + 1000)
            at += 2000
        recorder.close()
        sides.append(folder / "proc-abcdefgh-1.events")
    said = " ".join(sightline("compare", *sides).out.split())
    assert "different versions of the profiler" in said
    assert "0.1.0, PyTorch 2.8.0 before, 0.1.0, PyTorch 2.9.1 after" in said
