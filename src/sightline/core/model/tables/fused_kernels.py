"""Kernels that torch.compile generated, and the operators that each was made of."""

from sightline.core.model.columns import RANK, RECORDING, Table, ident, text

TABLE = Table(
    "fused_kernels",
    "one kernel that PyTorch's Inductor generated for a graph",
    (
        ident("fused_kernel_id", "key; in the order of the code"),
        RANK,
        RECORDING,
        text("name", "the kernel, as the profiler names it", required=True),
        text("graph", "AOTAutograd's name of the graph, such as 0_forward"),
        text(
            "pytorch_frame", "torch.compile's frame, compilation and attempt, such as 0/0 or 0/0_1"
        ),
        text("source_nodes", "nodes of the program's graph that it computes, in order"),
        text("aten_ops", "the operators that these were, each once"),
        text("kernel_file", "file in Inductor's cache that holds the kernel alone"),
    ),
)
