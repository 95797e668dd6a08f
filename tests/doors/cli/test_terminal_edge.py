"""Nothing that is printed steers the terminal, wherever the text comes from (judged by pyte)."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pyte
import pytest

from sightline.doors.cli.main import main
from support import traces as t

# Title, clipboard (OSC 52), a hidden address (OSC 8), cursor, colours, C1's CSI, direction.
HOSTILE = (
    "\x1b]0;owned\x07\x1b]52;c;aGVsbG8=\x07\x1b]8;;http://evil\x07x\x1b]8;;\x07"
    "\x1b[2J\x1b[31m\x9b5A\u202egnp.exe\u2066\rmoved\b\b\x1b[?1049h\x1bP1$r\x1b\\"
)


class Terminal(io.TextIOWrapper):
    """Standard output or error that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        self.flush()
        data: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return data.decode(self.encoding)


def show(*words: str | Path, encoding: str = "utf-8") -> tuple[int, str]:
    """Exit code and what reaches the terminal."""
    out, err = Terminal(encoding), Terminal(encoding)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(w) for w in words])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.text() + err.text()


def assert_harmless(text: str) -> None:
    screen = pyte.Screen(200, 400)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    assert screen.title == ""

    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)  # rich's colours
    bad = [c for c in plain if not c.isprintable() and c not in "\n\t"]
    assert bad == []


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    name = "gemm" + HOSTILE
    events = [
        t.step(1, 0, 900), t.op("op" + HOSTILE, 1, 200), t.launch(2, 3, 7),
        t.kernel(name, 300, 500, 7),
    ]  # fmt: skip
    return t.write(tmp_path, events)


@pytest.mark.parametrize(
    "words",
    [
        ["report", "{}", "--no-html"],
        ["report", "{}", "--json"],
        ["report", "{}", "--format", "markdown"],
        ["findings", "{}"],
        ["findings", "{}", "--json"],
        ["stats", "kernels", "{}"],
        ["stats", "kernels", "{}", "--json"],
        ["stats", "kernels", "{}", "--format", "csv"],
        ["critical-path", "{}"],
        ["sql", "{}", "SELECT name FROM device_ops"],
        ["sql", "{}", "SELECT" + HOSTILE],
        ["stats", "ops" + HOSTILE, "{}"],
        ["explain", "rule" + HOSTILE],
        ["report", "missing" + HOSTILE],
        ["findings", "{}", "--fail-on", HOSTILE],
    ],
    ids=lambda words: " ".join(words[:4]).encode("unicode_escape").decode()[:40],
)
def test_output_is_harmless(recording: Path, words: list[str]) -> None:
    _, text = show(*(w.format(recording) if w == "{}" else w for w in words))
    assert text
    assert_harmless(text)


def test_names_of_files_are_harmless(tmp_path: Path) -> None:
    folder = tmp_path / ("x\x1b]0;owned\x07" + "\u202e")
    path = t.write(folder, [t.kernel("gemm", 0, 5)])
    for words in (["report", path, "--no-html"], ["import", path, "-o", folder / "run"]):
        _, text = show(*words)
        assert_harmless(text)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_terminals_of_few_letters(recording: Path, encoding: str) -> None:
    """What the encoding lacks becomes a question mark, and no error."""
    for words in (["report", recording, "--no-html"], ["stats", "kernels", recording]):
        code, text = show(*words, encoding=encoding)
        assert code == 0
        assert text
