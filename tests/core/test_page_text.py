"""Bytes come back from the text that a page holds, through what parsers of HTML do to text."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from sightline.core.page_text import BASE, LEFT_OUT, decode_text, encode_bytes

# Many of the numbers at the edges of what digits hold.
EDGES = st.lists(st.sampled_from([0, 1, 115, 116, 127, 128, 254, 255]), max_size=40)


@given(st.binary(max_size=200) | EDGES.map(bytes))
def test_bytes_come_back(data: bytes) -> None:
    text = encode_bytes(data)
    assert decode_text(text.decode("utf-8")) == data
    assert len(text) == len(data) + -(-len(data) // 6)


@given(st.binary(max_size=200) | EDGES.map(bytes))
def test_nothing_that_a_parser_or_a_tool_changes_is_in_the_text(data: bytes) -> None:
    text = encode_bytes(data)
    assert not set(text) & set(LEFT_OUT)
    page = f"<script type='application/octet-stream'>{text.decode()}</script>"
    seen: list[str] = []
    parser = HTMLParser()
    parser.handle_data = seen.append  # type: ignore[method-assign]
    # Line feeds may become both on a way, of which a parser makes one again.
    parser.feed(page.replace("\n", "\r\n").replace("\r\n", "\n"))
    parser.close()
    assert decode_text("".join(seen)) == data


def test_seven_digits_hold_six_bytes() -> None:
    assert BASE**7 >= 256**6 > (BASE - 1) ** 7
    for number in (0, BASE**6, 256**6 - 1):
        data = number.to_bytes(6, "big")
        assert decode_text(encode_bytes(data).decode()) == data
    whole = bytes(range(256)) * 7
    assert decode_text(encode_bytes(whole).decode()) == whole
