"""Findings of inference servers that speak without a price, and where they keep silent."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.traces import computed, host, kernel, opened

DRAFTS = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{engine="0"}} 250
vllm:spec_decode_num_draft_tokens_total{{engine="0"}} 1000
vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}
"""


@pytest.mark.parametrize(("accepted", "speaks"), [(280, True), (300, False)])
def test_rejected_drafts_by_the_servers_count(accepted: int, speaks: bool, tmp_path: Path) -> None:
    """28 % of four tokens a draft do not pay a draft at a tenth of the model's cost; 30 % do."""
    path = tmp_path / "metrics.prom"
    path.write_text(DRAFTS.format(accepted=accepted))
    found = [
        f
        for f in sightline.open(str(path)).answer().findings
        if f["rule"] == "speculative-acceptance-low" and not f["abstained"]
    ]
    assert bool(found) == speaks
    if found:
        assert found[0]["summary"] == "28.0 % of the drafted tokens are accepted."
        assert "--speculative-config" in found[0]["fix"]


@pytest.mark.parametrize(
    ("name", "speaks"),
    [("kernel_unified_attention_2d", True), ("flash_fwd_splitkv_kernel", False)],
)
def test_a_slow_backend_by_its_name(name: str, speaks: bool, tmp_path: Path) -> None:
    """Without shapes and context only the name tells."""
    events = [
        host("user_annotation", "execute_context_0(0)_generation_4(4)", 0, 60),
        computed("vllm::unified_attention", 5, kernel(name, 100, 400)),
        computed("aten::mm", 25, kernel("gemm", 510, 100)),
    ]
    found = [
        f
        for f in opened(tmp_path, events).answer().findings
        if f["rule"] == "attention-backend-slow-path"
    ]
    assert bool(found) == speaks
    assert all(f["gain_ns"] is None for f in found)
