"""What lies between two moments, against the rows of the whole recording."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path

import polars as pl
import pytest

import sightline as door
from sightline.core import registry
from sightline.core.model.run import Run
from sightline.core.model.span import Span, find_span
from sightline.errors import SightlineError
from sightline.opening.save import save_excerpt
from support.command import sightline
from support.corpus import CORPUS
from synth import SCENARIOS, kineto

REAL = [
    "kineto/AMD-AGI__TraceLens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "nsys/GindaChen__nsys-ai/tests/fixtures/h100_2gpu_1s.sqlite",
]
PARTS = [(0.0, 1.0), (0.3, 0.6), (0.45, 0.46)]


def excerpt(run: Run, share: tuple[float, float], folder: Path) -> tuple[Run, Span]:
    whole = find_span(run)
    assert whole is not None
    length = whole[1] - whole[0]
    span = whole[0] + int(share[0] * length), whole[0] + int(share[1] * length)
    save_excerpt(run, span, folder / "part.sightline")
    return door.open(str(folder / "part.sightline")), span


@pytest.fixture(
    scope="module",
    params=[
        "two_threads",
        "dataloader_starved",
        *(pytest.param(name, marks=pytest.mark.corpus) for name in REAL),
    ],
)
def run(request, tmp_path_factory) -> Run:
    if request.param in REAL:
        return door.open(str(CORPUS / request.param))
    folder = tmp_path_factory.mktemp("simulated")
    return door.open(*map(str, kineto.write(SCENARIOS[request.param](), folder, dialect="2025")))


@pytest.mark.parametrize("share", PARTS)
def test_operations_and_calls_are_those_of_the_span(run: Run, share, tmp_path: Path) -> None:
    part, (first, last) = excerpt(run, share, tmp_path)
    own = ["rank", "stream_id", "name", "start_ns", "end_ns"]
    inside = run.table("device_ops").filter(pl.col("start_ns") >= first, pl.col("end_ns") <= last)
    assert part.table("device_ops").select(own).equals(inside.select(own))

    rows = run.table("host_ops").to_dicts()
    reaching = {r["host_op_id"] for r in rows if r["end_ns"] > first or r["start_ns"] >= first}
    reaching &= {r["host_op_id"] for r in rows if r["start_ns"] < last}
    parents = {r["host_op_id"]: r["parent_id"] for r in rows}
    wanted = set(reaching)
    for number in reaching:
        while (number := parents.get(number)) is not None:
            wanted.add(number)
    cut = [r for r in rows if r["host_op_id"] in wanted]
    found = part.table("host_ops").to_dicts()
    assert len(found) == len(cut)
    new = {old["host_op_id"]: row["host_op_id"] for old, row in zip(cut, found, strict=True)}
    order = sorted(new)
    for old, row in zip(cut, found, strict=True):
        assert row["name"] == old["name"]
        assert row["depth"] == old["depth"]
        assert row["start_ns"] == min(max(old["start_ns"], first), last)
        assert row["end_ns"] == min(max(old["end_ns"], first), last)
        is_whole = first <= old["start_ns"] and old["end_ns"] <= last
        assert row["layer"] == (
            old["layer"] if is_whole or old["layer"] != "step" else "annotation"
        )
        assert row["parent_id"] == new.get(old["parent_id"])
        inner = bisect_left(order, old["subtree_end_id"]) - bisect_right(order, old["host_op_id"])
        assert row["subtree_end_id"] == row["host_op_id"] + 1 + inner
    launches = inside.get_column("launch_id").to_list()
    assert part.table("device_ops").get_column("launch_id").to_list() == [
        new.get(launch) for launch in launches
    ]


def test_all_of_it_says_what_the_run_says(run: Run, tmp_path: Path) -> None:
    """A span of everything changes no answer."""
    whole = find_span(run)
    assert whole is not None
    save_excerpt(run, (whole[0], whole[1] + 1), tmp_path / "all.sightline")
    part = door.open(str(tmp_path / "all.sightline"))
    for name in ("kernels", "ops", "idle", "breakdown", "iterations", "syncs", "copies"):
        try:
            wanted = run.ask(name)
        except SightlineError:
            continue
        assert part.ask(name).equals(wanted), name


@pytest.mark.parametrize("share", PARTS[1:])
def test_every_analysis_answers_or_says_why_not(run: Run, share, tmp_path: Path) -> None:
    part, _ = excerpt(run, share, tmp_path)
    assert part.report()["recordings"]
    for name in registry.list_names("analyses"):
        try:
            part.ask(name)
        except SightlineError as why:
            assert why.what, name


def test_a_command_keeps_a_part(tmp_path: Path) -> None:
    (trace,) = kineto.write(SCENARIOS["two_threads"](), tmp_path, dialect="2025")
    target = tmp_path / "part.sightline"
    outcome = sightline("import", trace, "--between", "1ms..2ms", "-o", target)
    assert outcome.code == 0, outcome.err
    part, whole = door.open(str(target)), door.open(str(trace))
    first = find_span(whole)[0]
    span = find_span(part)
    assert first + 1_000_000 <= span[0] < span[1] <= first + 2_000_000
    said = sightline("report", target, "--json")
    assert "1.000 ms of a recording of" in said.out


@pytest.mark.parametrize(
    ("between", "said"),
    [
        ("5min..6min", "nothing was recorded after"),
        ("soon", "'soon' is not a window"),
        ("3ms..2ms", "ends before it starts"),
    ],
)
def test_a_span_without_anything_is_refused(tmp_path: Path, between: str, said: str) -> None:
    (trace,) = kineto.write(SCENARIOS["two_threads"](), tmp_path, dialect="2025")
    target = tmp_path / "part.sightline"
    outcome = sightline("import", trace, "--between", between, "-o", target)
    assert outcome.code == 2
    assert said in outcome.err
    assert not target.exists()
