"""The forward pass runs a second time inside backward: activation checkpointing.

Symptom
    Forward operators, such as aten::linear and aten::gelu, on autograd's thread, with the shapes
    that they had in the forward pass.

Why it hurts
    Checkpointing trades compute for memory: a third more work for each block. Where the memory was
    free, that is paid for nothing.

Evidence
    Operators inside a backward node that autograd records again (they have a sequence number, which
    backward operators do not have), whose name and shapes also ran outside of backward. The gain is
    a replay without their kernels and what the host does for them.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Call the blocks directly where memory suffices (`sightline memory` of a recording with memory
    events says how much was free); else checkpoint fewer blocks, or keep what is dear to compute.

False positives
    A model that does not fit without it. Gradients of gradients (create_graph=True) record backward
    operators, too: of them only those are counted whose like ran in forward.

References
    PyTorch, torch.utils.checkpoint; Chen et al., "Training Deep Nets with Sublinear Memory Cost"
    (2016).
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.kernels.patterns.match import find_patterns

RULE = Rule("recomputed-forward", "Forward run again in backward")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding for each pattern of this rule."""
    if run.rows("device_ops"):
        yield from find_patterns(run, RULE)
