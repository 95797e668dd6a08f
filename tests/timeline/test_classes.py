"""What operations are for, by kind and name."""

from __future__ import annotations

import polars as pl
import pytest

from sightline.timeline.classes import COMMUNICATION, COMPUTE, COPY, UNKNOWN, classify_ops

NONE = pl.DataFrame(schema={"device_op_id": pl.Int64})


@pytest.mark.parametrize(
    ("kind", "name", "class_"),
    [
        ("kernel", "__amd_rocclr_copyBuffer", COPY),
        ("kernel", "__amd_rocclr_copyBufferAligned", COPY),
        ("kernel", "__amd_rocclr_fillBufferAligned2D", COPY),
        ("kernel", "__amd_rocclr_streamOpsWait", UNKNOWN),
        ("kernel", "zeCommandListAppendBarrier", UNKNOWN),
        ("kernel", "void copyBuffer_kernel<float>", COMPUTE),
        ("kernel", "hcom_allReduce__612_0", COMMUNICATION),
        ("kernel", "void vllm::cross_device_reduce_1stage<__half, 2>(...)", COMMUNICATION),
        ("memset", "Memset (Device)", COPY),
    ],
)
def test_class(kind: str, name: str, class_: str) -> None:
    ops = pl.DataFrame({"device_op_id": [1], "kind": [kind], "name": [name]})
    assert classify_ops(ops, NONE).get_column("class_").to_list() == [class_]
