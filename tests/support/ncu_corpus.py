"""Real reports of Nsight Compute of which several tests have check figures, by short names."""

from __future__ import annotations

import sightline
from support.corpus import CORPUS

_SAMPLES = "ncu/NVIDIA__nsight-training/cuda/nsight_compute/sample_reports"
REPORTS = {
    "CuVectorAddDrv": f"{_SAMPLES}/CuVectorAddDrv.ncu-rep",
    "cutlassTiles": "ncu/EleutherAI__cookbook/sizing/profiles/cutlassTiles.ncu-rep",
    "esmm": "ncu/AveryClapp__ESMM-Research/profile.ncu-rep",
    "esmm_output": "ncu/AveryClapp__ESMM-Research/profile_output.ncu-rep",
    "heat_sim": "ncu/bautista-garcia__heat_sim/profile.ncu-rep",
    "manual_nvtx": f"{_SAMPLES}/manual_nvtx.ncu-rep",
    "monte_carlo": "ncu/iamcoleman__monte-carlo-pi/profile.ncu-rep",
    "nukexc": "ncu/bobschreiner__NuKEXC/profile.ncu-rep",
    "prof1": "ncu/bwd29__self-join-MiSTIC/prof1.ncu-rep",
}


def open_report(name: str) -> sightline.Run:
    """The report of this short name; the test that asks carries the marker `corpus`."""
    return sightline.open(str(CORPUS / REPORTS[name]))
