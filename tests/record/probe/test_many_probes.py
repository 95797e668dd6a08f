"""perf_event probes of hundreds of functions on hundreds of processors: placed and gone in time."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from record.probe.programs import Probe, Target, compile_c, needs, wait_until
from sightline.record.probe import perf, trace_events
from sightline.record.probe import perf_event as e
from sightline.record.probe.functions import list_functions
from sightline.record.probe.perf import Samples
from sightline.record.probe.targets import Library, Site, Targets

_FUNCTIONS, _PROCESSORS = 262, 224


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with as many functions of GPU libraries as an H100's node showed of PyTorch's."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("many")
    names = sorted(n for n in list_functions() if n.startswith("cu"))[:_FUNCTIONS]
    calls = "".join(f"{name}();" for name in names)
    functions = "".join(
        f"__attribute__((noinline)) int {name}(void)"
        ' { __asm__ volatile("" ::: "memory", "rbx"); return 0; }\n'
        for name in names
    )
    (folder / "many.c").write_text(
        f'#include <stdio.h>\n{functions}int main(void) {{ char l[9]; puts("1"); fflush(stdout);'
        f' while (fgets(l, 9, stdin)) {{ {calls} puts("1"); fflush(stdout); }} }}\n'
    )
    compile_c(folder / "many", folder / "many.c", "-O1", "-fno-ipa-pure-const")
    return folder / "many"


def list_sites(library: Library) -> list[tuple[Site, int]]:
    """Each function with a number of its own."""
    return [(site, number) for number, site in enumerate(library.sites) if site.refused is None]


def place_all(samples: Samples, target: Target) -> list[tuple[Site, int]]:
    """Probe all functions of the program."""
    (library,) = Targets().find(target.pid)
    sites = list_sites(library)
    for site, number in sites:
        samples.tell_function(number, site.function)
    assert samples.attach(library.opened, sites, target.pid) == []
    assert len(sites) > 200
    return sites


def test_all_functions_on_a_large_machine_end_in_time(
    caller: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were 117,376 events, which the kernel removes one after the other, 0.09 s each."""
    needs("perf")
    many = (e.list_processors() * _PROCESSORS)[:_PROCESSORS]
    monkeypatch.setattr(perf.e, "list_processors", lambda: many)
    with Target(caller) as target:
        samples = Samples()
        try:
            began = time.monotonic()
            place_all(samples, target)
            assert len(samples._events) <= 2 * 2 * _PROCESSORS
            samples.detach()
            assert time.monotonic() - began < 5
        finally:
            samples.close()


def test_each_of_many_functions_is_told_by_its_address(caller: Path) -> None:
    needs("perf")
    with Target(caller) as target:
        samples = Samples()
        try:
            sites = place_all(samples, target)
            target.do("x")
            target.do("x")
            numbers = samples.read_calls()["function"].tolist()
            assert not samples.read_misses()
        finally:
            samples.close()
    wanted = sorted(n for site, n in sites if site.function.kind != "name")
    assert sorted(numbers) == sorted(2 * wanted)


def test_a_place_that_is_refused_does_not_take_the_others_with_it(target: Target) -> None:
    needs("perf")
    from dataclasses import replace

    samples = Samples()
    try:
        (library,) = [x for x in Targets().find(target.pid) if x.path.endswith("libcudart.so.13")]
        sites = list_sites(library)
        bad = replace(sites[0][0], offset=1 << 40)
        for site, number in sites:
            samples.tell_function(number, site.function)
        refused = samples.attach(library.opened, [*sites[:3], (bad, 99), *sites[3:]], target.pid)
        assert [site for site, _ in refused] == [bad]
        target.do("c10")
        assert len(samples.read_calls()) == 10
    finally:
        samples.close()
    folder = trace_events.find_tracefs()
    assert folder is not None and f"_{os.getpid()}/" not in (folder / "uprobe_events").read_text()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_probe_that_was_ended(
    end: signal.Signals, target: Target, tmp_path: Path
) -> None:
    """What a killed one left with the kernel goes with the next one."""
    needs("perf")
    folder = trace_events.find_tracefs()
    assert folder is not None
    options = ("--pid", str(target.pid), "-o", tmp_path / "x", "--backend", "perf", "--no-report")
    probe = Probe(*options)
    mine = f"_{probe.process.pid}/"
    assert mine in (folder / "uprobe_events").read_text()
    probe.process.send_signal(end)
    probe.process.wait(10)
    probe.process.communicate()
    if end == signal.SIGKILL:
        assert mine in (folder / "uprobe_events").read_text()

    def is_clean() -> bool:
        if end == signal.SIGKILL:  # the kernel lets go of a dead process' events a little later
            trace_events.remove_stale(folder)
        return mine not in (folder / "uprobe_events").read_text()

    wait_until(is_clean)
