"""Only the page's own script runs in it, and nothing is loaded from anywhere."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from support import traces as t
from support.command import sightline


@pytest.mark.pages
@pytest.mark.parametrize("command", ["flame", "report"])
def test_page_names_its_script_by_hash(tmp_path: Path, command: str) -> None:
    trace = t.write(tmp_path, [t.op("a", 0, 9), t.launch(1, 2, 1), t.kernel("</script>k", 4, 5, 1)])
    page = tmp_path / "page.html"
    assert sightline(command, trace, "-o", page).code == 0
    text = page.read_text()
    rule = re.search(r'Content-Security-Policy"\s+content="([^"]*)"', text)
    assert rule is not None
    parts = {p.split()[0]: p.split()[1:] for p in rule[1].split(";")}
    assert parts["default-src"] == ["'none'"]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = {
        "'sha256-" + base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() + "'"
        for s in scripts
    }
    assert set(parts["script-src"]) == hashes
