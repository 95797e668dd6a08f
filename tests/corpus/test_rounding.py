"""What rounding to whole microseconds does to idle time: the table of docs/accuracy.md."""

from __future__ import annotations

import pytest

from support import sweep
from support.command import stats
from support.corpus import CORPUS

pytestmark = pytest.mark.corpus

HTA = "facebookresearch__HolisticTraceAnalysis"
TRACELENS = "AMD-AGI__TraceLens"
# File, idle ns, idle ns where each start is rounded up and each end down to whole µs.
FIGURES = {
    f"{HTA}/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": (
        7_574_738,
        13_643_000,
    ),
    f"{HTA}/nccl_parser_config/nccl_data.json.gz": (503_050_991, 506_512_000),
    f"{TRACELENS}/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": (4_005_532, 5_666_000),
    f"{TRACELENS}/inference/vllm_decode_full/graph_execution.json.gz": (25_473, 458_000),
}


def inward(start: int, end: int) -> tuple[int, int]:
    up, down = -(-start // 1000) * 1000, end // 1000 * 1000
    return up, max(up, down)


@pytest.mark.parametrize("name", FIGURES, ids=lambda name: name.split("/")[-2])
def test_documented_error_of_rounding_to_microseconds(name: str) -> None:
    path = CORPUS / "kineto" / name
    exact, rounded = FIGURES[name]
    (ops,) = sweep.operations(sweep.parse(path)).values()
    (ours,) = stats("breakdown", path)
    assert ours["idle_ns"] == exact
    shrunk = [(*inward(start, end), kind) for start, end, kind in ops]
    assert sweep.breakdown(shrunk)["idle_ns"] == rounded
