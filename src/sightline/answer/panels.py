"""The blocks of a panel: made, or found where they were kept."""

from __future__ import annotations

from types import ModuleType

from sightline.answer.cache import keep_part
from sightline.core.page.declare import Block, Panel, View


def make_blocks(module: ModuleType, view: View) -> list[Block]:
    """What a panel shows. Raises MissingDataError where the recording lacks it."""
    panel: Panel = module.PANEL
    if panel.is_plain:
        made: list[Block] = keep_part(view.run, f"-{panel.name}-panel", lambda: module.data(view))
    else:
        made = module.data(view)
    return made
