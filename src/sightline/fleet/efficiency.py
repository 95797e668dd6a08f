"""How much of a job's devices is used, as a product of factors that each say what is lost.

POP's hierarchy (pop-coe.eu, POP Standard Metrics), where useful is what the devices compute:
parallel efficiency = load balance × serialisation × transfer. Load balance is the mean over the
most of useful time; transfer is the job's length on an ideal network (all collectives take no time
once all ranks are there, by replay) over its length; serialisation is the most useful time over
that ideal length.

TALP's hierarchy of devices (Lopez et al., arXiv 2603.26576): useful is time in kernels, those of
communication too; parallel efficiency = load balance × communication × orchestration, with
communication = most useful / most active, and orchestration = most active / length.
"""

from __future__ import annotations

from dataclasses import dataclass

from sightline.fleet.job import NETWORK, Job, Scenario, replay_job


@dataclass(frozen=True)
class Efficiency:
    """Ratios from 0 to 1 of one job; `useful_ns` is summed over its ranks."""

    ranks: int
    length_ns: int
    useful_ns: int
    load_balance: float
    serialisation: float
    transfer: float
    talp_load_balance: float
    talp_communication: float
    talp_orchestration: float

    @property
    def parallel(self) -> float:
        """POP's parallel efficiency."""
        return self.load_balance * self.serialisation * self.transfer

    @property
    def talp_parallel(self) -> float:
        """TALP's: time in kernels, of all devices' time."""
        return self.talp_load_balance * self.talp_communication * self.talp_orchestration


def measure_efficiency(job: Job) -> Efficiency:
    """The factors of one job. A job whose devices never compute is of efficiency 0."""
    length, ideal = replay_job(job, [(), (Scenario((NETWORK,)),)])
    useful = [rank.parts["compute_ns"] for rank in job.ranks]
    kernels = [rank.parts["compute_ns"] + rank.parts["exposed_comm_ns"] for rank in job.ranks]
    active = [k + r.parts["exposed_copy_ns"] for k, r in zip(kernels, job.ranks, strict=True)]
    n, most = len(job.ranks), max(useful)
    # A rank's own time is on its own clock: a job is never shorter than one of its ranks.
    length = max(length, *active)
    ideal = min(max(ideal, most), length)
    return Efficiency(
        n,
        length,
        sum(useful),
        divide(sum(useful), n * most),
        divide(most, ideal),
        divide(ideal, length),
        divide(sum(kernels), n * max(kernels)),
        divide(max(kernels), max(active)),
        divide(max(active), length),
    )


def divide(part: int, whole: int) -> float:
    """A share, 0 of nothing."""
    return part / whole if whole else 0.0
