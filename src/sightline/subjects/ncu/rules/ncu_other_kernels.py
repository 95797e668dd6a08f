"""Only kernels that prepare inputs were profiled, and none that computes with them.

Symptom
    A report in which nothing is what the program is about: random numbers, fills, casts and copies
    of a framework or of a library of templates, or kernels whose own names say that they fill.

Why it hurts
    Nsight Compute profiles what it is told to, else the first launches; before the kernel that is
    meant a script makes its inputs. Nothing in the report says how fast that kernel is.

Evidence
    The kernels' names: those of PyTorch's, CuPy's, JAX' and cuRAND's generators, fills and copies,
    Thrust's fills and sequences; of others, names that begin with fill, init or set up.

Threshold
    All kernels of the report.

Fix
    Name the kernel (-k regex:NAME), or leave out the launches before it (--launch-skip).

False positives
    A program that is about these kernels.

References
    Nsight Compute CLI, "Filtering" (--kernel-name, --launch-skip, --nvtx-include).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.roofline.chart import shorten_name

RULE = Rule("ncu-other-kernels", "Not the intended kernel")
# Of the frameworks' own sources: aten/src/ATen/native/cuda (DistributionTemplates.h,
# FillKernel.cu, Copy.cu, RangeFactories.cu), cuRAND's host API, CuPy's and JAX' fills; Thrust's
# thrust/system/cuda/detail/{uninitialized_fill,fill,generate,tabulate}.h.
_PREPARES = re.compile(
    r"at::native\b.*(?:distribution_|Fill(?:Functor|Kernel)|direct_copy_kernel|arange|randperm|"
    r"bfloat16_copy|float16_copy|float8_copy|copy_device_to_device|random_from_to)"
    r"|\bgen_sequenced<|\bgenerate_seed_pseudo|curand\w*generate|^cupy_(?:fill|copy|random)"
    r"|^(?:void )?(?:threefry|rng_bit_generator)"
    r"|\bthrust\b.*(?:__uninitialized_fill::|__fill::|__generate::|compute_sequence)",
    re.IGNORECASE,
)
# A kernel of one's own, by what its name begins with: `init_kernel`, `fillMatrix`, `setupRandom`.
_NAMED_SO = re.compile(
    r"^(?:void )?(?:\w+::)*(?i:k_)?(?i:cuda_?|gpu_?)?"
    r"(?i:fill|init(?:iali[sz]e)?|set_?up|randomi[sz]e)(?![a-z])"
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, which leads."""
    if not run.rows("profiled_kernels") or run.rows("device_ops"):
        return
    names = run.table("profiled_kernels").get_column("name").drop_nulls()
    every = names.unique().to_list()
    is_known = [_PREPARES.search(name) is not None for name in every]
    if not every or not all(
        known or _NAMED_SO.match(name) for known, name in zip(is_known, every, strict=True)
    ):
        return
    longest = run.table("profiled_kernels").sort("duration_ns", descending=True, nulls_last=True)
    name = longest.filter(pl.col("name").is_not_null()).item(0, "name")
    who = "The only profiled kernel prepares" if len(names) == 1 else "All kernels prepare"
    whose = "a framework's inputs" if all(is_known) else "inputs, by the names"
    yield build_finding(
        RULE,
        f"{who} {whose}: nothing was recorded of the kernels that compute with them.",
        Evidence(
            (
                f"{format_several(len(names), 'launch', 'launches')}, the longest of "
                f"{shorten_name(name)}",
            ),
            where={"kernel": name},
        ),
        Advice(
            fix="profile the intended kernel:  ncu -k regex:NAME --set full ..., or leave out "
            "the launches before it with --launch-skip",
            verify="sightline stats speed_of_light AFTER: names your kernel",
        ),
        severity="warning",
        confidence="high" if all(is_known) else "medium",
        states_limit=True,
        is_asked=True,
    )
