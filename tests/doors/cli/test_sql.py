"""SQL over the tables of a run."""

from __future__ import annotations

import json

import pytest

from support import traces
from support.command import sightline

TRACE = [
    traces.op("aten::mm", 0, 30),
    traces.launch(5, 5, 1),
    traces.kernel("gemm", 20, 100, 1),
    traces.kernel("add", 130, 10, 2),
]


def rows(*words):
    outcome = sightline("sql", *words, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_tables_are_views(tmp_path):
    path = traces.write(tmp_path, TRACE)
    query = "SELECT name, end_ns - start_ns AS ns FROM device_ops ORDER BY ns DESC"
    assert rows(path, query) == [{"name": "gemm", "ns": 100_000}, {"name": "add", "ns": 10_000}]


def test_ranks_and_joins_over_several_recordings(tmp_path):
    for rank in (0, 3):
        traces.write(tmp_path, TRACE, f"rank{rank}.json", distributedInfo={"rank": rank})
    query = (
        "SELECT d.rank, h.name FROM device_ops d JOIN host_ops h ON h.host_op_id = d.launch_id "
        "ORDER BY 1"
    )
    assert rows(tmp_path, query) == [
        {"rank": 0, "name": "cudaLaunchKernel"},
        {"rank": 3, "name": "cudaLaunchKernel"},
    ]


def test_a_column_that_only_some_recordings_have(tmp_path):
    shapes = {"Input Dims": [[2, 3]]}
    traces.write(tmp_path, TRACE, "rank0.json", distributedInfo={"rank": 0})
    second = [*TRACE, traces.op("aten::add", 40, 5, **shapes)]
    traces.write(tmp_path, second, "rank1.json", distributedInfo={"rank": 1})
    query = "SELECT rank, name, input_shapes FROM host_ops WHERE name LIKE 'aten%' ORDER BY 1, 2"
    assert rows(tmp_path, query) == [
        {"rank": 0, "name": "aten::mm", "input_shapes": None},
        {"rank": 1, "name": "aten::add", "input_shapes": "[[2,3]]"},
        {"rank": 1, "name": "aten::mm", "input_shapes": None},
    ]


def test_recordings_and_quality_are_there_and_empty_tables_are_empty(tmp_path):
    path = traces.write(tmp_path, TRACE)
    assert rows(path, "SELECT count(*) AS n FROM recordings") == [{"n": 1}]
    assert rows(path, "SELECT count(*) AS n FROM quality WHERE kind = 'no_steps'") == [{"n": 1}]
    assert rows(path, "SELECT * FROM counters") == []


def test_equal_column_names_are_told_apart(tmp_path):
    path = traces.write(tmp_path, TRACE)
    assert rows(path, "SELECT 1 AS n, 2 AS n") == [{"n": 1, "n_2": 2}]


@pytest.mark.parametrize("query", ["SELECT nothing FROM device_ops", "SELEC 1", "SELECT * FROM x"])
def test_wrong_sql_says_so(query, tmp_path):
    outcome = sightline("sql", traces.write(tmp_path, TRACE), query)
    assert outcome.code == 2
    assert "the query cannot be answered" in outcome.err
    assert "sightline tables" in outcome.err


def test_a_quote_in_a_path_is_no_sql(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "it's"))
    assert rows(traces.write(tmp_path, TRACE), "SELECT count(*) n FROM device_ops") == [{"n": 2}]


def test_query_sees_no_other_file(tmp_path):
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for query in (
        f"SELECT * FROM '{secret}'",
        f"SELECT * FROM read_text('{secret}')",
        f"COPY (SELECT 1) TO '{tmp_path / 'written.csv'}'",
        f"ATTACH '{tmp_path / 'written.db'}'",
        "INSTALL httpfs",
        "SET enable_external_access=true",
        "SELECT 1; SELECT 2",
        "",
    ):
        outcome = sightline("sql", trace, query)
        assert outcome.code == 2, query
    assert not list(tmp_path.glob("written*"))
    assert sightline("sql", trace, f"SELECT * FROM '{secret}'", "--unsafe").code == 0
    assert sightline("sql", trace, "SELECT count(*) FROM device_ops", "--format", "csv").code == 0


def test_moments_with_a_zone_need_no_library(tmp_path):
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    outcome = sightline("sql", trace, "SELECT 7 AS n, TIMESTAMPTZ '2025-01-02 03:04:05+00' AS m")
    assert outcome.code == 0, outcome.err
    assert "2025-01-0" in outcome.out


def test_empty_query_and_decimals(tmp_path):
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    assert sightline("sql", trace, "").code == 2
    assert sightline("sql", trace, "SELECT '\udcff'").code == 0  # an argument that is not UTF-8
    outcome = sightline("sql", trace, "SELECT 1.25 AS d, 2::HUGEINT AS h", "--json")
    assert outcome.code == 0, outcome.err
    assert "1.25" in outcome.out


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("SELECT map([1], [2]) AS m, 7 AS n", {"m": "{1: 2}", "n": 7}),
        ("SELECT map([1], [2]) AS m, 7 AS n UNION ALL SELECT NULL, 8", {"m": "{1: 2}", "n": 7}),
    ],
)
def test_a_type_that_frames_lack_becomes_text(tmp_path, query, row):
    """Of that column alone: the others keep their types."""
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    outcome = sightline("sql", trace, query, "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)[0] == row
    assert sightline("sql", trace, "SELECT * FROM duckdb_settings()").code == 0
