"""What the rows of the table ask of arguments: sizes in bytes, and what one pass keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sightline.roofline.operators.arguments import Arguments, Tensor


def get_bytes(tensor: Tensor | None) -> int:
    """Bytes of a tensor as if it were stored whole; 0 where there is none."""
    return tensor.elements * tensor.element_bytes if tensor else 0


def find_widest(args: Arguments) -> Tensor | None:
    """The tensor of the most elements among the arguments."""
    return max(args.tensors(), key=lambda t: t.elements, default=None)


def keep_passes(
    tensors: int, *, least: int = 2, whole: bool = True
) -> Callable[[Sequence[Arguments]], int | None]:
    """Several calls on equal data as one pass: so many tensors of the first call's size move.

    None where fewer calls match, where the first one has no tensor, where another one's is wider
    (what is broadcast is another thing), or, if `whole`, where the last one's is narrower.
    """

    def keep(several: Sequence[Arguments]) -> int | None:
        widest = [find_widest(args) for args in several]
        first, last = widest[0], widest[-1]
        if first is None or last is None or first.elements < 2 or len(several) < least:
            return None
        if any(t is not None and t.elements > first.elements for t in widest):
            return None
        return None if whole and last.elements != first.elements else tensors * get_bytes(first)

    return keep


def has_equal_shapes(*tensors: Tensor | None) -> bool:
    """Whether all of these are tensors of one shape and type."""
    return None not in tensors and len({(t.shape, t.dtype) for t in tensors if t}) == 1
