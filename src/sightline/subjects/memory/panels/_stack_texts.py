"""Call stacks as a page shows them beside what they allocated."""

from __future__ import annotations

from sightline.core.model.run import Run
from sightline.core.text import make_printable
from sightline.timeline.memory_calls import find_memory_calls

_FRAMES = 14  # lines of a stack that hovering shows


class StackTexts:
    """Texts of call stacks, innermost frame first; equal ones once, 0 for none."""

    def __init__(self, run: Run) -> None:
        self.texts: list[list[str]] = [["no stack was recorded"]]
        calls = find_memory_calls(run)
        self._nodes = {
            node: (parent, frame)
            for node, parent, frame in calls.stacks.select(
                "stack_id", "parent_id", "frame_id"
            ).iter_rows()
        }
        self._frames = {
            number: make_printable(f"{function} ({file}:{line})" if file else function)
            for number, function, file, line in calls.frames.select(
                "frame_id", "function", "file", "line"
            ).iter_rows()
        }
        self._numbers: dict[int | None, int] = {None: 0}

    def number(self, stack: int | None) -> int:
        """The place of a stack's text."""
        if stack not in self._numbers:
            self._numbers[stack] = len(self.texts)
            self.texts.append(self._write(stack))
        return self._numbers[stack]

    def _write(self, stack: int | None) -> list[str]:
        lines: list[str] = []
        # The allocator's own frames are the innermost, and the same for all.
        while stack in self._nodes:
            stack, frame = self._nodes[stack]
            text = self._frames.get(frame, "")
            if lines or ("CachingAllocator" not in text and "::unwind" not in text):
                lines.append(text[:160])
        users = [line for line in lines if ".py:" in line]
        return (users or lines)[:_FRAMES] or ["no stack was recorded"]
