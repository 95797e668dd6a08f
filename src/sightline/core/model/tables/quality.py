"""What limits the conclusions that a run allows."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text

TABLE = Table(
    "quality",
    "something that limits what may be concluded",
    (
        RANK,
        RECORDING,
        text("kind", "short name of the limit", required=True),
        text("severity", "info, warning or error", required=True),
        number("count", "how many records it concerns"),
        text("text", "what it is, for a person", required=True),
        text("remedy", "how to avoid it in the next recording"),
    ),
)
