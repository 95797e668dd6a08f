"""What a kernel of torch.compile computes, node by node, with the lines of the program."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, text

TABLE = Table(
    "fused_nodes",
    "one node of a graph that a generated kernel computes, or one line that it comes from",
    (
        join("fused_kernel_id", "fused_kernels.fused_kernel_id", "the kernel"),
        RANK,
        RECORDING,
        number("position", "its place in the kernel, from 0", required=True),
        text("node", "the node, after Inductor's passes over the graph"),
        text("op", "the operator, such as aten.mul"),
        text("file", "file of the line of the program that it comes from"),
        number("line", "its line"),
        text("function", "its function"),
        text("code", "the line's text"),
    ),
)
