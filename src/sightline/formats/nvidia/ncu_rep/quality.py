"""What limits the conclusions that a report allows."""

from __future__ import annotations

from sightline.core.model.declare import Quality
from sightline.core.units import format_several
from sightline.formats.nvidia.ncu_rep.blocks import Report
from sightline.formats.nvidia.ncu_rep.code import Code
from sightline.formats.nvidia.ncu_rep.rows import Rows

_SOL = "sm__throughput.avg.pct_of_peak_sustained_elapsed"


def check_quality(report: Report, rows: Rows, code: Code, damaged: int) -> list[Quality]:
    """All limits that show in the report."""
    found = [Quality("damaged", "error", f"the report is damaged: {d}") for d in report.damage]
    for count, text in (
        (damaged, "damaged results were left out"),
        (rows.damaged_metrics, "damaged metrics were left out"),
        (len(rows.odd_names), "metric names are damaged: these metrics were left out"),
        (code.damaged, "damaged pieces of GPU code were left out"),
    ):
        if count:
            found.append(Quality("damaged_parts", "error", text, count, "Copy the report again."))
    if code.notes:
        found.append(
            Quality(
                "unreadable_code",
                "warning",
                f"GPU code could not be read in full: {code.notes[0]}",
                len(code.notes),
            )
        )
    found += _check_builds(code)
    if rows.wrong_opcodes:
        named = ", ".join(sorted(rows.wrong_opcodes)[:5])
        found.append(
            Quality(
                "unknown_encoding",
                "info",
                f"instructions of this GPU are not decoded: counts differ for {named}",
                sum(rows.wrong_opcodes.values()),
            )
        )
    if not rows.kernels:
        found.append(
            Quality(
                "no_kernels",
                "warning",
                "the report holds no profiled kernels",
                None,
                "Check the kernel filter (-k, --launch-count) and that the program uses the GPU.",
            )
        )
        return found
    if _SOL not in set(rows.metrics.metric):
        found.append(
            Quality(
                "no_speed_of_light",
                "warning",
                "no throughput metrics were recorded, so what limits the kernels is unknown",
                None,
                "Record with  ncu --set full  (or at least --section SpeedOfLight).",
            )
        )
    locked = sum(bool(k["clocks_locked"]) for k in rows.kernels)
    if locked:
        found.append(
            Quality(
                "clocks_locked",
                "info",
                "kernels ran with locked clocks and flushed caches: their durations are not "
                "those of the program",
                locked,
                "Take times from a timeline recording, or record with  ncu --clock-control none "
                "--cache-control none,  which comes closer.",
            )
        )
    if rows.dropped_sample_bytes:
        found.append(
            Quality(
                "dropped_samples",
                "warning",
                "bytes of warp samples were dropped",
                rows.dropped_sample_bytes,
                "Record with a larger --warp-sampling-interval.",
            )
        )
    if rows.unsupported:
        found.append(
            Quality(
                "unsupported_device",
                "warning",
                "kernels ran on a device that this version of Nsight Compute does not support",
                rows.unsupported,
                "Record with a newer Nsight Compute.",
            )
        )
    return found


def _check_builds(code: Code) -> list[Quality]:
    """Modules that were built for a debugger: what is measured of them is not the program's."""
    built = [module.cubin for module in code.modules.values() if module.cubin is not None]
    for_debugging = sum(cubin.is_debug for cubin in built)
    if not for_debugging:
        return []
    which = (
        ""
        if for_debugging == len(built)
        else f"{for_debugging} of {format_several(len(built), 'module')}: "
    )
    text = f"{which}GPU code was built for debugging (nvcc -G), without optimization"
    remedy = "Build without -G (-lineinfo keeps the source lines), and profile again."
    return [Quality("debug_build", "warning", text, None, remedy)]
