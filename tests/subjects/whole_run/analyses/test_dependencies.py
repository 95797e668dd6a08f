"""dependencies: what each call and each operation waited for, and for how long."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.ask import rows
from support.traces import call, kernel, launched, opened


def edges(run: Run) -> list[dict[str, tuple[int, int]]]:
    """Of each node the edges that it has: the node at the other end, and the lag in ns."""
    return [
        {e: (row[e], row[f"{e}_lag_ns"]) for e in ("prev", "launch", "wait") if row[e] is not None}
        for row in run.ask("dependencies").to_dicts()
    ]


def test_stream_launch_and_wait(tmp_path: Path) -> None:
    """Kernel b follows kernel a on its stream after 1 µs; the host waits for it from 30 on, and
    its call returns 5 µs after b has ended. With nothing to wait for it would take 3 µs.
    """
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(20, kernel("b", 111, 89)),
            call("cudaDeviceSynchronize", 30, 175),
        ],
    )
    assert rows(run, "dependencies", "kind", "start_ns", "end_ns", "residual_ns") == [
        ("call", 0, 5_000, 0),
        ("kernel", 10_000, 110_000, 0),
        ("call", 20_000, 25_000, 0),
        ("call", 30_000, 30_000, 0),
        ("kernel", 111_000, 200_000, 0),
        ("finish", 205_000, 205_000, 0),
    ]
    assert edges(run) == [
        {},
        {"launch": (0, 10_000)},
        {"prev": (0, 15_000)},
        {"prev": (2, 5_000)},
        {"prev": (1, 1_000), "launch": (2, 10_000)},
        {"prev": (3, 3_000), "wait": (4, 5_000)},
    ]


def test_an_event_of_another_stream(tmp_path: Path) -> None:
    """Kernel b was told to wait; it starts 2 µs after kernel a has ended on stream 7."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            call("cudaStreamWaitEvent", 10, 2),
            launched(20, kernel("b", 112, 50, stream=8)),
        ],
    )
    assert rows(run, "dependencies", "name", "residual_ns")[-1] == ("b", 0)
    assert edges(run)[-1]["wait"] == (1, 2_000)


def test_an_event_does_not_reach_into_another_process(tmp_path: Path) -> None:
    """Kernel b was told to wait; a, of another process on another GPU, ended just before."""
    other = {**kernel("a", 10, 100, 900, device=1)}
    foreign = {**call("cudaLaunchKernel", 0, 5, 900), "pid": 300, "tid": 301}
    run = opened(
        tmp_path,
        [
            foreign,
            other,
            launched(0, kernel("own", 10, 60)),
            call("cudaStreamWaitEvent", 10, 2),
            launched(20, kernel("b", 112, 50, stream=8)),
        ],
    )
    nodes = run.ask("dependencies")
    (b,) = nodes.filter(name="b").to_dicts()
    assert nodes.item(b["wait"], "name") == "own"


def test_an_event_is_of_work_that_was_launched_before_the_wait(tmp_path: Path) -> None:
    """y is told to wait, and is late because of x; of the other stream, b ended last before it.

    But b was launched at 40, y at 25: what y was told to wait for is a.
    """
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(8, kernel("x", 20, 240, stream=20)),
            call("cudaStreamWaitEvent", 18, 2),
            launched(25, kernel("y", 261, 50, stream=20)),
            launched(40, kernel("b", 111, 139)),
        ],
    )
    nodes = run.ask("dependencies")
    (wait,) = nodes.filter(name="y").get_column("wait").to_list()
    assert nodes.filter(node=wait).get_column("name").to_list() == ["a"]
