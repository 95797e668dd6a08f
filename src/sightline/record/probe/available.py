"""Whether probes can be placed here: tried, on a function of our own."""

from __future__ import annotations

from sightline.errors import RequestError
from sightline.record.probe.bpf import Programs
from sightline.record.probe.cost import check_permission, measure_cost
from sightline.record.probe.perf import Samples

BACKENDS = {"bpf": Programs, "perf": Samples}


def find_obstacle(backend: str) -> str | None:
    """Why probes of a backend (bpf or perf) cannot be placed here; None where they can."""
    try:
        check_permission()
        opened = BACKENDS[backend]()
        try:
            measure_cost(opened, rounds=1)
        finally:
            opened.close()
    except RequestError as error:
        return error.why or error.what
    return None
