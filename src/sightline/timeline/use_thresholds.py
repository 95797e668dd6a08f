"""From where on a GPU counts as idle, used or busy, with sources; the standard library only.

`sightline top`, which must stay small, and the rules about energy judge by the same numbers.
"""

from collections.abc import Mapping

# The pipes of an SM, and what a person calls them; of the tensor pipe's parts their whole is shown.
PIPES = {
    "tensor active": "tensor pipe",
    "FP64 active": "FP64 pipe",
    "FP32 active": "FP32 pipe",
    "FP16 active": "FP16 pipe",
    "integer active": "integer pipe",
}
# DCGM's user guide, profiling metrics: SM active of 0.8 or more is necessary for effective use,
# less than 0.5 is likely ineffective.
EFFECTIVE_PCT, INEFFECTIVE_PCT = 80, 50
# An SM active of this little under a full utilization is a few SMs of a hundred at work.
TINY_PCT = 10
IDLE_PCT = 1  # nvidia-smi's figure is a whole number
HELD_BYTES = 1 << 30  # a context alone takes some hundred MB


def find_busiest_pipe(values: Mapping[str, float | None]) -> tuple[str, float | None]:
    """The pipe with the largest share of cycles, of values by metric; "" where none was read."""
    shares = ((values.get(metric), name) for metric, name in PIPES.items())
    known = [(share, name) for share, name in shares if share is not None]
    share, name = max(known, default=(None, ""))
    return name, share
