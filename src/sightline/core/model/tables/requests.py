"""What calls asked of a device, as their arguments say it."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, size, text

TABLE = Table(
    "requests",
    "what an API call asked of a device, as its arguments say; when the device did it is not known",
    (
        RANK,
        RECORDING,
        join("host_op_id", "host_ops.host_op_id", "the call"),
        text("kind", "kernel, graph, memcpy, memset, alloc, free or collective", required=True),
        text("name", "the kernel; null where nothing says its name"),
        text("mangled_name", "the kernel's name as the linker knows it"),
        number("handle", "what the call named the kernel or graph by: an address or a handle"),
        number("grid_x", "blocks in x"),
        number("grid_y", "blocks in y"),
        number("grid_z", "blocks in z"),
        number("block_x", "threads of a block in x"),
        number("block_y", "threads of a block in y"),
        number("block_z", "threads of a block in z"),
        size("dynamic_shared_bytes", "dynamic shared memory of a block"),
        size("bytes", "bytes copied, set, allocated or sent"),
        text("copy_kind", "HtoD, DtoH, DtoD, HtoH or PtoP; null where the call leaves it open"),
        number("address", "address: the destination of a copy, what is allocated or freed"),
        number("source_address", "of a copy: where from"),
        number("stream_handle", "the stream as the program knows it; 0 is the default stream"),
        text("op", "of a collective: allreduce, allgather, reducescatter, broadcast, send, ..."),
        text("dtype", "of a collective: element type"),
        number("elements", "of a collective: how many"),
        number("peer", "the other rank of a send or receive"),
        number("communicator", "of a collective: the communicator's address"),
        number("return_value", "return value of the call; not 0 where it failed"),
    ),
)
