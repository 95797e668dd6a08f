"""What happened to devices while they were watched."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text, time

TABLE = Table(
    "device_events",
    "something that happened while devices were watched: an XID, a lost device, a violated policy",
    (
        RANK,
        RECORDING,
        time("time_ns", "when it was seen"),
        text("event", "xid, device-lost, policy-violated, clock-set, ...", required=True),
        number("device_id", "device; null for the host"),
        text("source", "what it happened to where it is not a GPU: a process, a port"),
        text("text", "what happened, for a person"),
    ),
)
