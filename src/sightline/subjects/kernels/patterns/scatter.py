"""Many rows added to few, by atomic additions that wait for each other; dense gradients."""

from __future__ import annotations

from sightline.roofline.operators.arguments import Arguments, Tensor
from sightline.subjects.kernels.patterns._sizes import get_bytes
from sightline.subjects.kernels.patterns.declare import Keep, Pattern, match_each

# Rows that are added to each row of the result, on average, from which on additions wait for each
# other (ours: a warp's 32 lanes then meet at one address; at a few, as in graphs, they hardly do).
CONTENDED = 32
# A table of so many times the rows that are looked up: nearly all of its gradient is zeros (ours).
SPARSE = 8
# All have the result, the dimension, the indices and the source in this order (PyTorch,
# native_functions.yaml).
_ADDED = r"aten::(?:index_add|index_reduce|scatter_add|scatter_reduce)_?"


def _keep_added(args: Arguments) -> Keep:
    """The source read once and the result written, where the result is that much smaller."""
    result, source = args.tensor(0), args.tensor(3)
    if result is None or source is None:
        return None
    crowded = source.elements >= CONTENDED * max(result.elements, 1)
    return get_bytes(source) + 2 * get_bytes(result) if crowded else None


def _keep_put(args: Arguments) -> Keep:
    """index_put_ that accumulates: self, indices, values, accumulate."""
    result, values = args.tensor(0), args.tensor(2)
    if result is None or values is None or args.flag(3) is not True:
        return None
    crowded = values.elements >= CONTENDED * max(result.elements, 1)
    return get_bytes(values) + 2 * get_bytes(result) if crowded else None


def _keep_gradient(args: Arguments) -> Keep:
    """embedding_dense_backward(grad, indices, rows of the table, …): many indices for each row."""
    grad, indices, rows = _read_gradient(args)
    if grad is None or indices is None or rows is None:
        return None
    if indices.elements < CONTENDED * rows:
        return None
    return get_bytes(grad) + rows * grad.shape[-1] * grad.element_bytes


def _keep_looked_up(args: Arguments) -> Keep:
    """embedding_dense_backward: a gradient of the whole table for a few rows of it."""
    grad, indices, rows = _read_gradient(args)
    if grad is None or indices is None or rows is None or rows < SPARSE * indices.elements:
        return None
    return 2 * get_bytes(grad)


def _read_gradient(args: Arguments) -> tuple[Tensor | None, Tensor | None, int | None]:
    rows = args.integers(2)
    grad = args.tensor(0)
    return (grad if grad and grad.shape else None), args.tensor(1), rows[0] if rows else None


def _keep_sorted(args: Arguments) -> Keep:
    """The backward of indexing: index_put_ that accumulates, by a sort of the indices."""
    result, values = args.tensor(0), args.tensor(2)
    if result is None or values is None or args.flag(3) is not True:
        return None
    return 3 * get_bytes(values)


_CONTENTION = (
    "very many rows are added onto few, so that atomic additions to one address wait for each other"
)
_FEWER_ATOMICS = (
    "sum the rows of each target first: where they are sorted, split them and sum each part "
    "(torch.segment_reduce, torch_scatter.segment_csr), for few targets a product with a one-hot "
    "matrix"
)
# What index_put_ and x[index]'s backward launch their kernels from.
_PUT = r"aten::_?index_put(?:_impl)?_"
_PARTITIONED = "PyTorch #168073: scatter of contended atomics by partitions, then a sum over them"

_INDEXED = "PyTorch #41162: the backward of x[index] is slow; #171381: by a sort, where atomics do"

PATTERNS = (
    Pattern(
        "add-onto-few-rows",
        "Atomic additions onto few rows",
        match_each(_ADDED, _keep_added),
        cause=_CONTENTION,
        fix=_FEWER_ATOMICS,
        source=_PARTITIONED,
        rule="scatter-contention",
        confidence="high",
        with_backward=False,
        with_host=False,
    ),
    Pattern(
        "put-onto-few-rows",
        "Accumulating writes onto few rows",
        match_each(_PUT, _keep_put),
        cause="an accumulating index_put_ adds very many values to few rows",
        fix=_FEWER_ATOMICS,
        source=_PARTITIONED,
        rule="scatter-contention",
        confidence="high",
        with_backward=False,
        with_host=False,
    ),
    Pattern(
        "gradient-onto-few-rows",
        "Gradients of very many look-ups in a small table",
        match_each("aten::embedding_dense_backward", _keep_gradient),
        cause="the gradients of very many look-ups are added to a table of few rows",
        fix="a small table's look-up as a product with a one-hot matrix, whose backward is a "
        "product, too; or sum the gradients of equal indices first",
        source=_PARTITIONED,
        rule="scatter-contention",
        with_backward=False,
        with_host=False,
    ),
    Pattern(
        "indexing-backward-by-sort",
        "The backward of indexing sorts its indices",
        match_each(_PUT, _keep_sorted),
        cause="the backward of x[index] is an index_put_ that accumulates, which sorts the indices "
        "before it adds",
        fix="torch.nn.functional.embedding(index, x) or x.index_select(0, index) for x[index]",
        source=_INDEXED,
        with_backward=False,
        with_host=False,
    ),
    Pattern(
        "dense-embedding-gradient",
        "Dense gradient of a large embedding",
        match_each("aten::embedding_dense_backward", _keep_looked_up),
        cause="backward writes a gradient for each row of the table, of which few were looked up",
        fix="torch.nn.Embedding(..., sparse=True) with SparseAdam or SGD, so that only these rows "
        "move",
        source="PyTorch: torch.nn.Embedding (sparse)",
        with_backward=False,
        with_host=False,
    ),
)
