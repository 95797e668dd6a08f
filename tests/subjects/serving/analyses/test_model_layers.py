"""The layers of a step, by the kernels that come back; what is not a layer has none."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from support.traces import call, host, kernel, opened

NAME = "execute_context_0(0)_generation_1(1)"
# A layer of six kernels, of which one runs twice: 10 µs each.
LAYER = ("rms_norm", "qkv_gemm", "flash_fwd", "out_gemm", "rms_norm", "mlp_gemm", "silu_mul")


def make_step(layers: int) -> list[object]:
    names = ["embedding", *LAYER * layers, "rms_norm", "lm_head_gemm", "argmax"]
    replay = [kernel(name, 50 + 10 * n, 10, 7) for n, name in enumerate(names)]
    return [host("user_annotation", NAME, 0, 40), call("cudaGraphLaunch", 5, 10, 7), *replay]


def test_layers_and_what_lies_outside_of_them(tmp_path: Path) -> None:
    table = opened(tmp_path, make_step(28)).ask("model_layers")
    assert table["layers"].unique().to_list() == [28]
    inside = table.drop_nulls("layer")
    assert inside["layer"].to_list() == list(range(28))
    assert set(inside["kernels"]) == {7}
    assert set(inside["kernel_ns"]) == {70_000}
    parts = ("attention_ns", "product_ns", "norm_ns", "experts_ns")
    assert set(inside.select(parts).rows()) == {(10_000, 30_000, 20_000, 0)}
    outside = table.filter(pl.col("layer").is_null())
    # The embedding and a norm; the product with the vocabulary and the choice of the token. A layer
    # begins with the first kernel that runs once in it, so that the last norm is the last one's.
    assert outside.select("kernels", "kernel_ns").rows() == [(2, 20_000), (2, 20_000)]
    assert table["kernel_ns"].sum() == (28 * 7 + 4) * 10_000


def test_two_equal_parts_are_no_layers(tmp_path: Path) -> None:
    table = opened(tmp_path, make_step(2)).ask("model_layers")
    assert table["layers"].to_list() == [None]
    assert table["layer"].to_list() == [None]
    assert table["product_ns"].to_list() == [(3 * 2 + 1) * 10_000]
