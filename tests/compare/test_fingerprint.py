"""A run in 20 KB: the same bytes each time, sums that are kept, and the same verdict as without."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from compare.programs import Program, write_runs
from sightline.compare.comparison import compare_samples
from sightline.compare.fingerprint import (
    MAX_BYTES,
    REST,
    is_fingerprint,
    parse_fingerprint,
    read_fingerprint,
    write_fingerprint,
)
from sightline.compare.sides import open_side
from sightline.errors import DamagedError
from support import campaigns
from support.command import sightline
from support.traces import kernel, launched, op, step, write


def _keep(folder: Path, program: Program, seed: str) -> list[str]:
    """Three runs of a program as files of their fingerprints."""
    paths = []
    for number, sample in enumerate(open_side(write_runs(folder, program, 3, seed))):
        path = folder / f"fingerprint{number}.json"
        path.write_bytes(write_fingerprint(sample))
        paths.append(str(path))
    return paths


def test_same_bytes_and_same_sums(tmp_path: Path) -> None:
    (path,) = write_runs(tmp_path, Program(), 1, "run")
    sample, other = open_side([path])[0], open_side([path])[0]
    data = write_fingerprint(sample)
    assert data == write_fingerprint(other)
    found = parse_fingerprint(data, "run")
    assert write_fingerprint(found) == data
    assert found.leaves["own_ns"].sum() == sample.whole_ns == found.whole_ns
    assert (found.count, found.devices, found.source) == (sample.count, 1, "marks")
    assert found.length.mean == sample.length.mean
    assert found.facts.devices == ("NVIDIA A100-SXM4-80GB",)


def test_two_fingerprints_say_what_their_recordings_say(tmp_path: Path) -> None:
    programs = {"a": Program(), "b": Program().slowed("softmax", 1.5)}
    kept = {n: open_side(_keep(tmp_path / n, p, n)) for n, p in programs.items()}
    read = {n: open_side([str(tmp_path / n / f"run{i}.json") for i in range(3)]) for n in programs}
    expected = compare_samples(read["a"], read["b"])
    for sides in ((kept["a"], kept["b"]), (read["a"], kept["b"])):
        found = compare_samples(*sides)
        for key in ("verdict", "step", "waterfall"):
            assert found[key] == expected[key], key
        named = [(p["label"], p["before_ns"], p["after_ns"]) for p in found["pairs"]]
        assert named == [(p["label"], p["before_ns"], p["after_ns"]) for p in expected["pairs"]]
        assert found["pairs"][0]["p_value"] == pytest.approx(expected["pairs"][0]["p_value"])
        assert "fingerprint" in [c["check"] for c in found["checks"]]


def test_one_run_a_side_is_tested_over_steps(tmp_path: Path) -> None:
    (path,) = write_runs(tmp_path, Program(steps=30), 1, "run")
    sample = open_side([path])[0]
    found = compare_samples([parse_fingerprint(write_fingerprint(sample), "run")], [sample])
    assert found["step"]["level"] == "steps"
    assert {p["level"] for p in found["pairs"] if p["part"] == "compute"} == {"steps"}


def test_what_does_not_fit_is_added_up(tmp_path: Path) -> None:
    """3,000 kernels with long names, texts of all kinds: under the limit, and nothing is lost."""
    dice = random.Random(1)
    events = [step(i, 100_000 * i, 100_000) for i in range(4)]
    for at in range(0, 400_000, 130):
        name = f"k{dice.randrange(3000)}ü\x1b\u2028{'x' * dice.randrange(200)}"
        events += [op(f"op{at}", at, 20, **{"Input Dims": [[at]]})]
        events += launched(at + 1, kernel(name, at + 30, dice.randrange(1, 60)))
    sample = open_side([str(write(tmp_path, events))])[0]
    data = write_fingerprint(sample)
    assert len(data) <= MAX_BYTES
    assert data.count(b"\n") > 50
    found = parse_fingerprint(data, "run")
    assert found.leaves["own_ns"].sum() == sample.whole_ns
    assert found.leaves["instances"].sum() == sample.leaves["instances"].sum()
    assert REST in found.leaves["name"]
    assert compare_samples([sample], [found])["step"]["delta_ns"] == 0


@pytest.mark.pages
def test_command_writes_a_side(tmp_path: Path) -> None:
    (path,) = write_runs(tmp_path, Program(), 1, "run")
    target = tmp_path / "kept.json"
    assert sightline("fingerprint", path, "-o", target).code == 0
    assert is_fingerprint(str(target))
    done = sightline("compare", target, path)
    assert done.code == 0
    assert "No measurable change: ±0.0 %" in done.out
    assert "one side is a fingerprint" in done.out
    page = tmp_path / "diff.html"
    assert sightline("compare", target, path, "-o", page).code == 0
    assert page.stat().st_size > 10_000


@pytest.mark.parametrize(
    "change",
    [
        {"steps": None},
        {"run": {"count": 0}},
        {"operations": [["compute", "k", None, None, None, 1, 5, 5]]},
        {"operations": [["nonsense", "k", None, None, None, 1, 5, 5]]},
        {"operations": [1]},
        {"operations": [["compute", 1, None, None, None, "a", 5, 5]]},
        {"facts": {}},
        {"facts": []},
        {"shapes": [[1, 2]]},
        {"schema": "sightline-fingerprint/9"},
    ],
)
def test_damaged(tmp_path: Path, change: dict[str, object]) -> None:
    (path,) = write_runs(tmp_path, Program(), 1, "run")
    data = json.loads(write_fingerprint(open_side([path])[0]))
    for key, value in change.items():
        known = data[key]
        data[key] = {**known, **value} if isinstance(value, dict) and value else value
    with pytest.raises(DamagedError, match="is a damaged fingerprint"):
        parse_fingerprint(json.dumps(data).encode(), "x.json")


@pytest.mark.parametrize("tail", [b"", b"\n" + b" " * MAX_BYTES, b"[" * 10_000, b'"a": NaN}'])
def test_cut_off_or_too_long(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{\n"schema": "sightline-fingerprint/1",' + tail)
    assert is_fingerprint(str(path))
    with pytest.raises(DamagedError):
        read_fingerprint(str(path))
    done = sightline("compare", path, path)
    assert done.code == 2
    assert "damaged fingerprint" in done.err


@pytest.mark.corpus
def test_real_recordings_fit(corpus: Path) -> None:
    """Of each a fingerprint of at most 20 KB, in which all time is kept."""
    names = ("kineto/facebookresearch__HolisticTraceAnalysis", "nsys/GindaChen__nsys-ai")
    found = sorted(p for n in names for p in (corpus / n).rglob("*") if p.is_file())[:40]
    for path in campaigns.sample(found, 3):
        if path.suffix not in (".gz", ".json", ".sqlite"):
            continue
        done = sightline("fingerprint", path)
        if done.code:
            continue
        assert len(done.out.encode()) <= MAX_BYTES, path
        operations = json.loads(done.out)["operations"]
        assert sum(row[7] for row in operations) == json.loads(done.out)["run"]["whole_ns"]
