"""What a communication kernel means."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, numbers, size, text

TABLE = Table(
    "collectives",
    "the collective, send or receive that a communication kernel performs",
    (
        RANK,
        RECORDING,
        join("device_op_id", "device_ops.device_op_id", "the kernel"),
        text("op", "allreduce, allgather, reducescatter, alltoall, broadcast, send, recv, ..."),
        text("group", "process group"),
        text("group_description", "what the group is for, as the program named it"),
        number("group_size", "ranks in the group"),
        numbers("group_ranks", "ranks of the group, where listed"),
        number("sequence", "order of the operation in its group"),
        text("dtype", "element type"),
        number("elements_in", "elements in the input of this rank"),
        number("elements_out", "elements in the output of this rank"),
        size("bytes_in", "bytes in the input of this rank"),
        size("bytes_out", "bytes in the output of this rank"),
        number("peer", "the other rank of a send or receive"),
        join("host_op_id", "host_ops.host_op_id", "the call that asked for it"),
    ),
)
