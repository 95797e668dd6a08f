"""Tables of facts that lie beside the code: tab-separated lines, with remarks behind a #."""

from __future__ import annotations

from importlib.resources import files


def read_rows(package: str, name: str) -> list[list[str]]:
    """The cells of each line of a package's file, a head line among them where it has one."""
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
