"""What limits the conclusions that a trace allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline.core.model.declare import Quality
from sightline.core.units import format_several

if TYPE_CHECKING:
    from sightline._native import Counted, Facts


TORCH, XLA, TF = "PyTorch profiler", "XLA", "TensorFlow timeline"  # as `recordings.tool` has them


def check_quality(
    counted: Counted, facts: Facts, tool: str, *, has_launches: bool, is_empty: bool
) -> list[Quality]:
    """All limits that show in what was counted, and in the tables.

    What to record instead is said of PyTorch's own traces: others' tools have other switches.
    """
    is_torch = tool == TORCH
    found: list[Quality] = []
    if facts["without_device"]:
        found.append(
            Quality(
                "without_device",
                "warning",
                "GPU operations without a device were assigned to device 0",
                facts["without_device"],
            )
        )
    # XLA ends its list with an empty object, so that each event may end with a comma.
    not_events = counted["not_events"] - (tool == XLA)
    if not_events > 0:
        text = "entries that are not events were skipped"
        found.append(Quality("not_events", "warning", text, not_events))
    if counted["negative_durations"]:
        found.append(
            Quality(
                "negative_durations",
                "warning",
                "events that end before they start were left out",
                counted["negative_durations"],
                "Update PyTorch; clocks of some driver versions run backwards."
                if is_torch
                else None,
            )
        )
    if counted["unmatched_begins"]:
        found.append(
            Quality(
                "unmatched_begins",
                "warning",
                "unmatched start or end events were left out",
                counted["unmatched_begins"],
            )
        )
    unknown = counted["unknown_categories"]
    if unknown and is_torch:  # others' categories are their own
        # Stable: of equally frequent ones those that came first.
        named = ", ".join(name for name, _ in sorted(unknown, key=lambda u: -u[1])[:5])
        found.append(
            Quality(
                "unknown_categories",
                "info",
                f"events of categories unknown to sightline are kept as host ranges: {named}",
                sum(count for _, count in unknown),
            )
        )
    if not facts["device_rows"] and has_launches:
        text = "no GPU operations were recorded, though calls that launch them were"
        remedy = (
            'The profiler lost them, or left them out ("out of range" in its log): profile again '
            "after a warm-up step, with no other profiler in the process."
        )
        found.append(Quality("no_device_ops", "warning", text, None, remedy))
    elif not facts["device_rows"] and is_torch and is_empty:
        text = "no GPU operations were recorded, and no operators: the GPU was watched, and idle"
        remedy = (
            "The work ran outside of what was recorded: call the model between the profiler's "
            "start() and stop(), in the same process; where a schedule is given, call prof.step() "
            "after each step, and keep wait and warmup below the number of steps."
        )
        found.append(Quality("no_device_ops", "warning", text, None, remedy))
    elif not facts["device_rows"]:
        found.append(
            Quality(
                "no_device_ops",
                "warning",
                "no GPU operations were recorded: CPU side only",
                None,
                "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]."
                if is_torch
                else None,
            )
        )
    else:
        found += _device_checks(facts, has_launches=has_launches)
    if not facts["host_rows"]:
        found.append(
            Quality(
                "no_host_ops",
                "warning",
                "no CPU activity was recorded, so the causes of idle time are unknown",
                None,
                "Record with ProfilerActivity.CPU too." if is_torch else None,
            )
        )
    elif is_torch:
        found += _host_checks(facts)
    return found


def _device_checks(facts: Facts, *, has_launches: bool) -> list[Quality]:
    found = []
    remedy = "Start recording before the work is launched, with CPU activity on."
    unmatched, height = facts["unmatched"], facts["device_rows"]
    if unmatched == height and has_launches:
        remedy = "They have no number in common with the calls: update PyTorch, and ROCm."
    if unmatched:
        found.append(
            Quality(
                "unmatched_launches",
                "info" if unmatched * 20 < height else "warning",
                f"of {format_several(height, 'GPU operation')} have no launch call in the "
                "recording",
                unmatched,
                remedy,
            )
        )
    if facts["ambiguous"]:
        found.append(
            Quality(
                "ambiguous_launches",
                "warning",
                "correlation ids are used by several processes; the first was taken",
                facts["ambiguous"],
            )
        )
    if facts["zero_durations"]:
        found.append(
            Quality(
                "zero_durations", "info", "GPU operations have no duration", facts["zero_durations"]
            )
        )
    if facts["whole_us"] and height >= 10:
        found.append(
            Quality(
                "microsecond_clock",
                "info",
                "times are whole microseconds: short kernels and gaps are off by up to 1 µs each",
                None,
                "Record with PyTorch 2.3 or newer.",
            )
        )
    return found


def _host_checks(facts: Facts) -> list[Quality]:
    found = []
    if not facts["has_python"] and not facts["has_stack"]:
        found.append(
            Quality(
                "no_python_stacks",
                "info",
                "no Python stacks: causes are named by op, not by line",
                None,
                "Record with with_stack=True.",
            )
        )
    if not facts["has_steps"]:
        found.append(
            Quality(
                "no_steps",
                "info",
                "no steps are marked",
                None,
                "Call prof.step() once per iteration.",
            )
        )
    elif facts["step_names"] == 1:
        found.append(
            Quality(
                "one_step",
                "info",
                "only one step: variation between steps is unknown",
                None,
                "Record at least three steps after the warm-up.",
            )
        )
    return found
