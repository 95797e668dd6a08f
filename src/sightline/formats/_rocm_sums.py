"""What a row of ROCm's summaries is: a call, a kernel, a copy, or the total of a whole domain."""

from __future__ import annotations

import re
from typing import Any

from sightline.formats._rocm import name_layer
from sightline.formats._summaries import COPY, KERNEL

# rocprofiler-sdk's kinds of records, by which rocprofv3 groups (source/lib/output/domain_type.cpp).
_KERNELS, _COPIES = "KERNEL_DISPATCH", "MEMORY_COPY"
_ALLOCATIONS = "MEMORY_ALLOCATION"  # what calls of HSA do, once more
DOMAINS = frozenset(
    (
        "HIP_API", "HSA_API", "MARKER_API", "RCCL_API", "ROCDECODE_API", "ROCJPEG_API", "OMPT",
        "KERNEL_DISPATCH", "MEMORY_COPY", "MEMORY_ALLOCATION", "SCRATCH_MEMORY",
        "COUNTER_COLLECTION",
    )
)  # fmt: skip
# Names of calls in a table without domains. Kernels may begin alike: hipcub's have a namespace, and
# RCCL's are ncclDevKernel and, before 2.19, ncclKernel.
_CALLS = (
    ("HIP_API", re.compile(r"^_*hip[A-Z]\w*$")),
    ("HSA_API", re.compile(r"^hsa_\w+$|^hsa[A-Z]\w*$")),
    ("MARKER_API", re.compile(r"^roctx\w+$")),
    ("RCCL_API", re.compile(r"^nccl(?!DevKernel|Kernel)[A-Z]\w*$")),
    ("MPI", re.compile(r"^MPI_\w+$")),
    (_COPIES, re.compile(r"^MEMORY_COPY_\w+$|^Copy(?:Host|Device)To(?:Host|Device)$")),
    (_ALLOCATIONS, re.compile(r"^MEMORY_ALLOCATION_\w+$")),
)


def find_domain(name: str) -> str:
    """The domain of a row that has none beside its name."""
    return next((domain for domain, names in _CALLS if names.match(name)), _KERNELS)


def describe_row(domain: str) -> dict[str, Any]:
    """`kind`, `layer` and `category` of a row of `call_sums`."""
    if domain == _KERNELS:
        return {"kind": "device", "layer": None, "category": KERNEL}
    if domain == _COPIES:
        return {"kind": "device", "layer": None, "category": COPY}
    api = domain.partition("_")[0].lower()
    layer = "other" if domain == _ALLOCATIONS else name_layer(domain)
    return {"kind": "host", "layer": layer, "category": api}
