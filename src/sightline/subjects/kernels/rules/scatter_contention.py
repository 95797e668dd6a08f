"""Very many rows are added onto few, and the additions to one address wait for each other.

Symptom
    index_add, scatter_add, index_put with accumulate=True or an embedding's backward, from hundreds
    of thousands of rows into a handful, far slower than their bytes take.

Why it hurts
    The rows are added by atomic operations, and those on one address run one after another.

Evidence
    Shapes of the operators' inputs: the source has at least 32 elements for each of the result.
    The gain is a replay in which they read the source and write the result at the memory's rate,
    which is what this run's better large passes reach.

Threshold
    32 elements for each (ours: all lanes of a warp then meet at one address). What could be saved
    is over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Sum the rows of each target first: split sorted rows and sum each part, torch.segment_reduce,
    torch_scatter.segment_csr; for few targets a product with a one-hot matrix.

False positives
    Indices that leave most rows out.

References
    PyTorch #168073 (scatter of contended atomics by partitions) and #182675 (scatter_add where many
    indices are equal).
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.kernels.patterns.match import find_patterns

RULE = Rule("scatter-contention", "Additions onto few rows")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding for each pattern of this rule."""
    if run.rows("device_ops"):
        yield from find_patterns(run, RULE)
