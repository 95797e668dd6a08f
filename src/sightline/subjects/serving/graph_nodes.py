"""Where a replayed operation's node was made while a stream was captured, by the ids of nodes.

Nsight Systems names the node of each operation that a graph replays (--cuda-graph-trace=node), and
records when each node was made: once while the stream was captured, inside the ranges of whoever
launched, and once more for each graph that is instantiated, with the node that it is a copy of
(CUDA_GRAPH_NODE_EVENTS). So a tie by ids needs neither an order nor a count, and no second
recording. TensorRT-LLM's layer_wise_benchmarks/parse.py joins the same columns.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.trees import find_open_range
from sightline.core.model.run import Run

# A node is a copy of one in a captured graph, which may be a copy of a child graph's, and so on
# (ours: exports have one step, from the executable graph to the captured one).
_MOST_COPIES = 8
_NODE = ["rank", "pid", "node"]


def list_origins(run: Run) -> pl.DataFrame:
    """Each node whose capture was recorded: rank, pid, node, its graph and the range around it.

    `graph` is the id of the graph that was captured, `host_op_id` the innermost range in which
    that was. A copy has what the node has that it is a copy of.
    """
    events = run.table(
        "graph_events",
        ["rank", "pid", "tid", "start_ns", "graph_id", "graph_node_id", "original_graph_node_id"],
    ).drop_nulls("graph_node_id")
    events = events.rename({"graph_node_id": "node", "original_graph_node_id": "original"})
    nodes = events.sort("start_ns").unique(_NODE, keep="first", maintain_order=True)
    made = nodes.filter(pl.col("original").is_null())
    host = run.table("host_ops", ["host_op_id", "parent_id", "rank", "pid", "tid", "start_ns",
                                  "end_ns"])  # fmt: skip
    within = find_open_range(host, made, "start_ns")
    known = made.select(*_NODE, graph="graph_id", host_op_id=within).drop_nulls("host_op_id")
    copies = nodes.drop_nulls("original").select(*_NODE, "original")
    found = [known]
    for _ in range(_MOST_COPIES):
        origins = found[-1].rename({"node": "original"})
        found.append(copies.join(origins, on=["rank", "pid", "original"]).drop("original"))
        if found[-1].is_empty():
            break
    return pl.concat(found).unique(_NODE, keep="first", maintain_order=True)
