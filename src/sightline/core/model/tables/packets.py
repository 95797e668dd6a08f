"""Network packets."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, size, text, time

TABLE = Table(
    "packets",
    "a network packet that an interface was given, or that came from one; without its addresses",
    (
        RANK,
        RECORDING,
        time("time_ns", "when"),
        number("pid", "process id of the thread"),
        number("tid", "thread that ran on the CPU: the sender's, unless an interrupt was on"),
        number("cpu", "CPU core that it was sent or received on"),
        text("direction", "sent or received", required=True),
        text("interface", "network interface"),
        size("bytes", "length of the packet"),
        number("source_port", "port of TCP or UDP that it comes from"),
        number("destination_port", "port of TCP or UDP that it goes to"),
        number("sequence", "TCP: number of its first byte"),
        number("acknowledged", "TCP: number of the byte that is expected next"),
        number("tcp_flags", "TCP: its control bits (RFC 9293, 3.1)"),
    ),
)
