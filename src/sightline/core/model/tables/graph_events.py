"""The life of CUDA graphs: creation, cloning, instantiation."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text, time

TABLE = Table(
    "graph_events",
    "an API call that makes or changes a CUDA graph",
    (
        RANK,
        RECORDING,
        time("start_ns", "start"),
        time("end_ns", "end"),
        number("pid", "process id"),
        number("tid", "thread id"),
        text("name", "what happened, as recorded"),
        number("graph_id", "graph"),
        number("original_graph_id", "graph that it was cloned from"),
        number("graph_exec_id", "executable that it was instantiated to"),
        number("graph_node_id", "node"),
        number("original_graph_node_id", "node that it was cloned from"),
    ),
)
