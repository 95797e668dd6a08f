"""A history of runs: what is added is read again, each run once, in order."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from compare.programs import Program, scale_sample, write_runs
from sightline.compare.fingerprint import parse_fingerprint, write_fingerprint
from sightline.compare.sample import Sample
from sightline.compare.sides import open_side
from sightline.errors import InputError, MissingDataError, RequestError
from sightline.history.history import (
    add_run,
    list_metrics,
    list_names,
    read_fingerprints,
    read_runs,
    read_series,
)

QUIET = Program(run_noise=0.0, step_noise=0.0)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Steps of 780 µs, of which softmax takes 150."""
    (path,) = write_runs(tmp_path_factory.mktemp("runs"), QUIET, 1, "one")
    found = open_side([path])[0]
    return parse_fingerprint(write_fingerprint(found), found.name)


def test_metrics_are_means_of_a_step(sample: Sample) -> None:
    metrics = list_metrics(sample)
    assert metrics["step_ns"] == 780_000
    assert metrics["kernel:softmax"] == 150_000
    assert metrics["compute_ns"] == 700_000
    assert metrics["launches"] == 6
    parts = sum(metrics[f"{p}_ns"] for p in ("compute", "exposed_comm", "exposed_copy", "idle"))
    assert parts == 780_000


def test_series_in_order_of_time(sample: Sample, tmp_path: Path) -> None:
    for at, factor in ((3, 4), (1, 1), (2, 2)):
        add_run(tmp_path, scale_sample(sample, factor), {"commit": f"c{at}"}, at)
    points = read_series(tmp_path, "step_ns", {}, "commit")
    assert [(p.label, p.value) for p in points] == [
        ("c1", 780_000), ("c2", 1_560_000), ("c3", 3_120_000),
    ]  # fmt: skip
    assert [p.value for p in read_series(tmp_path, "kernel:soft|gemm", {}, "commit")] == [
        550_000, 1_100_000, 2_200_000,
    ]  # fmt: skip


def test_runs_of_a_commit_are_one_point(sample: Sample, tmp_path: Path) -> None:
    """The geometric mean; runs without the label stay alone, and a commit may come again."""
    for at, (factor, labels) in enumerate(
        [(1, {"commit": "a"}), (4, {"commit": "a"}), (9, {}), (16, {}), (1, {"commit": "a"})]
    ):
        add_run(tmp_path, scale_sample(sample, factor), {**labels, "n": str(at)}, at)
    points = read_series(tmp_path, "step_ns", {}, "commit")
    assert [(p.label, p.runs) for p in points] == [
        ("a", 2), ("run0.json", 1), ("run0.json", 1), ("a", 1),
    ]  # fmt: skip
    assert points[0].value == pytest.approx(2 * 780_000)


def test_the_same_run_is_there_once(sample: Sample, tmp_path: Path) -> None:
    ids = {add_run(tmp_path, sample, {"commit": "a"}, at) for at in range(3)}
    assert len(ids) == 1
    assert read_runs(tmp_path, {}).height == 1
    assert add_run(tmp_path, sample, {"commit": "b"}, 4) not in ids


def test_labels_are_any_text(sample: Sample, tmp_path: Path) -> None:
    odd = {"a b": "x'y\"z", "$[0]": "ü"}
    add_run(tmp_path, sample, odd, 1)
    add_run(tmp_path, sample, {"a b": "else"}, 2)
    (row,) = read_runs(tmp_path, odd).iter_rows(named=True)
    assert json.loads(row["labels"]) == odd
    assert read_runs(tmp_path, {"gpu": "NVIDIA A100-SXM4-80GB"}).height == 2
    with pytest.raises(MissingDataError, match="has a b=none"):
        read_runs(tmp_path, {"a b": "none"})


def test_machines_are_not_mixed(sample: Sample, tmp_path: Path) -> None:
    other = replace(sample, facts=replace(sample.facts, devices=("H100",)))
    add_run(tmp_path, sample, {}, 1)
    add_run(tmp_path, other, {}, 2)
    with pytest.raises(RequestError, match="several machines") as caught:
        read_series(tmp_path, "step_ns", {}, "commit")
    assert "--where gpu='H100'" in str(caught.value.hint)
    assert len(read_series(tmp_path, "step_ns", {"gpu": "H100"}, "commit")) == 1


def test_many_files_become_few_and_nothing_is_lost(sample: Sample, tmp_path: Path) -> None:
    for at in range(40):
        labels = {"commit": str(at)}
        add_run(tmp_path, scale_sample(sample, at + 1), labels, at, many_files=4, large_runs=10)
    for folder in ("runs", "values"):
        assert len(list((tmp_path / folder).iterdir())) <= 4 + 40 // 10
    values = [p.value for p in read_series(tmp_path, "step_ns", {}, "commit")]
    assert values == [780_000 * (at + 1) for at in range(40)]
    assert [s.step_ns for s in read_fingerprints(tmp_path, "7")] == [8 * 780_000]


def test_a_merge_that_was_cut_short_changes_nothing(sample: Sample, tmp_path: Path) -> None:
    """The merged file is there, and the files that went into it still are."""
    for at in range(3):
        add_run(tmp_path, scale_sample(sample, at + 1), {"commit": str(at)}, at)
    for folder in ("runs", "values"):
        files = list((tmp_path / folder).glob("*.parquet"))
        pl.concat([pl.read_parquet(f) for f in files]).write_parquet(
            tmp_path / folder / "merged-x.parquet"
        )
    points = read_series(tmp_path, "step_ns", {}, "commit")
    assert [(p.value, p.runs) for p in points] == [(780_000.0 * n, 1) for n in (1, 2, 3)]


def test_what_is_no_history(sample: Sample, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no history"):
        read_runs(tmp_path, {})
    add_run(tmp_path, sample, {}, 1)
    with pytest.raises(MissingDataError, match="did you mean step_ns"):
        read_series(tmp_path, "step_n", {}, "commit")
    with pytest.raises(RequestError, match="holds no pattern"):
        read_series(tmp_path, "kernel:(", {}, "commit")
    assert "idle:unknown" in list_names(tmp_path)
    (tmp_path / "runs" / "x.parquet").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="cannot read the history"):
        read_runs(tmp_path, {})
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        add_run(tmp_path / "file", sample, {}, 1)


def test_a_file_that_makes_polars_panic(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is no Exception: a page's length that is another one ended the command with 3."""

    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("assertion failed: offset + length <= self.length")

    add_run(tmp_path, sample, {}, 1)
    monkeypatch.setattr(pl.LazyFrame, "collect", panic)
    with pytest.raises(InputError, match="cannot read the history"):
        read_runs(tmp_path, {})
