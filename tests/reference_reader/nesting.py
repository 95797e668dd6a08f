"""Nesting of ranges on one thread."""

from __future__ import annotations

from collections.abc import Sequence


def nest(
    thread: Sequence[int], start: Sequence[int], end: Sequence[int]
) -> tuple[list[int | None], list[int], list[int]]:
    """Parent row, depth, and one past the last descendant's row, for each range.

    Ranges must be sorted by thread, then start, then with the longest first. A range belongs to
    the innermost range that is open when it starts and holds at least half of it: clocks in µs
    round a child past its parent's end, but a step that begins while the call that marks it is
    still returning is no part of that call. A range that is left so takes no more children. Rows
    are then in preorder: the descendants of row i are the rows i + 1 to subtree_end[i] - 1.
    """
    n = len(start)
    parent: list[int | None] = [None] * n
    depth = [0] * n
    subtree_end = [n] * n
    open_rows: list[int] = []
    current: int | None = None
    for row in range(n):
        begin = start[row]
        if thread[row] != current:
            for closed in open_rows:
                subtree_end[closed] = row
            open_rows.clear()
            current = thread[row]
        half = begin + (end[row] - begin + 1) // 2
        while open_rows and (end[open_rows[-1]] <= begin or end[open_rows[-1]] < half):
            subtree_end[open_rows.pop()] = row
        if open_rows:
            parent[row] = open_rows[-1]
            depth[row] = len(open_rows)
        open_rows.append(row)
    return parent, depth, subtree_end
