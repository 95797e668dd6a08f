"""Two benchmarks of a server, or its metrics, against each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.compare.server_load import compare_loads, has_load_only
from subjects.serving.analyses.test_serving_load import METRICS
from support.command import sightline as command
from support.served import BENCH
from support.traces import kernel, opened


def write_json(folder: Path, name: str, document: Any) -> str:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def test_each_requests_figures_of_two_benchmarks(tmp_path: Path) -> None:
    slower = {**BENCH, "ttfts": [0.2, 0.4], "itls": [[0.01, 0.03], [0.02]]}
    paths = [write_json(tmp_path, "a.json", BENCH), write_json(tmp_path, "b.json", slower)]
    rows = compare_loads(*map(sightline.open, paths))["load"]
    (row,) = (r for r in rows if (r["metric"], r["statistic"]) == ("ttft", "mean"))
    assert (row["before"], row["after"], row["change_pct"]) == pytest.approx((150.0, 300.0, 100.0))
    outcome = command("compare", *paths)
    assert outcome.code == 0, outcome.err
    (line,) = (x for x in outcome.out.splitlines() if x.startswith("time to first token, mean"))
    assert line.split()[-2:] == ["+100.0", "%"]
    assert max(map(len, outcome.out.splitlines())) <= 80
    data = json.loads(command("compare", *paths, "--json").out)
    assert data["load"] == rows


def test_metrics_against_a_benchmark_share_what_both_know(tmp_path: Path) -> None:
    paths = [write_json(tmp_path, "a.json", BENCH), write_json(tmp_path, "m.txt", METRICS)]
    rows = compare_loads(*map(sightline.open, paths))["load"]
    assert {row["metric"] for row in rows} == {"ttft"}


def test_a_trace_is_no_load(tmp_path: Path) -> None:
    assert not has_load_only(opened(tmp_path, [kernel("k", 0, 9)]))
