"""What a benchmark of collectives measured."""

from __future__ import annotations

from typing import Any

from sightline.core.model.run import Run

_ABOUT = ("rank", "test", "op", "group_size", "machines", "device", "dtype", "reduction", "root")


FIGURES = ("duration_ns", "algorithm_bandwidth_gb_per_s", "bus_bandwidth_gb_per_s", "wrong")


def summarize_bandwidth(run: Run) -> list[dict[str, Any]]:
    """Each benchmark with a row for each size, in the log's order.

    A row has `bytes`, and for each placement that was run its figures.
    """
    benchmarks: dict[tuple[Any, ...], dict[str, Any]] = {}
    for result in run.table("bandwidth_tests").iter_rows(named=True):
        about = {name: result[name] for name in _ABOUT}
        sizes = benchmarks.setdefault(tuple(about.values()), {**about, "sizes": []})["sizes"]
        figures = {name: result[name] for name in FIGURES}
        last = sizes[-1] if sizes else None
        # A line of the log is a result of each placement; the same size may come twice.
        if last is None or last["bytes"] != result["bytes"] or result["placement"] in last:
            sizes.append(last := {"bytes": result["bytes"]})
        last[result["placement"]] = figures
    return list(benchmarks.values())
