"""Repairs events whose texts Kineto wrote without escaping what is in them.

Kineto quotes texts of NCCL only since pytorch/kineto #1482, and escapes names only since #1508: in
older files a quote in the name of a kernel or a process group ends its text too early, and a name
may stand without quotes. Kineto writes one key a text, each followed by a key that it always has.
"""

from __future__ import annotations

import json
import re

# A text ends before the next key, or before the end of its object; what is between is its value.
_NAME = re.compile(r'("name": )"(.*?)"(?=, "(?:pid|args|ph|cat)"\s*:|,?\s*\n)')
_GROUP = re.compile(
    r'("(?:Collective name|dtype|Process Group (?:Name|Description|Ranks)|comm_backend)": )'
    r'(.*?)(?=,? *\n|, "[A-Z][^"\n]{2,40}"\s*:|\s*\})'
)


def repair_texts(event: str) -> str | None:
    """The event with its texts escaped; None where nothing of it had to be, or could be."""
    repaired = _GROUP.sub(_quote_value, _NAME.sub(_escape_name, event))
    return None if repaired == event else repaired


def _escape_name(found: re.Match[str]) -> str:
    return found[1] + json.dumps(_unescape(found[2]))


def _quote_value(found: re.Match[str]) -> str:
    try:
        json.loads(found[2], strict=False)
    except ValueError:
        plain = found[2].removeprefix('"').removesuffix('"')
        return found[1] + json.dumps(_unescape(plain))
    return found[0]


def _unescape(text: str) -> str:
    """What is escaped already, as the character that it stands for."""
    return re.sub(r'\\(["\\/])', r"\1", text)
