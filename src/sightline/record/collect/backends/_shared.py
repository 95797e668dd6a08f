"""What several backends say in the same words."""

from __future__ import annotations

from sightline.record.collect.backend import Facts, Way

NO_GPU = "no GPU was found"
IN_CYCLES = "--period counts cycles, and this GPU is sampled by time"


def describe_tool(facts: Facts, tool: str, what: str, *, has_gpu: bool) -> Way:
    """The line of `doctor` on a vendor's program, which needs a GPU."""
    if facts[tool] is None:
        return Way(what, False, f"{tool} is not on the PATH")
    return Way(
        what, has_gpu, facts[tool] if has_gpu else f"{tool} is installed, but no GPU was found"
    )
