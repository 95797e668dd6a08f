"""What the CPU did: ranges on threads, nested, numbered so that a subtree is a run of ids."""

from sightline.core.model.columns import RANK, RECORDING, Table, ident, join, number, text, time

TABLE = Table(
    "host_ops",
    "one range on a thread: Python function, framework op, annotation, step, API call",
    (
        ident("host_op_id", "key; counts up in preorder of each thread's nesting"),
        RANK,
        RECORDING,
        number("pid", "process id"),
        number("tid", "thread id"),
        text(
            "layer",
            "python, op, annotation, step, runtime, driver, os, mpi, overhead, openacc, openmp "
            "or library",
            required=True,
        ),
        text("name", "name as recorded", required=True),
        time("start_ns", "start"),
        time("end_ns", "end; never before the start"),
        join("parent_id", "host_ops.host_op_id", "the range around it on the same thread"),
        number("depth", "ranges around it on the same thread"),
        join(
            "subtree_end_id",
            "host_ops.host_op_id",
            "one past the id of its last descendant: descendants are (host_op_id, subtree_end_id)",
        ),
        number("correlation_id", "the profiler's number that ties an API call to device work"),
        number(
            "external_id", "the number that another tool gave a call, such as that of its own op"
        ),
        number("sequence_id", "autograd's number that ties a backward op to its forward op"),
        join("forward_id", "host_ops.host_op_id", "the forward op of a backward op"),
        text("input_shapes", "shapes of the inputs, as JSON"),
        text("input_types", "types of the inputs, as JSON"),
        text("input_strides", "strides of the inputs in elements, as JSON"),
        text("input_values", "values of the inputs that are not tensors, as JSON"),
        text("stack", "call stack text where the profiler wrote one, leaf first, ';' between"),
        number("python_id", "the profiler's number of a Python frame"),
        number("python_parent_id", "the profiler's number of the calling Python frame"),
        text("module_id", "number of the nn.Module that the frame belongs to"),
        number("return_value", "return value of an API call"),
        text("range_kind", "of an annotation: pushpop, startend or mark"),
        text("domain", "NVTX domain of an annotation; null is the default domain"),
        text("category", "NVTX category, or what kind of overhead it is"),
        text("payload", "value that an annotation carries, as JSON"),
        number("event_row", "of an NVTX event: its row among the recording's, from 1"),
        number("end_tid", "thread that ended a range of kind startend"),
        join("stack_id", "stacks.stack_id", "call stack of the call"),
    ),
)
