"""What the cells of a Jupyter notebook printed, as one text (nbformat 3 and 4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def unpack_notebook(text: str) -> str:
    """The outputs and the pages of a notebook's cells; any other text as it is."""
    if not text.lstrip().startswith("{") or '"nbformat"' not in text or '"cells"' not in text:
        return text
    try:
        book = json.loads(text)
    except (ValueError, RecursionError):
        return text
    sheets = book.get("worksheets") if isinstance(book, dict) else None  # nbformat 3
    holders = [book, *(sheets if isinstance(sheets, list) else [])]
    cells = [cell for holder in holders if isinstance(holder, dict) for cell in _list_cells(holder)]
    return "\n".join(part for cell in cells for part in _list_texts(cell))


def _list_cells(holder: dict[str, Any]) -> list[dict[str, Any]]:
    cells = holder.get("cells")
    return [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []


def _list_texts(cell: dict[str, Any]) -> Iterator[str]:
    if cell.get("cell_type") == "markdown":
        yield _join(cell.get("source"))
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        if isinstance(output, dict):
            yield _join(output.get("text"))


def _join(text: Any) -> str:
    """A text, which a notebook may hold as a list of lines."""
    if isinstance(text, list):
        return "".join(line for line in text if isinstance(line, str))
    return text if isinstance(text, str) else ""
