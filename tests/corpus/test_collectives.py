"""Collectives of real jobs, against a second way: the raw JSON, name by name in order of time."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from itertools import chain
from pathlib import Path

import pytest

import sightline
from sightline.fleet.job import compose_job
from sightline.fleet.read import reduce_recordings
from sightline.fleet.stragglers import find_stragglers

pytestmark = pytest.mark.corpus


@pytest.fixture(scope="module")
def megatron(corpus: Path) -> list[Path]:
    folder = corpus / "kineto" / "astra-sim__astra-sim" / "megatron-tp8"
    return sorted(folder.glob("*.json.gz"))


def read_kernels(path: Path) -> dict[str, list[tuple[int, int]]]:
    """Start and end of each NCCL kernel, ns, by name."""
    found = defaultdict(list)
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel" and event["name"].startswith("nccl"):
            start = int(Decimal(event["ts"]) * 1000)
            found[event["name"]].append((start, start + int(Decimal(event["dur"]) * 1000)))
    return {name: sorted(times) for name, times in found.items()}


def test_who_comes_last_to_megatrons_collectives(megatron: list[Path]) -> None:
    kernels = [read_kernels(path) for path in megatron]
    last, skew, waited, transfer = Counter(), 0, 0, 0
    for name in kernels[0]:
        for met in zip(*(k[name] for k in kernels), strict=True):
            starts = [start for start, _ in met]
            # Of ranks that came at the same moment, the last in order counts as the last.
            last[max(range(8), key=lambda r: (starts[r], r))] += 1
            skew += max(starts) - min(starts)
            waited += sum(max(starts) - start for start in starts)
            transfer += min(end - start for start, end in met)
    run = sightline.open(*map(str, megatron))
    times = run.ask("collective_times")
    assert Counter(times["last_rank"].to_list()) == last
    assert last.most_common(2) == [(0, 32), (6, 29)]
    sums = times.select("skew_ns", "waited_ns", "transfer_ns").sum().row(0)
    assert sums == (skew, waited, transfer)
    assert run.ask("collective_matching").rows() == [("matched", "name", 84, 672)]


def test_megatrons_hosts_leave_little_to_gain(megatron: list[Path]) -> None:
    """How long each host takes to its last collective's launch, without calls that may wait."""
    needs = []
    for path in megatron:
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        work = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
        begin = min(e["ts"] for e in work)
        last = max((e for e in work if e["name"].startswith("nccl")), key=lambda e: e["ts"])
        calls = [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")]
        launch = next(e for e in calls if e["args"]["correlation"] == last["args"]["correlation"])
        lengths = defaultdict(list)
        for call in calls:
            lengths[call["name"]].append(call["dur"])
        usual = {name: sorted(found)[len(found) // 2] for name, found in lengths.items()}
        waits = sum(
            max(0, call["dur"] - usual[call["name"]])
            for call in calls
            if begin < call["ts"] < launch["ts"]
        )
        needs.append(launch["ts"] - begin - waits)
    job = compose_job(reduce_recordings([str(path) for path in megatron]).ranks)
    verdict = find_stragglers(job)
    usual = sorted(needs)[3] * 1000
    assert usual > 0.85 * verdict.length_ns
    assert verdict.ideal_ns > usual
    assert verdict.stragglers["gain_ns"].max() < verdict.length_ns - max(needs) * 1000


def test_megatrons_clocks_agree(megatron: list[Path]) -> None:
    clocks = sightline.open(*map(str, megatron)).ask("clocks")
    assert set(clocks["state"]) == {"agree"}
    assert clocks["offset_ns"].abs().max() < clocks["uncertainty_ns"].min() < 25_000


def test_what_megatrons_late_ranks_cost(megatron: list[Path]) -> None:
    """By replay, which asks nobody who came last: no more than each added by the raw file."""
    added: Counter[int] = Counter()
    for met in zip(*(chain(*read_kernels(p).values()) for p in megatron), strict=True):
        starts = sorted((start, rank) for rank, (start, _) in enumerate(met))
        added[starts[-1][1]] += starts[-1][0] - starts[-2][0]
    job = compose_job(reduce_recordings(list(map(str, megatron))).ranks)
    verdict = find_stragglers(job)
    assert verdict.length_ns == 630_762_000
    first = verdict.stragglers.select("cause", "ranks", "gain_ns").rows()
    assert [(cause, ranks) for cause, ranks, _ in first[:2]] == [
        ("host late", [0]),
        ("host late", [6]),
    ]
    for _, (rank,), gain in first[:2]:
        assert 0 < gain <= added[rank]
