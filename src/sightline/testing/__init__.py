"""For those who write importers, analyses and rules: what sightline's own tests use.

    from sightline.testing import check_importer, open_rows, survive_damage
    from sightline.testing import assert_speaks, assert_silent, assert_abstains
    from sightline.testing import check_analysis, check_rule

Each raises AssertionError with what is wrong, whatever runs the tests. Nothing here is loaded by
anything else. The page: docs/contributing.md, "From another package".
"""

from __future__ import annotations

from sightline.testing.damage import count_rows, survive_damage
from sightline.testing.findings import answers, assert_abstains, assert_silent, assert_speaks
from sightline.testing.members import check_analysis, check_importer, check_rule
from sightline.testing.rows import open_rows

__all__ = [
    "answers",
    "assert_abstains",
    "assert_silent",
    "assert_speaks",
    "check_analysis",
    "check_importer",
    "check_rule",
    "count_rows",
    "open_rows",
    "survive_damage",
]
