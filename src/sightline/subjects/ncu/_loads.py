"""What a warp's global loads ask of the L1: metrics of how wide they are."""

from __future__ import annotations

_OF_LOADS = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
REQUESTS, SECTORS = _OF_LOADS.format("requests"), _OF_LOADS.format("sectors")
USED_BYTES = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"  # of 32
WHOLE_SECTOR = 28  # of them are used: nearly all (ours)
