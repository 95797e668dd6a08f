"""AMD, Intel, DCGM, ports, RAPL: trees of files and programs that stand for the real ones.

Files and their values: https://docs.kernel.org/gpu/amdgpu/thermal.html, an MI210's; ports:
https://docs.kernel.org/admin-guide/abi-stable.html; the lines of `dcgmi dmon` and `xpu-smi dump`
are those of their documentation.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from record.monitor.machine import FakeClock, play
from sightline.core.metric_names import name_metric
from sightline.core.watched_metrics import METRICS
from sightline.record.monitor.readings import GPU, HOST, INSTANCE, LINK, Entity, Source
from sightline.record.monitor.rounds import Round
from sightline.record.monitor.sources import NoSource, amd, dcgm, intel, links, list_sources, rapl


def make_tree(root: Path, files: dict[str, object]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def find(now: Round, entity: Entity) -> dict[str, float]:
    return next(r.values for r in now.readings if r.entity == entity)


def test_amd_gpus_by_the_drivers_files(tmp_path: Path) -> None:
    card = "class/drm/card1/device"
    root = make_tree(tmp_path, {
        "class/drm/card0/device/vendor": "0x1a03",  # the board's own graphics
        "class/drm/card1-DP-1/status": "disconnected",
        f"{card}/vendor": "0x1002", f"{card}/product_name": "Instinct MI210",
        f"{card}/unique_id": "5a1b2c3d4e5f6071", f"{card}/gpu_busy_percent": 97,
        f"{card}/mem_busy_percent": 31, f"{card}/mem_info_vram_total": 68_702_699_520,
        f"{card}/mem_info_vram_used": 11_530_240, f"{card}/current_link_width": 16,
        f"{card}/hwmon/hwmon4/power1_average": 213_000_000,
        f"{card}/hwmon/hwmon4/power1_cap": 300_000_000,
        f"{card}/hwmon/hwmon4/freq1_input": 1_700_000_000,
        f"{card}/hwmon/hwmon4/temp1_label": "edge", f"{card}/hwmon/hwmon4/temp1_input": 41_000,
        f"{card}/hwmon/hwmon4/temp3_label": "mem", f"{card}/hwmon/hwmon4/temp3_input": 52_000,
    })  # fmt: skip
    source = amd.open_source(2, root)
    assert [(d.device_id, d.name) for d in source.list_devices()] == [(2, "Instinct MI210")]
    (now,) = play([source], FakeClock(1))
    assert find(now, Entity(GPU, 2)) == {
        "GPU utilization": 97, "memory utilization": 31, "memory used": 11_530_240,
        "memory total": 68_702_699_520, "memory free": 68_691_169_280, "PCIe width": 16,
        "average power": 213, "power": 213, "power limit": 300, "SM clock": 1700,
        "temperature": 41, "memory temperature": 52,
    }  # fmt: skip
    with pytest.raises(NoSource, match="no GPU of the driver amdgpu"):
        amd.open_source(0, tmp_path / "none")


def test_ports_count_words_of_four_bytes(tmp_path: Path) -> None:
    counters = "class/infiniband/mlx5_0/ports/1/counters"
    root = make_tree(tmp_path, {f"{counters}/port_rcv_data": 1000,
                                f"{counters}/port_xmit_data": 5000,
                                f"{counters}/symbol_error": 3})  # fmt: skip

    def move(_: float) -> None:
        make_tree(root, {f"{counters}/port_rcv_data": 251_000})

    rounds = list(play([links.open_source(0, root)], FakeClock(2, move)))
    port = Entity(LINK, None, "mlx5_0 port 1")
    assert find(rounds[0], port) == {"link errors": 3}
    assert find(rounds[1], port) == {"link errors": 3, "link received": 1e6, "link sent": 0}


def test_the_energy_of_cpus_wraps(tmp_path: Path) -> None:
    zone, part = "class/powercap/intel-rapl:0", "class/powercap/intel-rapl:0:0"
    root = make_tree(tmp_path, {f"{zone}/name": "package-0", f"{zone}/energy_uj": 900_000_000,
                                f"{zone}/max_energy_range_uj": 1_000_000_000,
                                f"{part}/name": "dram", f"{part}/energy_uj": 0})  # fmt: skip
    counts = iter([950_000_000, 20_000_000])

    def move(_: float) -> None:
        make_tree(root, {f"{zone}/energy_uj": next(counts, 0)})

    rounds = list(play([rapl.open_source(0, root)], FakeClock(3, move)))
    package = [find(now, Entity(HOST, None, "package-0")) for now in rounds]
    assert package[0] == {"energy": 0}
    assert package[1] == {"energy": pytest.approx(50), "power": pytest.approx(50)}
    assert package[2] == {"energy": pytest.approx(120), "power": pytest.approx(70)}  # past 1000 J
    assert find(rounds[0], Entity(HOST, None, "package-0 dram")) == {"energy": 0}


@pytest.mark.skipif(os.getuid() != 0, reason="permissions do not hold root back")
def test_what_nobody_may_read_is_said(tmp_path: Path) -> None:
    make_tree(tmp_path, {"class/powercap/intel-rapl:0/name": "package-0"})
    with pytest.raises(NoSource, match="root only"):
        rapl.open_source(0, tmp_path)


def make_program(
    folder: Path, name: str, text: str, patch: pytest.MonkeyPatch, helps: str = ""
) -> None:
    """A program on the PATH that prints a text and stays, as a monitor does."""
    path = folder / name
    path.write_text(
        f'#!/bin/sh\n[ "$2" = --help ] && exec echo "{helps}"\necho "$@" >"{path}.typed"\n'
        f"cat <<'END'\n{text}\nEND\nexec sleep 60\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def read_until_lines(source: Source) -> Round:
    """The first round in which the program has printed something."""
    import time

    for now in play([source], FakeClock(10_000)):
        if now.readings:
            source.close()
            return now
        time.sleep(0.01)
    raise AssertionError("nothing was printed")


def test_what_dcgmi_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "#Entity   GRACT   SMACT   SMOCC   TENSO   DRAMA   PCITX\n"
        "ID\n"
        "GPU 0     0.987   0.912   0.409   0.551   0.631   891289600\n"
        "GPU 1     N/A     0.000   0.000   0.000   0.000   N/A\n"
        "GPU-I 3   0.500   0.400   0.300   0.200   0.100   0\n"
    )
    make_program(tmp_path, "dcgmi", text, monkeypatch)
    now = read_until_lines(dcgm.open_source())
    assert find(now, Entity(GPU, 0)) == pytest.approx({
        "graphics active": 98.7, "SM active": 91.2, "SM occupancy": 40.9, "tensor active": 55.1,
        "DRAM active": 63.1, "PCIe sent": 891_289_600,
    })  # fmt: skip
    assert set(find(now, Entity(GPU, 1))) == {
        "SM active", "SM occupancy", "tensor active", "DRAM active",
    }  # fmt: skip
    assert find(now, Entity(INSTANCE, None, "MIG entity 3"))["SM active"] == pytest.approx(40)


def test_what_xpu_smi_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "Timestamp, DeviceId, GPU Utilization (%), GPU Power (W), GPU Memory Used (MiB)\n"
        "06:14:46.000,    0, 99.50, 118.12,  4096.00\n"
        "06:14:46.000,    1, N/A,  31.00,  N/A\n"
    )
    make_program(tmp_path, "xpu-smi", text, monkeypatch)
    source = intel.open_source(0)
    now = read_until_lines(source)
    assert find(now, Entity(GPU, 0)) == {
        "GPU utilization": 99.5, "power": pytest.approx(118.12), "memory used": 4096 * (1 << 20),
    }  # fmt: skip
    assert find(now, Entity(GPU, 1)) == {"power": 31}
    assert [d.vendor for d in source.list_devices()] == ["intel", "intel"]


def test_xpu_smi_2_has_other_options_and_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cmd_dump.cpp of intel/xpumanager 2.0: -m and -i are gone, columns are called by fields."""
    text = (
        "Timestamp, DeviceId, utilization.gpu (%), power.draw (W), memory.used (MiB)\n"
        "06:14:46.000, 0, 99.5, 118.12, 4096\n"
    )
    helps = "--metrics,--select  --interval,--delay"
    make_program(tmp_path, "xpu-smi", text, monkeypatch, helps)
    now = read_until_lines(intel.open_source(0))
    assert find(now, Entity(GPU, 0)) == {
        "GPU utilization": 99.5, "power": pytest.approx(118.12), "memory used": 4096 * (1 << 20),
    }  # fmt: skip
    typed = (tmp_path / "xpu-smi.typed").read_text()
    assert typed == "dump -d -1 --metrics 0,1,2,3,4,8,17,18 --interval 1 --format csv\n"


def test_a_monitor_that_is_not_there_or_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoSource, match="dcgmi is not on the PATH"):
        dcgm.open_source()
    monkeypatch.undo()
    path = tmp_path / "dcgmi"
    path.write_text("#!/bin/sh\necho 'Error: unable to establish a connection'\nexit 1\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    source = dcgm.open_source()
    told: list[str] = []
    import time

    for now in play([source], FakeClock(10_000)):
        told += [event.text for event in now.events]
        if told:
            break
        time.sleep(0.01)
    source.close()
    assert told == ["dcgmi has ended: Error: unable to establish a connection"]


def test_every_source_is_listed() -> None:
    folder = Path(amd.__file__).parent
    assert {p.stem for p in folder.glob("[!_]*.py")} == set(list_sources())


@pytest.mark.parametrize("metric", [m for m in METRICS.values() if m.dcgm], ids=lambda m: m.name)
def test_what_is_exported_is_read_back_under_the_same_name(metric: object) -> None:
    from sightline.core.watched_metrics import Metric

    assert isinstance(metric, Metric)
    name, unit, scale = name_metric(f"DCGM_FI_{metric.dcgm}")
    assert (name, unit) == (metric.name, metric.unit)
    assert scale * metric.dcgm_scale == pytest.approx(1)


def test_columns_are_words_of_their_own() -> None:
    columns = [metric.column for metric in METRICS.values()]
    assert len(set(columns)) == len(columns)
    assert all(column.isidentifier() for column in columns)
