"""Bytes come back from the text that a page holds, through what parsers of HTML do to text."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from sightline.page_text import HARD, decode_text, encode_bytes

# Many of the symbols that cannot stand alone, at all places of the eight.
HARD_BYTES = st.lists(st.sampled_from([0, 1, 13, 26, 30, 60, 120, 127, 128, 254, 255]), max_size=40)


@given(st.binary(max_size=200) | HARD_BYTES.map(bytes))
def test_bytes_come_back(data: bytes) -> None:
    text = encode_bytes(data)
    assert decode_text(text.decode("utf-8")) == data
    assert len(text) <= -(-8 * len(data) // 7) + 1


@given(st.binary(max_size=200) | HARD_BYTES.map(bytes))
def test_nothing_that_a_parser_or_a_tool_changes_is_in_the_text(data: bytes) -> None:
    text = encode_bytes(data)
    assert not set(text) & set(HARD)
    page = f"<script type='application/octet-stream'>{text.decode()}</script>"
    seen: list[str] = []
    parser = HTMLParser()
    parser.handle_data = seen.append  # type: ignore[method-assign]
    # Line feeds may become both on a way, of which a parser makes one again.
    parser.feed(page.replace("\n", "\r\n").replace("\r\n", "\n"))
    parser.close()
    assert decode_text("".join(seen)) == data


def test_all_symbols_of_seven_bits_have_a_place() -> None:
    """Each of the 128 before each other one, at the end, and alone."""
    for first in range(128):
        for second in range(128):
            bits = f"{first:07b}{second:07b}{first:07b}{second:07b}"
            data = int(bits[:24], 2).to_bytes(3, "big")
            assert decode_text(encode_bytes(data).decode()) == data
    whole = bytes(range(256)) * 7
    assert decode_text(encode_bytes(whole).decode()) == whole
