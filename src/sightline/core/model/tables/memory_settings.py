"""Settings of an allocator, and what else a memory recording says of itself."""

from sightline.core.model.columns import RANK, RECORDING, Table, text

TABLE = Table(
    "memory_settings",
    "a setting of a caching allocator, or another fact of a memory recording",
    (
        RANK,
        RECORDING,
        text("name", "name of the setting, as the allocator has it", required=True),
        text("value", "its value as JSON"),
    ),
)
