"""memory_hierarchy: what each level of memory moves, and how well."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.profiled import profiled

METRICS = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 320.0,
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 10.0,
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 30.0,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 40.0,
    "memory_l2_theoretical_sectors_global": 100.0,
    "memory_l2_theoretical_sectors_global_ideal": 60.0,
    "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum": 75.0,
    "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum": 25.0,
}


@pytest.mark.parametrize(
    ("level", "quantity", "value"),
    [
        ("l1", "sectors per request, global loads", 32.0),
        ("shared", "bank conflicts, loads", 75.0),
        ("l2", "sectors beyond the ideal, global accesses", 40.0),
        ("l2", "misses that go to sysmem", 75.0),
        ("l2", "misses that go to device", 25.0),
    ],
)
def test_quotients(tmp_path: Path, level: str, quantity: str, value: float) -> None:
    answer = profiled(tmp_path, METRICS).ask("memory_hierarchy")
    assert answer.filter(level=level, quantity=quantity).get_column("value").to_list() == [value]
