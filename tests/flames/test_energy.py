"""A flame graph of joules: all that was measured is in it, below what launched the kernels."""

from __future__ import annotations

import pytest

import sightline
from sightline.errors import RequestError
from sightline.flames.build import build_stacks, choose_weight
from support.command import sightline as command
from support.histories import EPOCH, SECOND, Phase, rest, train, write_history
from support.watched_traces import write_trace


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three steps of a minute at 500 W in a history that idles before and after."""
    folder = tmp_path_factory.mktemp("flame")
    quiet, work = {0: rest(75.0)}, {0: train(500.0)}
    phases = [Phase(600, quiet), Phase(180, work), Phase(600, quiet)]
    history = write_history(folder / "h", phases, period_s=5)
    trace = write_trace(folder / "trace.json", EPOCH + 600 * SECOND)
    return [str(trace), str(history)]


def test_all_joules_are_in_it(paths: list[str]) -> None:
    run = sightline.open(*paths)
    stacks = build_stacks(run)
    weight = choose_weight(stacks, "energy_j")
    assert weight == "energy_uj"
    (whole,) = run.ask("energy").filter(part="while measured").get_column("energy_j")
    assert stacks.total(weight) / 1e6 == pytest.approx(whole, rel=0.05)
    kernels = run.ask("energy_of_kernels").get_column("energy_j").sum()
    assert stacks.total(weight) / 1e6 == pytest.approx(kernels, abs=1e-3)


def test_kernels_lie_below_the_ranges_that_launched_them(paths: list[str]) -> None:
    done = command("flame", *paths, "--weight", "energy_j")
    assert done.code == 0, done.err
    lines = dict(line.rsplit(" ", 1) for line in done.out.splitlines())
    kernels = {path: float(value) for path, value in lines.items() if "gemm" in path}
    assert [path.split(";")[2] for path in kernels] == [f"ProfilerStep#{n}" for n in range(3)]
    assert all("forward;cudaLaunchKernel" in path for path in kernels)
    assert sum(kernels.values()) / 1e6 == pytest.approx(180 * 500, rel=0.1)
    (rest_of_it,) = [path for path in lines if "[nothing ran]" in path]
    assert float(lines[rest_of_it]) > 0


def test_without_a_meter_there_is_no_such_weight(paths: list[str]) -> None:
    stacks = build_stacks(sightline.open(paths[0]))
    with pytest.raises(RequestError, match="energy_uj"):
        choose_weight(stacks, "energy_j")
