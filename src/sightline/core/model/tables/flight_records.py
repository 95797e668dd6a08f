"""What a process last asked of its communication library: PyTorch's flight records."""

from sightline.core.model.columns import (
    RANK,
    RECORDING,
    Table,
    flag,
    ident,
    number,
    numbers,
    text,
    time,
)

TABLE = Table(
    "flight_records",
    "a collective, send or receive that a process asked for, and how far it came",
    (
        RANK,
        RECORDING,
        ident("flight_record_id", "the record"),
        number("record", "its number in the process: the recorder keeps the last of them"),
        text("group", "process group"),
        text("group_description", "what the group is for, as the program named it"),
        numbers("group_ranks", "ranks of the group"),
        text("op", "nccl:all_reduce, gloo:broadcast, nccl:send 3->0, ...", required=True),
        number("sequence", "order of the collective, or of the send or receive, in its group"),
        flag("is_p2p", "whether it is a send or receive"),
        text("state", "scheduled, started or completed"),
        flag("retired", "whether the process has seen its end"),
        time("created_ns", "when it was asked for, on the host's wall clock"),
        text("input_sizes", "dimensions of its inputs, as JSON"),
        text("output_sizes", "dimensions of its outputs, as JSON"),
        text("dtype", "element types of its inputs, as JSON"),
        number("timeout_ms", "how long the process waits for it", unit="ms"),
        text("place", "the line of the program that asked for it: file(line): function"),
    ),
)
