"""What the importers of rocprofv3's PC samples share: a sample's stack, and samples as weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sightline.core.model.stack_trie import Frame, StackTrie
from sightline.core.model.stall_classes import classify_stall, normalize_reason

# The stack and whether the wave issued its instruction; None where it is not known.
Sample = tuple[list[Frame] | None, bool | None]
Weights = list[tuple[int | None, str, int, str]]


def make_sample(
    kernel: str,
    comment: str,
    instruction: str,
    offset: int | None,
    issued: str | None,
    reason: str | None,
) -> Sample:
    """One sample, from the kernel over the source line (the comment) to the stall."""
    path = [Frame("kernel", kernel)]
    file, colon, line = comment.rpartition(":")
    if colon and line.isdecimal():
        path.append(Frame("gpu_file", file))
        path.append(Frame("gpu_line", f"{file.rsplit('/', 1)[-1]}:{line}"))
    where = "" if offset is None else f"+0x{offset:x} "
    path.append(Frame("instruction", where + instruction))
    if issued == "1":
        path += [Frame("stall_class", "issuing"), Frame("stall_reason", "wave_issued")]
        return path, True
    if issued == "0" and reason:
        path += [
            Frame("stall_class", classify_stall(reason)),
            Frame("stall_reason", normalize_reason(reason)),
        ]
        return path, False
    return path, None


def count_samples(samples: Iterable[Sample], trie: StackTrie) -> tuple[Weights, int]:
    """The samples of each stack, added to the trie, and how many could not be read."""
    counted: Counter[tuple[int | None, str]] = Counter()
    bad = 0
    for path, issued in samples:
        if path is None:
            bad += 1
            continue
        stack = trie.add(path)
        counted[stack, "samples"] += 1
        if issued is False:
            # Stochastic samples say whether the wave issued: those that did not are the latency.
            counted[stack, "latency_samples"] += 1
    return [(stack, metric, n, "exact") for (stack, metric), n in counted.items()], bad
