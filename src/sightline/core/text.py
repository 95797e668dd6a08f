"""Names from recordings as texts for a person: short, and harmless on a terminal or in a file."""

from __future__ import annotations

_LEAST_HEAD = 8  # characters of a name that stay before its template arguments


def fit_text(text: str, width: int) -> str:
    """The text in at most `width` columns; what is cut is cut from the middle.

    Of a name with template arguments the name is cut: `vectorized_…<GeluCUDAKernelImpl>`.
    """
    text = make_printable(text)
    if len(text) <= width:
        return text
    name, _, arguments = text.partition("<")
    room = width - len(arguments) - 2
    if text.endswith(">") and room >= _LEAST_HEAD:
        return f"{name[:room]}…<{arguments}"
    left = (width - 1) * 2 // 3
    return f"{text[:left]}…{text[len(text) - (width - 1 - left) :]}"


def make_printable(text: str) -> str:
    """The text without control characters: they steer terminals, and no XML may hold them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text)


def clean_text(text: str) -> str:
    """The text, of as many characters, with none that steers a terminal but line ends and tabs.

    What is no text (halves of surrogate pairs, as of file names that are no UTF-8) becomes a space.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def replace_surrogates(text: str) -> str:
    """The text as UTF-8 can hold it: JSON and names of files may have halves of letters."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
