"""The terminal report of profiled kernels."""

from __future__ import annotations

from dataclasses import replace

from sightline.answer.summary import answer_run
from sightline.subjects.ncu.kernel_rows import remove_links
from sightline.views.terminal.kernels_text import print_kernels
from support.profiled import MEMORY, SM, TIME, opened
from synth_ncu import Kernel, report
from synth_ncu.report import rule


def test_a_vendors_message_ends_with_a_sentence(tmp_path):
    first = "Every scheduler issues only every 2.7 cycles. " + "This leaves units idle. " * 4
    said = rule("Slots", "Slots", "SchedulerStats", first + "Cut " * 60 + ".", type=2)
    kernel = Kernel(name="long_" * 30, metrics={TIME: 1e9}, rules=(said,))
    text = " ".join(
        "\n".join(print_kernels(answer_run(opened(tmp_path, report([kernel]))))).split()
    )
    assert "every 2.7 cycles. This leaves units idle." in text
    assert "Cut" not in text


def test_the_terminal_report_fits_and_names_the_vendor(tmp_path):
    said = rule(
        "SOLBottleneck", "Bottleneck", "SpeedOfLight", "Look at @section:LaunchStats:Launch@ now"
    )
    kernel = Kernel(
        name="void " + "long_" * 30 + "(int)",
        metrics={TIME: 1e9, SM: 5.0, MEMORY: 6.0},
        rules=(said,),
    )
    text = "\n".join(print_kernels(answer_run(opened(tmp_path, report([kernel])))))
    assert max(map(len, text.splitlines())) <= 80
    assert "NVIDIA Nsight Compute 2024.1.0.0 itself says" in text
    assert remove_links("see @url:Guide:https://x.y@ and @section:A:B@") == "see Guide and B"


def test_times_that_were_not_collected_are_no_zeros(tmp_path):
    """Of two kernels one has a time; the other's share is the mean of its executions."""
    kernels = [
        Kernel(name="known", metrics={TIME: 2e3, SM: 10.0}),
        Kernel(name="other", metrics={SM: 40.0}),
        Kernel(name="other", metrics={SM: 60.0}),
    ]
    text = "\n".join(print_kernels(answer_run(opened(tmp_path / "a", report(kernels)))))
    assert "3 profiled kernels · 2.000 µs under the profiler" in text
    (row,) = [line.split() for line in text.splitlines() if line.startswith("other")]
    assert row[:4] == ["other", "2", "—", "50"]
    text = "\n".join(print_kernels(answer_run(opened(tmp_path / "b", report(kernels[1:])))))
    assert "2 profiled kernels · their times were not collected" in text
    assert "0 ns" not in text


def test_a_name_is_judged_by_what_takes_its_time(tmp_path):
    """Four small launches that latency binds, and one of 90 µs at the memory's rate."""
    small = [Kernel(name="conv", metrics={TIME: 2e3, SM: 5.0, MEMORY: 9.0}) for _ in range(4)]
    large = Kernel(name="conv", metrics={TIME: 90e3, SM: 20.0, MEMORY: 90.0})
    text = "\n".join(print_kernels(answer_run(opened(tmp_path, report([*small, large])))))
    (row,) = [line.split() for line in text.splitlines() if line.startswith("conv")]
    assert row[-1] == "memory"


def test_columns_have_the_vendors_words(tmp_path):
    kernel = Kernel(name="scale", metrics={TIME: 1e9, SM: 5.0, MEMORY: 6.0})
    data = answer_run(opened(tmp_path, report([kernel])))
    for vendor, unit in (("nvidia", "SM"), ("amd", "CU"), ("intel", "Xe"), (None, "SM")):
        text = "\n".join(print_kernels(replace(data, devices=[{"vendor": vendor}])))
        assert f"   {unit}  memory" in text and f"{unit}, memory" in text
        assert unit == "SM" or "SM" not in text
