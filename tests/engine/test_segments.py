from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.segments import SegmentStream
from engine.toolcalls import CLOSE, OPEN, parse_reply, render_call

CALL = render_call("view", {"path": "é.py", "note": "a < b </think"})


def decode(ids: list[int]) -> str:
    return bytes(ids).decode(errors="replace")


@settings(deadline=None)
@given(
    st.sampled_from(["", "why é <b>", "a </thin"]),
    st.sampled_from(["", "So.", "x < y"]),
    st.lists(st.just(CALL), max_size=2),
    st.data(),
)
def test_any_split_gives_the_same_kinds(reasoning: str, content: str, calls: list[str], data: st.DataObject) -> None:
    text = f"{reasoning}\n</think>\n\n" + "\n".join([content, *calls])
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    stream = SegmentStream(decode, thinking=True)
    segments = []
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        segments += stream.feed(list(raw[start:end]))
    segments += stream.feed([], final=True)
    got: dict[str, str] = defaultdict(str)
    for segment in segments:
        assert segment.text
        got[segment.kind] += segment.text
    parsed = parse_reply(text, thinking=True)
    assert got["reasoning"].strip() == parsed.reasoning
    assert got["content"].strip() == parsed.content
    assert got["call"] == "".join(call.raw.removeprefix(OPEN).removesuffix(CLOSE) for call in parsed.calls)


def test_text_is_shown_as_soon_as_it_is_decided() -> None:
    stream = SegmentStream(decode)
    shown = [[segment.text for segment in stream.feed(list(part.encode()))] for part in ("a <too", "l", "s", "b")]
    assert shown == [["a "], [], ["<tools"], ["b"]]


@pytest.mark.parametrize("parts", [["<think>\nwhy</think>", "So."], ["\n<th", "ink>\nwhy", "</think>So."]])
def test_a_turn_that_opens_its_own_reasoning(parts: list[str]) -> None:
    stream = SegmentStream(decode)
    segments = [segment for part in parts for segment in stream.feed(list(part.encode()))]
    assert "".join(s.text for s in segments if s.kind == "reasoning") == "\nwhy"
    assert "".join(s.text for s in segments if s.kind == "content").strip() == "So."
