"""rocminfo: the GPUs among a machine's agents, in its words since ROCm 1.8 and today's."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError

GPU = """\
*******
Agent {number}
*******
  Name:                    gfx1201
  Uuid:                    GPU-00a1
  Marketing Name:          {name}
  Vendor Name:             AMD
  Device Type:             GPU
  Cache Info:
    L1:                      32(0x20) KB
    L2:                      8192(0x2000) KB
  Max Clock Freq. (MHz):   2350
  Compute Unit:            64
  Wavefront Size:          32(0x20)
  Max Work-item Per CU:    1024(0x400)
  Packet Processor uCode:: 108
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    31309824(0x1ddc000) KB
    Pool 2
      Segment:                 GLOBAL; FLAGS: FINE GRAINED
      Size:                    31309824(0x1ddc000) KB
    Pool 3
      Segment:                 GROUP
      Size:                    64(0x40) KB
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx1201
"""
HEAD = """\
ROCk module version 6.16.6 is loaded
=====================
HSA System Attributes
=====================
Runtime Version:         1.18

==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD EPYC 9534 64-Core Processor
  Device Type:             CPU
  Compute Unit:            128
"""
# rocminfo fills its lines with blanks.
TEXT = "".join(
    f"{line:<60}\n"
    for line in [
        *(HEAD + GPU.format(number=2, name="AMD Radeon AI PRO R9700")).splitlines(),
        "*** Done ***",
    ]
)


def opened(folder: Path, text: str):
    path = folder / "rocminfo.txt"
    path.write_text(text)
    return sightline.open(str(path))


def test_the_gpus_among_the_agents(tmp_path: Path) -> None:
    run = opened(tmp_path, TEXT)
    (gpu,) = run.table("devices").to_dicts()
    assert (gpu["device_id"], gpu["vendor"], gpu["name"]) == (0, "amd", "AMD Radeon AI PRO R9700")
    assert (gpu["sm_count"], gpu["warp_size"], gpu["max_threads_per_sm"]) == (64, 32, 1024)
    assert (gpu["max_clock_hz"], gpu["l2_bytes"]) == (2_350_000_000, 8 << 20)
    assert gpu["memory_bytes"] == 31_309_824 * 1024
    assert gpu["uuid"] is None
    assert "cut_off" not in run.table("quality").get_column("kind").to_list()


def test_in_the_middle_of_a_log_and_cut_off(tmp_path: Path) -> None:
    """Of a GPU without a product's name its architecture stands; what is missing is said."""
    second = GPU.format(number=3, name=" ")
    run = opened(tmp_path, "$ rocminfo\n" + TEXT.replace("*** Done ***", "") + second)
    names = run.table("devices").get_column("name").to_list()
    assert names == ["AMD Radeon AI PRO R9700", "gfx1201"]
    assert "cut_off" in run.table("quality").get_column("kind").to_list()


def test_a_machine_whose_gpu_is_not_there(tmp_path: Path) -> None:
    failed = "hsa api call failure at: rocminfo.cc:1102\n" + HEAD + "*** Done ***\n"
    with pytest.raises(DamagedError, match="1 agent, and none is a GPU: hsa api call failure"):
        opened(tmp_path, failed)
