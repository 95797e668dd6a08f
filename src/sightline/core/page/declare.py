"""What a panel is, and what it may ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sightline.core.model.run import Run
from sightline.core.model.span import find_one_clock
from sightline.core.page.pack import Packed

# A piece of a panel, as the page draws it: see blocks.py.
Block = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """One entry of the page's list.

    Its module also has `data(view) -> list[Block]`. Where the recording lacks what the panel
    shows, `data` raises MissingDataError, and the panel "Recording" says why it is absent.
    """

    name: str
    title: str
    order: int
    # Whether `data` looks at the findings. What does not is made while the rules run.
    needs_findings: bool = False
    # Whether its blocks are plain data that follow from the run alone: of a large run they are
    # made once, and not again at its next opening.
    is_plain: bool = False


@dataclass
class View:
    """What a panel may ask for: the run, the report's data, and the page's binary columns."""

    run: Run
    # What every view draws (sightline.answer.answer.Answer); None until the rules have run.
    answer: Any = None
    packed: Packed = field(default_factory=Packed)
    absent: list[tuple[str, str]] = field(default_factory=list)  # title of a panel, why
    served: bool = False  # from a server, which the page can ask

    @cached_property
    def has_device(self) -> bool:
        """Whether there is a device's timeline."""
        return bool(self.run.rows("device_ops"))

    @cached_property
    def judged(self) -> list[dict[str, Any]]:
        """The findings that are cards of the page, in its order."""
        judged: list[dict[str, Any]] = self.answer.judged
        return judged

    @cached_property
    def span(self) -> tuple[int, int]:
        """First and last moment of the recording; what the page calls 0 is the first.

        Where recordings have clocks of their own, of those with most rows.
        """
        return find_one_clock(self.run) or (0, 0)
