"""Requests that an inference server answered, as its client or its own log timed them."""

from sightline.core.model.columns import (
    RANK,
    RECORDING,
    Table,
    duration,
    ident,
    number,
    numbers,
    text,
    time,
)

TABLE = Table(
    "served_requests",
    "a request to an inference server, as its client or the server's log timed it",
    (
        ident("request_id", "key"),
        RANK,
        RECORDING,
        time("start_ns", "when it was sent", required=False),
        time("end_ns", "when its last token came", required=False),
        duration("ttft_ns", "from sending it to its first token"),
        numbers("itl_ns", "times between arrivals of its tokens, in order", "ns"),
        duration("latency_ns", "from sending it to its last token"),
        duration("queue_ns", "how much of that it waited to be scheduled"),
        number("prompt_tokens", "tokens of the prompt"),
        number("output_tokens", "tokens that were generated"),
        text("status", "completed, failed or aborted"),
    ),
)
