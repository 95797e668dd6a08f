"""What the recording of the changed program is called, so that a finding's check can be typed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.core.model.run_folder import FOLDER_ENDING

# What rules write where the name of that recording belongs.
_PLACE = re.compile(r"\bAFTER\b")
_PACKED = (".gz", ".zst", ".xz", ".bz2")


def name_checks(run: Run, found: Sequence[Finding]) -> list[Finding]:
    """The findings, with the name of a next recording in what they tell a person to type."""
    paths = run.table("recordings").get_column("path").to_list()
    name = name_next([path for path in paths if path])
    return [_name_check(finding, name) for finding in found]


def name_next(paths: Sequence[str]) -> str:
    """`after` with the ending that these recordings have; of several files it is a folder."""
    parts = (part for path in paths for part in PurePath(path).parts)
    if any(part.endswith(FOLDER_ENDING) for part in parts):
        return f"after{FOLDER_ENDING}"
    if len(paths) != 1:
        return "after/"
    suffixes = PurePath(paths[0]).suffixes
    packed = suffixes[-1:] if suffixes and suffixes[-1].lower() in _PACKED else []
    plain = suffixes[: len(suffixes) - len(packed)]
    return "after" + "".join([*plain[-1:], *packed])


def _name_check(finding: Finding, name: str) -> Finding:
    if finding.verify is None or not _PLACE.search(finding.verify):
        return finding
    check = _PLACE.sub(name, finding.verify)
    return replace(finding, verify=f"record it again as {name}, then  {check}")
