"""Names from recordings as texts for a person: short, and harmless on a terminal or in a file."""

from __future__ import annotations

from collections.abc import Sequence

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


def fit_texts(texts: Sequence[str], width: int) -> list[str]:
    """Texts in at most `width` columns each; those that would be cut to one are told apart.

    Of several that differ where a cut falls, what they share is cut instead: a metric's labels, the
    instance of a GPU.
    """
    fitted = [fit_text(text, width) for text in texts]
    alike: dict[str, list[int]] = {}
    for number, text in enumerate(fitted):
        alike.setdefault(text, []).append(number)
    for numbers in alike.values():
        different = {make_printable(texts[n]) for n in numbers}
        if len(different) < 2:
            continue
        start = _count_common(list(different))
        end = _count_common([text[start:][::-1] for text in different])
        for n in numbers:
            fitted[n] = _fit_around(make_printable(texts[n]), start, end, width)
    return fitted


def _count_common(texts: Sequence[str]) -> int:
    """How many first characters all have in common: those of the least and the greatest text."""
    least, greatest = min(texts), max(texts)
    pairs = zip(least, greatest, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(least), len(greatest)))


def _fit_around(text: str, start: int, end: int, width: int) -> str:
    """The text without most of its first `start` and last `end` characters."""
    # From the beginning of the word in which they begin to differ: a label with its value.
    begin = max(text.rfind(mark, 0, start) + 1 for mark in " ,;{")
    if len(text) - end - begin > width - 4:  # a long word, of which only that differs
        begin = start
    start = begin
    own = text[start : len(text) - end]
    room = width - len(own) - 2
    if room < 2:
        return fit_text(own, width)
    head = max(room - min(room // 3, end), 0)
    tail = room - head
    return f"{text[:head]}…{own}…{text[len(text) - tail :] if tail else ''}"


def name_file(path: str | None) -> str:
    """The last part of a path, of Windows' too; '' of none."""
    return (path or "").replace("\\", "/").rsplit("/", 1)[-1]


def capitalize(sentence: str) -> str:
    """A sentence with a capital at its begin, and nothing else changed, as names may be in it."""
    return sentence[:1].upper() + sentence[1:]


def begin_lower(sentence: str) -> str:
    """A sentence as it stands within another: its first word small, unless it is an acronym."""
    return sentence if sentence[1:2].isupper() else sentence[:1].lower() + sentence[1:]


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


def encode_utf8(data: bytes) -> bytes:
    """Text in UTF-16 with its mark as UTF-8 without one; anything else as it is.

    So PowerShell writes what a command prints (`COMMAND > FILE`, until version 5). What is cut or
    damaged is replaced.
    """
    if data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return data
    return data.decode("utf-16", errors="replace").lstrip("\ufeff").encode(errors="replace")
