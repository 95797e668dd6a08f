"""What a session returns and shows itself: in a notebook as HTML, in a terminal as text.

How each is drawn lies in `views/notebook/`, a file each, found through the registry when it is
shown, so that a program that looks at nothing loads none of it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

from sightline.core import registry
from sightline.errors import RequestError


class Displayed:
    """A mixin: `display` names the member of `views/notebook/` that draws it."""

    display: ClassVar[str]

    def _load_display(self) -> ModuleType:
        return registry.load("displays", self.display)

    def __repr__(self) -> str:
        text: str = self._load_display().write_text(self)
        return text

    def _repr_html_(self) -> str:
        html: str = self._load_display().write_html(self)
        return html

    def to_rows(self) -> list[dict[str, Any]]:
        """As rows of plain data: times in ns, sizes in bytes, `_pct` 0 to 100."""
        rows: list[dict[str, Any]] = self._load_display().list_rows(self)
        return rows

    def to_pandas(self) -> Any:
        """As a pandas DataFrame. Raises RequestError where pandas is not installed."""
        try:
            import pandas
        except ImportError as error:
            raise RequestError("pandas is not installed", hint="pip install pandas") from error
        return pandas.DataFrame(self.to_rows())

    def plot(self) -> Any:
        """As an Altair chart. Raises RequestError where Altair is not installed."""
        try:
            import altair
        except ImportError as error:
            hint = "pip install 'sightline-gpu[notebook]'"
            raise RequestError("Altair is not installed", hint=hint) from error
        rows = self.to_rows()
        if not rows:
            raise RequestError("there is nothing to plot", why="there are no rows")
        return self._load_display().make_chart(altair, rows)
