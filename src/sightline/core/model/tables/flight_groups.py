"""How far a process came in each of its process groups, by PyTorch's flight recorder."""

from sightline.core.model.columns import RANK, RECORDING, Table, numbers, text

TABLE = Table(
    "flight_groups",
    "a process group of a process that kept flight records",
    (
        RANK,
        RECORDING,
        text("group", "process group", required=True),
        text("group_description", "what the group is for, as the program named it"),
        numbers("group_ranks", "ranks of the group"),
    ),
)
