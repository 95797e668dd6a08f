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
    tensors: int, *, least: int = 2, same: bool = True
) -> Callable[[Sequence[Arguments]], int | None]:
    """Several calls on equal data as one pass: so many tensors of the first call's size move.

    None where fewer calls match, where the first call has no tensor, or where the widest tensor of
    one is wider than the first one's (`same`: what is broadcast is another thing).
    """

    def keep(several: Sequence[Arguments]) -> int | None:
        first = find_widest(several[0])
        if first is None or first.elements < 2 or len(several) < least:
            return None
        widest = [find_widest(args) for args in several]
        if same and any(t is None or t.elements > first.elements for t in widest):
            return None
        if widest[-1] is None or widest[-1].elements != first.elements:
            return None
        return tensors * get_bytes(first)

    return keep
