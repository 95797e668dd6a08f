"""Which way of sharing suits, worked out by hand."""

from __future__ import annotations

from sightline.mig.models import find_model
from sightline.mig.planner import plan_gpus
from sightline.mig.sharing import Advice, advise_sharing
from sightline.mig.wants import parse_want

H100 = find_model("H100-80GB")


def advise(*texts: str, gpus: int = 4, isolate: bool = False) -> Advice:
    plan = plan_gpus([(H100, gpus)], [parse_want(text) for text in texts])
    return advise_sharing(plan, H100, gpus, isolate=isolate)


def test_mig_where_it_needs_no_more_gpus() -> None:
    told = advise("1g.10gb:7")
    assert (told.manner, told.mig, told.mps) == ("MIG", 1, 1)
    assert "isolation costs nothing here" in told.why


def test_mps_where_instances_are_too_coarse() -> None:
    # 30 % of the SMs is a 3g (45 %): two a GPU; three share one by MPS, in 3 x 15.5 of 84 GB.
    told = advise("memory=15GB,sm=30%,count=6")
    assert (told.manner, told.mig, told.mps) == ("MPS", 3, 2)
    assert advise("memory=15GB,sm=30%,count=6", isolate=True).manner == "MIG"


def test_several_in_one_instance_where_each_is_tiny() -> None:
    told = advise("memory=1GB,sm=2%,count=9,name=tiny")
    assert told.manner == "MPS in MIG" and "tiny needs less than a third" in told.why


def test_time_slicing_where_only_memory_fits() -> None:
    told = advise("memory=10GB,sm=60%,count=5", gpus=1)
    assert (told.manner, told.mig, told.mps, told.time_slicing) == ("time-slicing", None, None, 1)


def test_no_way_is_said_to_serve_what_fits_nowhere() -> None:
    told = advise("memory=200GB,sm=10%", gpus=1)
    assert (told.mig, told.mps, told.time_slicing) == (None, None, None)
    assert "nothing serves all" in told.why


def test_mps_serves_48_clients_at_most() -> None:
    told = advise("memory=0.1GB,sm=1%,count=97", gpus=4)
    assert told.mps == 3
