"""What the importers of PyTorch's compiler share: the name of a compilation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def name_compilation(said: Mapping[str, Any]) -> str | None:
    """PyTorch's own name of it: frame/compilation, and _attempt where that is not 0."""
    frame, compiled = said.get("frame_id"), said.get("frame_compile_id")
    if type(frame) is not int or type(compiled) is not int:
        return None
    attempt = said.get("attempt")
    return f"{frame}/{compiled}" + (f"_{attempt}" if type(attempt) is int and attempt else "")
