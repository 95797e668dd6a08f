"""The causes that can be planted, in plain words, and the programs that can have each of them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for which a program is slow."""

    name: str
    words: str
    programs: tuple[str, ...]
    instead: dict[str, float] = field(default_factory=dict)  # what stays when it is removed
    vendors: tuple[str, ...] = ("nvidia", "amd")
    severity: float = 1.0
    formats: tuple[str, ...] = ()  # that can show it, where not all can


_NSYS = ("nsys", "nsys-plain")
_TRAINING = ("transformer", "resnet", "gnn", "recommender")

CAUSES = {
    cause.name: cause
    for cause in (
        Cause(
            "host-launch",
            "the host takes longer to launch each kernel than the device to run it",
            ("transformer", "gnn", "recommender", "decode_eager", "diffusion", "ddp"),
        ),
        Cause(
            "host-sync",
            "the host reads numbers of the device in mid-step, and launches nothing meanwhile",
            ("transformer", "gnn", "decode", "decode_eager", "diffusion", "stencil"),
        ),
        Cause(
            "logging-item",
            "a number is read at the end of each step, before slow logging",
            ("transformer", "recommender", "diffusion"),
            instead={"logging": 1.0},
        ),
        Cause("data-loading", "the data loader is slower than the device", _TRAINING),
        Cause(
            "pageable-copy",
            "batches are copied from pageable memory, in line with the kernels",
            ("resnet", "gnn", "recommender"),
        ),
        Cause(
            "copy-in-queue",
            "batches are copied from pinned memory, but on the stream of the kernels",
            ("resnet", "recommender"),
        ),
        Cause(
            "allocation",
            "device memory is taken and given back in each step",
            ("transformer", "gnn", "decode_eager", "diffusion"),
        ),
        Cause(
            "unfused-optimizer",
            "the optimizer launches five small kernels for each tensor",
            ("transformer", "resnet", "recommender"),
            severity=3.0,
        ),
        Cause(
            "module-loading",
            "kernels are loaded when they are first launched, in the recording",
            ("transformer", "resnet", "decode_eager", "diffusion"),
        ),
        Cause(
            "recompile",
            "a compiler runs in the steady state, since shapes change",
            ("transformer", "decode", "diffusion"),
            severity=2.0,
        ),
        Cause(
            "exposed-communication",
            "gradients or weights are exchanged while nothing computes",
            ("ddp", "fsdp"),
        ),
        Cause(
            "slow-link",
            "the link between the ranks is slow, so that communication does not fit behind compute",
            ("ddp", "fsdp"),
            severity=0.5,
        ),
        Cause(
            "small-messages",
            "gradients are exchanged tensor by tensor, each message at its latency",
            ("ddp",),
            severity=0.5,
        ),
        Cause(
            "slow-stage-link",
            "one of the links between the stages of a pipeline is ten times slower",
            ("stages",),
            formats=("kineto-new",),  # that says which messages are the same on both sides
        ),
        Cause(
            "micro-step-reduce",
            "gradients are averaged in each micro-step, and not once for all of them",
            ("accumulation",),
            formats=("kineto-new",),  # that says how much is reduced
        ),
        Cause(
            "crowded-compute",
            "kernels beside communication take half as long again",
            ("ddp_narrow",),
        ),
        Cause(
            "loss-loop",
            "the loss is computed in a loop of small operators, one for each of its terms",
            ("transformer", "recommender"),
        ),
        Cause("late-rank-data", "one rank's data loader is slow; all wait for it", ("ddp", "fsdp")),
        Cause("slow-rank-clock", "one rank's device is slow; all wait for it", ("ddp", "fsdp")),
        Cause("pipeline-bubble", "too few micro-batches fill the pipeline", ("pipeline",)),
        Cause(
            "false-serialisation",
            "a stream waits for an event of another that it does not need",
            ("branches",),
        ),
        Cause("checkpoint", "the program stops to write a checkpoint", ("transformer", "resnet")),
        Cause("mpi-wait", "halos are exchanged while the device has nothing to do", ("stencil",)),
        Cause("late-rank-host", "one rank's host is late to each exchange", ("stencil",)),
        Cause("host-io", "the host writes files while the device waits", ("stencil",)),
        Cause(
            "layout-conversion",
            "tensors change their layout around each convolution",
            ("resnet", "diffusion"),
        ),
        Cause(
            "no-tensor-cores",
            "products run in single precision, without tensor cores",
            ("transformer", "decode_eager", "resnet"),
            vendors=("nvidia",),
        ),
        Cause(
            "clock-throttle",
            "the device's clock drops in mid-run",
            ("transformer", "diffusion", "decode_eager", "stencil"),
        ),
        Cause("few-blocks", "one block of one warp does what fills the device", ("scans",)),
        Cause("graph-capture", "a graph is captured anew in each step", ("decode",)),
        Cause(
            "periodic-stall",
            "every few steps the host computes something for long, as a garbage collection",
            ("transformer", "recommender", "decode"),
        ),
        Cause("few-requests", "a server's device waits for requests", ("server",), formats=_NSYS),
        Cause(
            "wrong-device",
            "two processes share a device, another has none",
            ("replicas",),
            formats=_NSYS,
        ),
    )
}

MIXTURES: tuple[tuple[str, str, str], ...] = (
    # Pairs whose gains add up: neither cause waits behind the other.
    ("transformer", "host-sync", "unfused-optimizer"),
    ("transformer", "allocation", "checkpoint"),
    ("transformer", "checkpoint", "unfused-optimizer"),
    ("resnet", "pageable-copy", "layout-conversion"),
    ("resnet", "checkpoint", "layout-conversion"),
    ("recommender", "copy-in-queue", "unfused-optimizer"),
    ("gnn", "allocation", "pageable-copy"),
    ("diffusion", "allocation", "layout-conversion"),
    ("diffusion", "host-sync", "clock-throttle"),
    ("ddp", "exposed-communication", "late-rank-data"),
    ("decode", "graph-capture", "recompile"),
    ("stencil", "host-sync", "host-io"),
)
