"""Output is bounded, and clean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.output import Head, clean


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[31mred\x1b[0m\n", "red\n"),
        (b"\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        (b"10%\r50%\r100%\n", "100%\n"),
        (b"dos\r\nline\r\n", "dos\nline\n"),
        (b"nul\x00bell\x07tab\t", "nulbelltab\t"),
        (b"caf\xe9", "caf\ufffd"),
        ("über".encode(), "über"),
    ],
)
def test_clean(data: bytes, text: str) -> None:
    assert clean(data) == text


@given(st.lists(st.binary(max_size=40)), st.integers(0, 30), st.integers(1, 30))
def test_head_keeps_both_ends_and_counts_the_rest(pieces: list[bytes], head: int, tail: int) -> None:
    sink = Head(head, tail)
    for piece in pieces:
        sink.add(piece)
    whole = b"".join(pieces)
    assert sink.total == len(whole)
    assert sink.omitted == max(0, len(whole) - head - tail)
    if not sink.omitted:
        assert sink.text() == clean(whole)
