"""The terminal: what stands on the screen at 80 x 24 and 200 x 60, its keys and its mouse."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from record.monitor.machine import FakeClock, play
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.readings import Device, Source
from sightline.record.monitor.sources import host
from sightline.record.monitor.sources.nvml import open_source
from sightline.record.monitor.top.app import Details, TopApp
from sightline.record.monitor.top.owners import Owners
from sightline.record.monitor.top.screen import DRAWN, draw_screen
from support import fake_nvml as fake
from support.campaigns import sample
from support.own_loop import run_alone

Act = Callable[[TopApp, Any], Coroutine[Any, Any, None]]


def make_machine() -> fake.Scenario:
    """One GPU at work, one busy by nvidia-smi alone, one that is lost, one in two instances."""
    machine = fake.Scenario(fake.make_eight().devices[:4])
    machine.devices[0].processes.append(fake.Process(os.getpid(), 60 << 30, sm=93))
    machine.devices[1].values |= {f"Gpm/{n}": 1.0 for n in range(2, 14)}
    machine.devices[2].lose(2)
    fake.make_instance(machine.devices[3], 5, 3, 71_680)
    return machine


@pytest.fixture
def latest(nvml_library: Path, tmp_path: Path) -> Latest:
    with fake.use_scenario(make_machine(), nvml_library, tmp_path) as clock:
        nvml = open_source()
        found = Latest({d.device_id: d for d in nvml.list_devices()}, frozenset(DRAWN))
        for now in play([nvml, host.open_source()], FakeClock(5, clock.set)):
            found.put(now)
        return found


def test_the_screen_at_80_columns(latest: Latest) -> None:
    lines = [line.plain for line in draw_screen(latest, Owners(), 80)]
    assert max(map(len, lines)) <= 80
    assert "4 × NVIDIA H200 · driver 575.57.08" in lines[0]
    assert " ".join(lines[1].split()) == "GPU smi SM pipe DRAM memory power temp SM clock"
    assert lines[2].startswith(
        "  0  100 %   92 %   56 %   63 %   64/151 GB  600/700 W  55 C  1965 MHz"
    )
    assert lines[2].endswith("████")  # four rounds had a true use, the first had none
    assert lines[3] == (
        "    Limited by memory bandwidth: SM active 92 %, tensor pipe 56 %, DRAM 63 %."
    )
    assert lines[5] == "    Busy by nvidia-smi, idle in fact: SM active 1 %, a few SMs at a time."
    assert lines[6].split()[:9] == ["2", *"—" * 8]
    assert lines[7] == "    It does not answer: GPU is lost (XID 79)."
    assert any("MIG 5 (3g.70gb): SM 46 %" in line for line in lines)
    assert any(line.startswith("host  ") for line in lines)
    mine = next(line.split() for line in lines if f" {os.getpid()} " in line)
    assert mine[2:6] == ["64.42", "GB", "93", "%"] and mine[6] != "—" != mine[7]
    assert any("GPU 2: XID 79: GPU has fallen off the bus" in line for line in lines)


def test_a_device_that_comes_while_the_screen_is_drawn(latest: Latest) -> None:
    class Comes:
        def list_devices(self) -> list[Device]:
            return [Device(9, "intel", "Intel GPU")]

    seen = iter(latest.devices.values())  # as the heading reads them, on another thread
    first = next(seen)
    latest.note_devices([cast("Source", Comes())])
    assert [first, *seen] == [latest.devices[n] for n in range(4)]
    assert list(latest.devices) == [0, 1, 2, 3, 9]


def test_a_wide_screen_has_links_and_longer_histories(latest: Latest) -> None:
    lines = [line.plain for line in draw_screen(latest, Owners(), 200)]
    assert "occup." in lines[1] and "NVLink GB/s" in lines[1] and "SM, each round" in lines[1]
    assert "46.1/47.2" in lines[2]


def run_app(act: Act, size: tuple[int, int], clock: fake.Clock) -> None:
    async def let_time_pass() -> None:
        while True:
            clock.move(0.05)
            await asyncio.sleep(0.05)

    async def run() -> None:
        passing = asyncio.create_task(let_time_pass())
        sources = [open_source(), host.open_source()]
        found = Latest({d.device_id: d for d in sources[0].list_devices()}, frozenset(DRAWN))
        app = TopApp(sources, found, Owners(), 0.2)
        async with app.run_test(size=size) as pilot:
            await pilot.pause(0.8)
            await act(app, pilot)
        passing.cancel()
        for source in sources:
            source.close()

    run_alone(run)


def read_screen(app: TopApp) -> str:
    return "\n".join(
        "".join(segment.text for segment in line) for line in app.screen._compositor.render_strips()
    )


@pytest.mark.timing
@pytest.mark.parametrize("size", sample([(80, 24), (200, 60)], 2))
def test_keys_and_mouse(nvml_library: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    async def act(app: TopApp, pilot: Any) -> None:
        text = read_screen(app)
        assert "Busy by nvidia-smi, idle in fact" in text and "host  " in text
        assert all(len(line) <= size[0] for line in text.splitlines())
        await pilot.press("down", "down")
        assert app._selected == 1
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert isinstance(app.screen, Details)
        assert "GPU 1  NVIDIA H200" in read_screen(app)
        await pilot.press("escape")
        await pilot.click("#list", offset=(5, 0))
        assert app._selected == 0
        await pilot.press("space")
        assert app._is_paused
        await pilot.press("space", "s", "l")
        await pilot.pause(0.3)
        assert [note.title for note in app._notifications] == ["Columns"]
        await pilot.press("q")

    with fake.use_scenario(make_machine(), nvml_library, tmp_path) as clock:
        run_app(act, size, clock)


def test_once_and_json_from_the_command(nvml_library: Path, tmp_path: Path) -> None:
    import sys

    words = [sys.executable, "-m", "sightline", "top"]
    once = fake.run_with(make_machine(), nvml_library, [*words, "--once", "--period", "0.2s"],
                         tmp_path, COLUMNS="80")  # fmt: skip
    assert once.returncode == 0 and "idle in fact" in once.stdout, once.stderr
    data = fake.run_with(make_machine(), nvml_library, [*words, "--json", "--period", "0.2s"],
                         tmp_path)  # fmt: skip
    told = json.loads(data.stdout)
    assert told["gpus"][0]["values"]["sm_active_pct"] == pytest.approx(92.5, abs=0.1)
    assert told["gpus"][1]["grade"] == "bad"
    assert told["gpus"][0]["processes"][0]["pid"] == os.getpid()
