"""What names a gap: by overlap with it, and not what happened to be open or had ended."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import answers
from support.traces import Event, call, host, kernel, launched, op, opened


def gap(folder: Path, *inside: Event) -> Run:
    """Idle in [110, 1110), for a kernel that was there before."""
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 100)),
            *inside,
            launched(1_100, kernel("a", 1_110, 100)),
            launched(1_110, kernel("a", 1_210, 100)),
            launched(1_120, kernel("a", 1_310, 100)),
        ],
    )


def name_of(run: Run) -> str | None:
    names = run.ask("idle_rules").sort("duration_ns", descending=True).get_column("host_op")
    name: str | None = names.item(0)
    return name


def test_what_is_open_in_the_middle_for_a_moment_is_not_it(tmp_path: Path) -> None:
    run = gap(tmp_path, call("cuKernelSetAttribute", 600, 10))
    assert name_of(run) is None
    (found,) = answers(run, "host-late")
    assert not any("mostly in" in line for line in found.evidence)


def test_what_is_around_that_moment_is(tmp_path: Path) -> None:
    run = gap(
        tmp_path,
        host("user_annotation", "everything", 0, 2_000),
        host("user_annotation", "load_shard", 150, 900),
        call("cuKernelSetAttribute", 600, 10),
    )
    assert name_of(run) == "load_shard"


def test_calls_of_one_name_in_sum(tmp_path: Path) -> None:
    """Twelve reads of 60 µs take 720 of 1,000."""
    reads = [host("user_annotation", "read", 130 + 80 * i, 60) for i in range(12)]
    assert name_of(gap(tmp_path, *reads)) == "read"


def test_a_load_that_ended_before_the_gap_is_not_what_held_it(tmp_path: Path) -> None:
    """One module is loaded before kernel a, and one, for 300 µs, in the gap."""
    run = opened(
        tmp_path,
        [
            call("hipModuleLoad", 0, 50),
            launched(100, kernel("a", 110, 100)),
            call("cuLibraryLoadData", 300, 300),
            call("cuLibraryLoadData", 950, 20),
            launched(1_000, kernel("a", 1_010, 100)),
            launched(1_010, kernel("a", 1_110, 100)),
        ],
    )
    parts = run.ask("idle_rules").filter(cause="code_loading")
    assert parts.select("host_op", "duration_ns").rows() == [("cuLibraryLoadData", 320_000)]
    longest = run.table("host_ops").filter(host_op_id=parts.item(0, "host_op_id"))
    assert (longest.item(0, "end_ns") - longest.item(0, "start_ns")) == 300_000


def test_ranges_that_differ_by_a_number_are_one_place(tmp_path: Path) -> None:
    """No range alone takes most of the time: those of one name but for its number do."""
    events = [launched(0, kernel("a", 10, 100))]
    for i in range(4):
        late = 1_000 * (i + 1)
        events.append([host("user_annotation", f"h2d_layer_{i}", late - 880, 870)])
        events += [launched(late + 9 * n, kernel("a", late + 10 + 11 * n, 10)) for n in range(8)]
    run = opened(tmp_path, events)
    (found,) = answers(run, "host-late")
    assert found.title == "The host is in h2d_layer_# between launches"
    assert "h2d_layer_#" in (found.fix or "")


def test_the_operator_around_a_call_is_named(tmp_path: Path) -> None:
    """Nine waits of the host in one operator, while what was launched has not begun."""
    events: list[Event | list[Event]] = [launched(0, kernel("a", 10, 100))]
    for i in range(9):
        at = 200 + 1_000 * i
        events += [
            op("aten::_coalesce", at, 980),
            launched(at + 5, kernel("sort", at + 950, 20)),
            call("cudaStreamSynchronize", at + 15, 960),
        ]
    found = next(f for f in opened(tmp_path, events).findings() if f.rule == "gpu-idle")
    assert found.title == "GPU idle: not started, in aten::_coalesce"
    assert "coalesce the sparse tensor once" in (found.fix or "")
    assert "driver lock" not in (found.fix or "")
