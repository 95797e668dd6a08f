"""A native program on one device: products by a library, and a scan of its own after them."""

from __future__ import annotations

from worlds.kernels import Kernel, make_work
from worlds.world import COMPUTE, World

STEPS = 40
PRODUCTS = (("gemm", 55_000), ("gemm_wide", 48_000), ("gemm", 30_000))
SCAN_NS = 12_000  # with blocks for the whole device


def scan_after_products(world: World) -> None:
    """Planted, one block of one warp scans: it takes a hundred times as long."""
    world.operators = False
    main = world.script(0, "scan", 100)
    main.start()
    serial = world.severity("few-blocks")
    scan = (
        Kernel("serial", SCAN_NS * 112 * serial, 0.01, blocks=1)
        if serial
        else Kernel("scan", SCAN_NS)
    )
    for step in range(STEPS):
        main.section("step", step)
        for kind, ns in PRODUCTS:
            main.spend(900)
            main.launch([make_work(Kernel(kind, ns), main.dice, world.vendor)], COMPUTE)
        main.spend(900)
        main.launch([make_work(scan, main.dice, world.vendor)], COMPUTE)
    main.sync_device()
