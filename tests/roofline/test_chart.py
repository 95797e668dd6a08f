"""The roofline as a picture: in bounds, well-formed, readable without colour."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import RequestError
from sightline.roofline import png
from sightline.roofline.chart import format_tick, list_decades, make_chart, shorten_name
from sightline.roofline.svg import draw_svg
from sightline.roofline.terminal import draw_text


def row(n=0, **more):
    base = {
        "kernel_id": n,
        "name": f"void ns::kernel_{n}<float, 4>(float *)",
        "duration_ns": 1000 + n,
        "precision": "fp32",
        "flop_per_s": 5e12,
        "peak_flop_per_s": 27e12,
        "datasheet_flop_per_s": 35e12,
        "achievable_flop_per_s": None,
        "datasheet_dram_bytes_per_s": 6e11,
        "dram_peak_bytes_per_s": 5.9e11,
        "l2_peak_bytes_per_s": 3.2e12,
        "l1_peak_bytes_per_s": 1.35e13,
        "dram_intensity": 104.0,
        "l2_intensity": 16.0,
        "l1_intensity": 15.0,
        "roof": "compute",
        "roof_flop_per_s": 27e12,
        "of_roof_pct": 18.5,
        "bound": "balanced",
    }
    return base | more


rows = st.lists(
    st.builds(
        lambda n, y, x, peak, bw, p: row(
            n,
            flop_per_s=y,
            dram_intensity=x,
            peak_flop_per_s=peak,
            dram_peak_bytes_per_s=bw,
            precision=p,
        ),
        st.integers(0, 99),
        st.floats(1e3, 1e15),
        st.floats(1e-3, 1e5),
        st.none() | st.floats(1e9, 1e16),
        st.none() | st.floats(1e9, 1e13),
        st.sampled_from(["fp32", "fp64", "bf16_tensor", "fp8"]),
    ),
    min_size=1,
    max_size=30,
)


@given(rows)
def test_any_kernels_can_be_drawn(data):
    chart = make_chart(data, "GPU <&>")
    root = ET.fromstring(draw_svg(chart))
    width, height = float(root.get("width")), float(root.get("height"))
    for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
        assert 0 <= float(circle.get("cx")) <= width
        assert 0 <= float(circle.get("cy")) <= height
    assert "nan" not in draw_svg(chart)
    lines = draw_text(chart).splitlines()
    assert max(map(len, lines)) <= 80


def test_every_kernel_and_ceiling_is_named():
    data = [row(0), row(1, precision="bf16_tensor", achievable_flop_per_s=2e13)]
    svg = draw_svg(make_chart(data, "NVIDIA A10G"))
    texts = re.findall(r">([^<>]+)</text>", svg)
    for wanted in (
        "kernel_0",
        "kernel_1",
        "fp32 27 TFLOP/s",
        "bf16 tensor 20 TFLOP/s",
        "DRAM 590 GB/s",
        "18.5 % of compute",
        "balanced",
    ):
        assert wanted in texts
    text = draw_text(make_chart(data, "NVIDIA A10G"))
    assert "DRAM 590 GB/s" in text
    assert "1  kernel_1" in text  # the longest comes first


def test_kernels_that_cannot_be_placed_are_counted():
    chart = make_chart([row(0), row(1, dram_intensity=None)], None)
    assert chart.left_out == ["1 kernel without counted arithmetic or traffic not drawn"]
    assert make_chart([row(1, flop_per_s=None)], None) is None


def test_short_names():
    assert shorten_name("void (anonymous namespace)::f<int, 3>(int)") == "f"
    assert shorten_name("plain") == "plain"
    assert shorten_name(None) == "unnamed"


def test_a_png_needs_its_package(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(png.importlib, "import_module", absent)
    with pytest.raises(RequestError, match="resvg"):
        png.draw_png("<svg/>")


def test_a_png_is_one_where_the_package_is():
    pytest.importorskip("resvg_py")
    data = png.draw_png(draw_svg(make_chart([row()], "GPU")))
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20], "big") == 1920


def test_on_dark_paper_nothing_is_as_on_white():
    chart = make_chart([row()], "NVIDIA A10G")
    hues = [set(re.findall(r"#[0-9a-f]{6}", draw_svg(chart, dark=on))) for on in (False, True)]
    assert hues[0] & hues[1] <= {"#8795a3"}  # the grey of the L2 is seen on both
    assert len(hues[0]) == len(hues[1])


def test_launches_that_are_alike_are_one_point_with_the_time_of_all() -> None:
    alike = [row(n, name="saxpy", duration_ns=1000, flop_per_s=5e12 + n * 1e10) for n in range(10)]
    faster = row(10, name="saxpy", duration_ns=1500, flop_per_s=9e12)
    other = row(11, name="gemm", duration_ns=2000)
    chart = make_chart([*alike, faster, other], "A100")
    assert chart is not None
    assert [p.name for p in chart.points] == ["10 × saxpy", "gemm", "saxpy"]
    assert [p.legend[2] for p in chart.points] == ["10.00 µs", "2.000 µs", "1.500 µs"]
    assert sum(p.weight for p in chart.points) == pytest.approx(1)
    assert "12 kernels" in chart.title
    assert chart.more == 0


@given(low=st.floats(1e-3, 1e3), decades=st.floats(0.1, 6), width=st.integers(60, 120))
def test_labels_of_the_axis_are_whole(low: float, decades: float, width: int) -> None:
    chart = make_chart([row(0, dram_intensity=low), row(1, dram_intensity=low * 10**decades)], None)
    assert chart is not None
    lines = draw_text(chart, width).splitlines()
    ticks = lines[next(n for n, line in enumerate(lines) if "└" in line) + 1]
    powers = [format_tick(power) for power in list_decades(chart.x_range)]
    assert re.sub(" +", " ", ticks.strip()) == " ".join(powers)
    assert all(len(line) <= width for line in lines)
