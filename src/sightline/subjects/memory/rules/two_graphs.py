"""The last step's results are alive while the next step makes its own: two graphs at once.

Symptom
    Blocks of the step before, or from before the recording, are freed in one go behind the peak;
    as many of the same sizes have been allocated before.

Why it hurts
    `loss = step(batch)` makes the new graph before the name lets go of the old one: for the length
    of a forward pass all activations are there twice, unless a backward pass freed the old ones.

Evidence
    At the peak, blocks that are freed later in the recording, one after the other with no
    allocation between them, and blocks of the same sizes (and stacks, where both are known) that
    came since. The gain is how much lower the peak is when all events are gone through without the
    old ones, those of every step from its end to the release.

Threshold
    Four fifths of the old blocks' bytes have such a twin, eight blocks and three sizes at least;
    no allocation lies between their frees (ours: a backward pass, which frees activations too,
    allocates a gradient for nearly each); a tenth of the peak. Where no backward pass and no
    optimizer was recorded over two steps or more, `forward-kept` speaks of both graphs.

Fix
    `del loss, logits` at the end of the loop's body; or `loss.item()` and `.detach()` for what is
    kept; or torch.no_grad() where no backward pass follows.

False positives
    A cache that is replaced as a whole.

References
    PyTorch, "Frequently Asked Questions": "My model reports cuda runtime error: out of memory"
    ("Don't hold onto tensors and variables you don't need").
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    find_peak_without_blocks,
    grade_by_room,
    locate_device,
    name_device,
    write_share,
)
from sightline.subjects.memory.step_results import find_step_results, find_undifferentiated

RULE = Rule("two-graphs", "Two steps' results alive at once")


def check(run: Run) -> Iterator[Finding]:
    """One finding for each device."""
    for peak in find_device_peaks(run).iter_rows(named=True):
        results = find_step_results(run, peak)
        if results is None or find_undifferentiated(run, peak) is not None:
            continue  # without a backward pass neither graph is needed: forward-kept
        size, whole = sum_column(results.old, "bytes"), peak["allocated_bytes"]
        gain = whole - find_peak_without_blocks(run, peak, results.overdue)
        earlier = results.old.get_column("allocated").is_null().all()
        sizes = results.old.get_column("bytes").n_unique()
        yield build_finding(
            RULE,
            f"{format_bytes(size)} at the peak of {name_device(peak)}, {write_share(size, whole)} "
            "of it, are results of the step before: they are freed in one go only after the next "
            "step has made its own.",
            Evidence(
                [
                    f"{format_several(results.old.height, 'block')} from before "
                    f"{'the recording' if earlier else 'this step'}, freed one after another after "
                    "the peak",
                    f"blocks of the same {format_several(sizes, 'size')} have been allocated "
                    "meanwhile",
                ],
                where=locate_device(peak),
            ),
            Advice(
                fix="free the old graph before the next forward pass:  del loss, logits  at "
                "the end of the loop's body (keep loss.item() or .detach()); or run the backward "
                "pass, or torch.no_grad() where there is none",
                verify="sightline stats memory_peak AFTER: allocated_bytes",
                cause="a name holds the last step's graph until it is bound to the next one",
                sources=("PyTorch, Frequently Asked Questions: out of memory",),
            ),
            severity=grade_by_room(peak),
            price=price_part(size, gain, whole, "bytes"),
            method="replay of all memory events without these blocks, in every step from its end",
            confidence="medium",
        )
