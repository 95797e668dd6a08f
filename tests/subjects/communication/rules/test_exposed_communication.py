"""exposed-communication: transfers with no compute beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from support.rules import answers, assert_silent, assert_speaks
from support.traces import Event, collective, kernel, launched, op, opened, opened_ranks

RULE, NCCL = "exposed-communication", "ncclDevKernel_AllReduce"


def between(folder: Path, work: Event) -> Run:
    """A window of 1,000 µs: kernel, communication from 500 on, kernel, all queued."""
    end = work["ts"] + work["dur"]
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 490)),
            launched(20, work),
            launched(40, kernel("b", end, 1_010 - end)),
        ],
    )


@pytest.mark.parametrize(
    ("work", "known"), [(kernel(NCCL, 500, 400), False), (collective(500, 400), True)]
)
def test_400_of_1000_us(tmp_path: Path, work: Event, known: bool) -> None:
    found = assert_speaks(
        between(tmp_path, work),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["400.0 µs of communication on 1 GPU, 400.0 µs of it exposed"],
        fix="start communication earlier",
        severity="critical",
    )
    assert ("were not recorded" in "".join(found.evidence)) != known


def reduced(folder: Path, lengths: list[int], name: str = NCCL) -> Run:
    """One rank's all-reduces of these lengths between kernels of 10 µs, all queued."""
    work, at = [], 1_000
    for number, length in enumerate(lengths):
        pair = kernel(name, at, length), kernel("a", at + length, 10)
        work += [launched(20 * number + 10 * i, k) for i, k in enumerate(pair)]
        at += length + 10
    return opened(folder, work)


def test_one_rank_whose_like_collectives_differ_waits_for_others(tmp_path: Path) -> None:
    """Nine of 100 and eleven of 1,000 µs: at the fastest tenth's pace they take 2 of 11.9 ms."""
    (found,) = answers(reduced(tmp_path / "a", [100] * 9 + [1_000] * 11), RULE)
    assert any("would take 2.000 ms of 11.90 ms" in line for line in found.evidence)
    assert found.fix.startswith("open the recordings of all ranks together")
    # Twice as long is no sign of waiting, and kernels that send and receive are of all sizes.
    for lengths, name in (
        ([100] * 9 + [200] * 11, NCCL),
        ([100] * 9 + [1_000] * 11, "ncclSendRecv"),
    ):
        (usual,) = answers(reduced(tmp_path / name / str(lengths[-1]), lengths, name), RULE)
        assert not any("fastest" in line for line in usual.evidence)
        assert not usual.fix.startswith("open the recordings")


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(between(tmp_path / "a", kernel(NCCL, 500, 49)), RULE)
    assert_speaks(
        between(tmp_path / "b", kernel(NCCL, 500, 50)),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["50.00 µs"],
        fix="start communication earlier",
    )


def test_half_hidden(tmp_path: Path) -> None:
    """[100, 300) beside a kernel of [0, 200): 100 of 300 µs are exposed.

    Cut to nothing, it ends with its begin, and the window with the kernel.
    """
    run = opened(tmp_path, [kernel("a", 0, 200), kernel(NCCL, 100, 200, stream=9)])
    found = assert_speaks(
        run,
        RULE,
        cost_ns=100_000,
        gain_ns=100_000,
        evidence=["200.0 µs of communication on 1 GPU, 100.0 µs of it exposed"],
        fix="start communication earlier",
    )
    assert "50.0 %" in found.summary


def test_of_reductions_in_a_row_the_last_has_nothing_to_hide_behind(tmp_path: Path) -> None:
    """300 and 100 us behind a kernel: all but the last hides; of 50 MiB a bucket of 25 is last."""
    for floats, gain in ((1 << 20, 300_000), (50 << 18, 350_000)):
        run = opened(
            tmp_path / str(floats),
            [
                launched(0, kernel("a", 10, 490)),
                launched(20, collective(500, 300, floats=floats)),
                launched(30, collective(800, 100, floats=floats)),
                launched(40, kernel("b", 900, 110)),
            ],
        )
        assert_speaks(
            run,
            RULE,
            cost_ns=400_000,
            gain_ns=gain,
            evidence=["400.0 µs"],
            fix="start communication earlier",
        )


def rank(compute: int, idle: int = 0) -> list[list[Event]]:
    """Compute, then a pause, then communication until 1,010; nothing says how ranks belong."""
    at = 10 + compute + idle
    called = at - 10 if idle else 20
    return [launched(0, kernel("a", 10, compute)), launched(called, kernel(NCCL, at, 1_010 - at))]


@pytest.mark.parametrize(
    ("late", "cost", "gain", "who", "why"),
    [
        # The late rank's window shrinks from 1,000 to the 900 of its compute.
        ([rank(900)], 1_300, 100, "rank 0", "more compute runs there"),
        ([rank(900), rank(900)], 2_000, 100, "ranks 0 and 1", "more compute runs there"),
        # Or to compute and pause, which the rule leaves as they are.
        ([rank(400, 500)], 1_300, 100, "rank 0", "the host is slow there"),
        ([rank(400, 500)] * 2, 2_000, 100, "ranks 0 and 1", "the host is slow there"),
    ],
)
def test_ranks_with_less_communication_are_the_late_ones(
    tmp_path: Path, late: list[list[Event]], cost: int, gain: int, who: str, why: str
) -> None:
    """The late ones communicate for 10 % of their window, as many and one more others for 60 %."""
    others = [rank(400)] * max(2, len(late) + 1)
    run = opened_ranks(tmp_path, *late, *others)
    found = assert_speaks(
        run,
        RULE,
        cost_ns=1000 * (100 * len(late) + 600 * len(others)),
        gain_ns=1000 * gain,
        evidence=["idle: 50.0 %" if "host" in why else "compute: 90.0 %"],
        fix=f"make {who} faster first",
    )
    assert why in found.fix
    assert found.where["late_ranks"] == list(range(len(late)))
    assert "10.0 %" in found.summary


def test_waiting_is_not_counted_where_ranks_can_be_matched(tmp_path: Path) -> None:
    """Rank 1 comes 300 µs late to a collective that then takes 600: these are exposed twice.

    Hidden, the 600 would run beside the 400 of the kernel: 400 of 1,000 µs are won, not 600.
    """
    run = opened_ranks(
        tmp_path,
        [launched(0, kernel("a", 10, 100)), launched(20, collective(110, 900))],
        [launched(0, kernel("a", 10, 400)), launched(20, collective(410, 600))],
    )
    assert_speaks(
        run,
        RULE,
        cost_ns=1_200_000,
        gain_ns=400_000,
        evidence=["1.500 ms of communication on 2 GPUs, 1.200 ms of it exposed", "late ranks"],
        fix="start communication earlier",
    )


def test_a_receive_that_waits_for_its_peer_is_no_transfer_of_that_length(tmp_path: Path) -> None:
    """Of three receives, one takes 300 µs and two 50, so that data takes at most 50 µs each.

    They are [100, 400), [500, 550) and [650, 700) beside 300 µs of kernels: all 400 µs can hide,
    since 3 times 50 µs fit behind the kernels. Were each length a transfer's, only 300 could.
    """
    name = "ncclDevKernel_SendRecv"
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 90)),
            launched(10, kernel(name, 100, 300)),
            launched(20, kernel("b", 400, 100)),
            launched(30, kernel(name, 500, 50)),
            launched(40, kernel("c", 550, 100)),
            launched(50, kernel(name, 650, 50)),
            launched(60, kernel("d", 700, 10)),
        ],
    )
    assert_speaks(
        run,
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["400.0 µs of communication"],
        fix="start communication earlier",
    )


MI300X = [{"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206141652992}]


def test_transfers_far_slower_than_the_links(tmp_path: Path) -> None:
    """The faster of two all-reduces of 32 MB over 2 ranks takes 10 ms: 3.2 of 448 GB/s.

    At 80 % of the links the 30 ms of both would take 0.27 ms. Hidden, 20 + 10 ms are gone but for
    the last 25 MiB, at the links' rate: 10 ms x 3.2 / (0.8 x 448) x 26.2 / 32 MB = 73 us.
    """
    floats = 8_000_000
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 10_000)),
            launched(20, collective(10_010, 20_000, floats=floats)),
            launched(30, collective(30_010, 10_000, floats=floats)),
            launched(40, kernel("b", 40_010, 10_000)),
        ],
        deviceProperties=MI300X,
    )
    found = assert_speaks(
        run,
        RULE,
        cost_ns=30_000_000,
        gain_ns=29_926_857,
        evidence=["10.00 ms, bus bandwidth 3.2 GB/s, 0.7 % of the 448 GB/s"],
        fix="NCCL_DEBUG=INFO",
    )
    assert "slower than the links" in (found.cause or "")


def test_transfers_at_a_usual_rate_are_told_without_blame(tmp_path: Path) -> None:
    """32 MB in 0.1 ms are 320 GB/s, 71.4 % of the links."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(20, collective(110, 100, floats=8_000_000)),
            launched(40, kernel("b", 210, 100)),
        ],
        deviceProperties=MI300X,
    )
    found = assert_speaks(
        run,
        RULE,
        cost_ns=100_000,
        gain_ns=100_000,
        evidence=["bus bandwidth 320 GB/s, 71.4 % of the 448 GB/s"],
        fix="start communication earlier",
    )
    assert "slower" not in (found.cause or "")


@pytest.mark.parametrize(("stream", "shared"), [(7, True), (20, False)])
def test_communication_on_the_stream_of_the_kernels(
    tmp_path: Path, stream: int, shared: bool
) -> None:
    work = kernel(NCCL, 500, 400, stream=stream)
    (found,) = answers(between(tmp_path, work), RULE)
    assert ("100.0 % of it runs on streams that compute too" in found.evidence) == shared
    assert ("a stream of its own" in found.fix) == shared


@pytest.mark.parametrize(("length", "larger"), [(30, True), (60, False)])
def test_many_short_ones_want_to_be_fewer(tmp_path: Path, length: int, larger: bool) -> None:
    work = [launched(10 * i, kernel(NCCL, 2_000 + 100 * i, length)) for i in range(100)]
    work.append(launched(1_005, kernel("gemm", 12_000, 500)))
    (found,) = answers(opened(tmp_path, work), RULE)
    assert ("several tensors in one call" in found.fix) == larger
    assert ("start communication earlier" in found.fix) != larger


def test_peers_narrower_figure_stands_beside(tmp_path: Path) -> None:
    custom = "void vllm::cross_device_reduce_1stage<__half, 8>"
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 490)),
            launched(20, kernel(NCCL, 500, 100)),
            launched(30, kernel(custom, 600, 300)),
            launched(40, kernel("b", 900, 100)),
        ],
    )
    (found,) = answers(run, RULE)
    assert "100.0 µs of 400.0 µs were communication" in "".join(found.evidence)
    (alone,) = answers(between(tmp_path / "b", kernel(NCCL, 500, 400)), RULE)
    assert "by name alone" not in "".join(alone.evidence)


NODE = op("autograd::engine::evaluate_function: AddmmBackward0", 0, 5)


def reduced_by(folder: Path, *host_events: Event) -> Finding:
    """An exposed all-reduce over all four ranks, and what the host says of the program."""
    (found,) = answers(
        opened(
            folder,
            [
                *host_events,
                launched(10, kernel("a", 20, 480)),
                launched(20, collective(500, 400)),
                launched(30, kernel("b", 900, 110)),
            ],
        ),
        RULE,
    )
    return found


def test_advice_is_of_the_parallelism_that_there_is(tmp_path: Path) -> None:
    """A program that learns has its gradients in buckets; one that only runs forward has none."""
    learns = reduced_by(tmp_path / "a", NODE).fix or ""
    assert "DDP bucket_cap_mb" in learns
    serves = reduced_by(tmp_path / "b", op("vllm::all_reduce", 0, 5)).fix or ""
    assert "tensor parallelism" in serves
    assert not any(word in serves for word in ("DDP", "FSDP", "bucket"))
    unknown = reduced_by(tmp_path / "c").fix or ""
    assert not any(word in unknown for word in ("DDP", "FSDP", "bucket", "tensor par"))


def test_the_one_collective_that_takes_most_is_named(tmp_path: Path) -> None:
    """Five gathers of 10 µs and one of 400, which takes 40 % of the window by itself."""
    name = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage)"
    few = [launched(20 + i, kernel(name, 100 + 20 * i, 10)) for i in range(5)]
    (found,) = answers(
        opened(
            tmp_path,
            [
                op("aten::mm", 0, 5),
                launched(0, kernel("a", 10, 80)),
                *few,
                launched(50, kernel("gemm", 200, 300)),
                launched(60, kernel(name, 500, 400)),
                launched(70, kernel("b", 900, 110)),
            ],
        ),
        RULE,
    )
    assert "One all-gather takes 40.0 % of the window by itself." in found.summary
    assert any("its bytes were not recorded" in line for line in found.evidence)
    assert "do not gather the whole result" in (found.fix or "")


def test_a_collective_that_waits_for_a_gpu_of_the_recording(tmp_path: Path) -> None:
    """GPU 1 begins the long broadcast 380 of its 400 µs later: not its bytes are to blame."""
    name = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage)"
    few = [launched(20 + i, kernel(name, 100 + 20 * i, 10)) for i in range(5)]
    late = [kernel("a", 10, 80, device=1), kernel(name, 880, 20, device=1)]
    (found,) = answers(
        opened(
            tmp_path,
            [
                launched(0, kernel("a", 10, 80)),
                *few,
                launched(50, kernel("gemm", 200, 300)),
                launched(60, kernel(name, 500, 400)),
                launched(70, kernel("b", 900, 110)),
                *(launched(80 + i, work) for i, work in enumerate(late)),
            ],
        ),
        RULE,
    )
    assert any("GPU 1 begins it 380.0 µs later" in line for line in found.evidence)
    assert "the process of GPU 1" in (found.fix or "")
    assert "send less" not in (found.fix or "")
