"""What a person may ask with --for: what it means, what it needs, and what is said without it.

Which backends are picked for a question is declared by each of them (collect/backends).
"""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """`needs`: names of checks (remedies); "a|b": one of them is enough."""

    text: str
    needs: tuple[str, ...]
    failure: str | None = None  # where no backend that carries it can record
    even_if_asked: bool = False  # also where a person named other backends


QUESTIONS = {
    "timeline": Question("what ran when, and what waited", ("gpu", "torch|nsys")),
    "kernels": Question(
        "why single kernels are slow", ("gpu", "ncu", "counters"), "kernels cannot be profiled here"
    ),
    "stalls": Question(
        "where in the code warps wait, while the program runs",
        ("gpu", "cupti|ncu|rocprofv3|unitrace", "counters"),
        "stalls cannot be recorded here",
    ),
    "memory": Question("what is allocated, and when", ("gpu", "torch|nsys")),
    "energy": Question(
        "power, energy and clocks",
        ("gpu", "nvml"),
        "energy cannot be measured here",
        even_if_asked=True,
    ),
    "system": Question(
        "what the operating system did with the threads",
        ("lttng|sched",),
        "the operating system cannot be traced here",
    ),
}
