"""The programs: each writes the scripts of all its threads into a world."""

from __future__ import annotations

from collections.abc import Callable

from worlds.programs import inference, pipeline, scans, stencil, training
from worlds.world import World

PROGRAMS: dict[str, Callable[[World], None]] = {
    "transformer": training.train_transformer,
    "resnet": training.train_resnet,
    "gnn": training.train_graph_net,
    "recommender": training.train_recommender,
    "ddp": training.train_ddp,
    "fsdp": training.train_fsdp,
    "decode": inference.decode_with_graphs,
    "decode_eager": inference.decode_eagerly,
    "server": inference.serve_requests,
    "diffusion": inference.denoise,
    "replicas": inference.serve_replicas,
    "branches": inference.run_branches,
    "pipeline": pipeline.train_in_stages,
    "stages": pipeline.train_in_four_stages,
    "ddp_narrow": training.train_ddp_narrow,
    "accumulation": training.train_accumulating,
    "stencil": stencil.advance_grid,
    "scans": scans.scan_after_products,
}
DISTRIBUTED = {
    "ddp": 4,
    "fsdp": 2,
    "pipeline": 2,
    "stages": 4,
    "ddp_narrow": 2,
    "accumulation": 2,
    "stencil": 4,
    "replicas": 2,
}
"""How many ranks a program has, where that is more than one."""
NATIVE = {"stencil", "scans"}
"""Programs without a framework, which only Nsight Systems records."""
TOGETHER = {"stencil", "replicas"}
"""Programs whose processes Nsight Systems records into one file."""
