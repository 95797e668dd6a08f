"""Instances merged to one frame: what merges, what does not, and that nothing is lost."""

from __future__ import annotations

import pytest

from sightline.flames.instances import merge_instances, name_kind
from sightline.flames.stacks import stack_paths


@pytest.mark.parametrize(
    ("layer", "name", "kind"),
    [
        ("phase", "ProfilerStep#12", "ProfilerStep#*"),
        ("phase", "step 3", "step *"),
        ("phase", "iteration_7", "iteration_*"),
        ("phase", "layers.3.attention", "layers.*.attention"),
        ("phase", "encoder.layer.11", "encoder.layer.*"),
        ("phase", "chunk[4]", "chunk[*]"),
        ("phase", "fp16", "fp16"),
        ("phase", "conv2d_3x3", "conv2d_3x3"),
        ("op", "nn.Module: EncoderLayer_3", "nn.Module: EncoderLayer_*"),
        ("op", "triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("op", "aten::conv2d", "aten::conv2d"),
        ("kernel", "gemm_128", "gemm_128"),
        ("python", "f (a.py:3)", "f (a.py:3)"),
        ("note", "[12 small frames]", "[small frames]"),
        ("note", "GPU 3 memory", "GPU memory"),
    ],
)
def test_what_a_frame_is_an_instance_of(layer, name, kind):
    assert name_kind(layer, name) == kind


def test_ranks_steps_and_layers_become_one_and_add_up():
    stacks = stack_paths(
        (
            [
                ("run", f"rank {rank}"),
                ("thread", f"thread {10 + rank}"),
                ("phase", f"ProfilerStep#{step}"),
                ("op", f"nn.Module: Block_{block}"),
                ("device", f"GPU {rank} stream 7"),
                ("kernel", "gemm"),
            ],
            "exact",
            {"gpu_time_ns": 100 * rank + 10 * step + block},
        )
        for rank in range(2)
        for step in (1, 2)
        for block in range(3)
    )
    merged = merge_instances(stacks)
    assert merged.rows.height == 1
    assert merged.rows.get_column("gpu_time_ns").to_list() == [stacks.total("gpu_time_ns")]
    name = dict(merged.frames.select("frame_id", "name").iter_rows())
    assert [name[i] for i in merged.rows.item(0, "frames")] == [
        "all 2 ranks",
        "all 2 threads",
        "ProfilerStep#*",
        "nn.Module: Block_*",
        "all 2 streams",
        "gemm",
    ]


def test_what_is_the_only_one_keeps_its_name():
    path = [("run", "rank 0"), ("thread", "thread 5"), ("phase", "step 1"), ("kernel", "k")]
    stacks = stack_paths([(path, "exact", {"samples": 3})])
    assert merge_instances(stacks) is stacks


@pytest.mark.parametrize(("leaf", "described"), [("native", ""), ("kernel", "exact 100.0 %")])
def test_only_stacks_with_device_frames_are_joined(leaf, described):
    stacks = stack_paths([([("thread", "main"), (leaf, "work")], "exact", {"samples": 3})])
    assert stacks.describe_grades("samples") == described
