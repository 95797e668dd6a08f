"""A grid on several ranks without a framework: halos through the host while the inside computes."""

from __future__ import annotations

from worlds.calls import Meet
from worlds.dice import Dice
from worlds.kernels import Kernel, make_work
from worlds.world import COMPUTE, COPIES, Script, World

STEPS = 60
WARM_UP = 3
INSIDE_NS = 2_300_000
HALO_BYTES = 2_000_000


def advance_grid(world: World) -> None:
    """Each step: pack, copy out, exchange, copy in, while the inside is computed; then the edge."""
    world.ranks = 4
    world.operators = False
    for rank in range(world.ranks):
        world.clocks[rank] = [(0, 1.0), (60_000_000, 1.005)]
        if world.severity("clock-throttle"):
            world.clocks[rank].append((90_000_000, 1.0 + 0.4 * world.severity("clock-throttle")))
        main = world.script(rank, "cloverleaf", 100 + rank)
        for step in range(WARM_UP + STEPS):
            if step == WARM_UP:
                main.meet(("begin",), 20_000)
                main.start()
            advance(main, step)
        main.sync_device()


def launch(main: Script, kind: str, ns: float, stream: int) -> None:
    """A kernel, with the little host work of a native program."""
    main.spend(900)
    main.launch([make_work(Kernel(kind, ns, 0.9), main.dice, "nvidia")], stream)


def advance(main: Script, step: int) -> None:
    """One time step."""
    world = main.world
    main.section("step", step)
    blocking = bool(world.severity("mpi-wait"))
    with main.range("annotation", "timestep"):
        if world.severity("host-io") and step % 10 == 7:
            with main.luck("io", step), main.range("annotation", "write_visit"):
                main.copy("D2H", 3_000_000, blocks=True)
                for _ in range(6):
                    with main.range("os", "write"):
                        main.spend(0.9 * INSIDE_NS * world.severity("host-io"))
        launch(main, "pack", 60_000, COMPUTE)
        main.record(("packed", step), COMPUTE)
        main.wait(("packed", step), COPIES)
        if not blocking:
            launch(main, "stencil", INSIDE_NS, COMPUTE)
            launch(main, "flux", 0.4 * INSIDE_NS, COMPUTE)
        exchange(main, step)
        if blocking:
            launch(main, "stencil", INSIDE_NS, COMPUTE)
            launch(main, "flux", 0.4 * INSIDE_NS, COMPUTE)
        launch(main, "unpack", 45_000, COMPUTE)
        launch(main, "flux", 160_000, COMPUTE)
        for _ in range(6):
            # Residuals: read at once where that is planted, left on the device else.
            launch(main, "dt", 12_000, COMPUTE)
            main.spend(90_000 * max(1.0, world.severity("host-sync")))
            if world.severity("host-sync"):
                main.copy("D2H", 8, blocks=True)
                main.spend(60_000)


def exchange(main: Script, step: int) -> None:
    """Halos to the host, to the neighbours, and back to the device."""
    world = main.world
    main.copy("D2H", HALO_BYTES, COPIES)
    main.record(("out", step), COPIES)
    main.wait_host(("out", step))
    late = world.severity("late-rank-host") and main.rank == world.seed % world.ranks
    if late:
        with main.luck("late", step):
            main.spend(1.8 * INSIDE_NS * world.severity("late-rank-host"))
    ns = 250_000 * (1.0 + 4.0 * world.severity("mpi-wait"))
    length = Dice(world.seed, "halo", step).spread(ns, 0.15)
    with main.range("mpi", "MPI_Irecv"):
        main.spend(4_000)
    with main.range("mpi", "MPI_Isend"):
        main.spend(7_000)
    with main.range("mpi", "MPI_Waitall"):
        main.steps.append(Meet(("halo", step), world.ranks, length))
    main.copy("H2D", HALO_BYTES, COPIES)
    main.record(("in", step), COPIES)
    main.wait(("in", step), COMPUTE)
    if step % 10 == 9:
        with main.range("mpi", "MPI_Allreduce"):
            main.meet(("dt", step), 30_000)
