"""The same output, cut in every way, gives the same segments."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.constraints import ToolCalls
from engine.engine import Engine
from engine.events import BlockUpdate, Finished
from engine.params import GenerationParams
from engine.response import respond, stream, stream_async
from engine.streaming import ArgumentDelta, CallEnd, CallStart, Segment, SegmentReader, Text, Thinking
from engine.toolcalls import parse_reply, render_call

SCHEMAS = {"edit": {"type": "object", "properties": {"code": {"type": "string"}, "n": {"type": "integer"}}}}
VALUES = [
    "",
    "x",
    "a < b\n</para",
    "</parameter>\n",
    "é\n</parameter>\nz",
    "</tool_call>",
    "<think>",
    "\n\n<parameter=q",
]


def decode(ids: list[int]) -> str:
    return bytes(ids).decode(errors="replace")


def joined(segments: list[Segment]) -> dict[object, str]:
    """Text by kind, and by call and argument."""
    got: dict[object, str] = defaultdict(str)
    for segment in segments:
        match segment:
            case Thinking(text):
                got["thinking"] += text
            case Text(text):
                got["text"] += text
            case CallStart(number, name):
                got["name", number] += name
            case ArgumentDelta(number, argument, text):
                assert text
                got[number, argument] += text
            case CallEnd(number, call):
                got["end", number] += repr(call)
    return got


def segments_of(raw: bytes, cuts: list[int], thinking: bool) -> list[Segment]:
    reader = SegmentReader(decode, thinking=thinking, schemas=SCHEMAS)
    segments: list[Segment] = []
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        segments += reader.feed(list(raw[start:end]))
    return segments + reader.feed([], final=True)


calls = st.lists(st.tuples(st.sampled_from(VALUES), st.integers(-3, 300)), max_size=2)


@settings(deadline=None)
@given(
    st.sampled_from(["", "why é <b>", "a </thin"]),
    st.sampled_from(["", "So.", "x < y <tool"]),
    calls,
    st.integers(1, 9),
)
def test_every_block_boundary_gives_the_same_segments(
    reasoning: str, content: str, arguments: list[tuple[str, int]], block: int
) -> None:
    written = [render_call("edit", {"code": code, "n": n}) for code, n in arguments]
    raw = (f"{reasoning}\n</think>\n\n" + "\n".join([content, *written])).encode()
    parsed = parse_reply(raw.decode(), SCHEMAS, thinking=True)
    for offset in range(block):  # blocks of one size from every start: all boundaries are tried
        got = joined(segments_of(raw, list(range(offset, len(raw), block)), True))
        assert got["thinking"].strip() == parsed.reasoning == reasoning.strip()
        assert got["text"].strip() == parsed.content
        for number, ((code, n), call) in enumerate(zip(arguments, parsed.calls, strict=True)):
            assert call.arguments == {"code": code, "n": n}
            assert got["name", number] == "edit"
            assert (got[number, "code"], got[number, "n"]) == (code, str(n))
            assert got["end", number] == repr(call)


def test_text_is_shown_as_soon_as_it_is_decided() -> None:
    reader = SegmentReader(decode)
    parts = [
        "a <too",
        "l",
        "s",
        "b<tool_call>\n<function=f>\n<parameter=p>\nx\n</par",
        "ent",
        "\n</parameter>\n<x",
        "\n",
    ]
    shown = [reader.feed(list(part.encode())) for part in parts]
    assert shown[:3] == [[Text("a ")], [], [Text("<tools")]]
    assert shown[3:] == [
        [Text("b"), CallStart(0, "f"), ArgumentDelta(0, "p", "x")],
        [ArgumentDelta(0, "p", "\n</parent")],
        [ArgumentDelta(0, "p", "\n</parameter>\n<x")],
        [],
    ]


@pytest.mark.parametrize("parts", [["<think>\nwhy</think>", "So."], ["\n<th", "ink>\nwhy", "</think>So."]])
def test_a_turn_that_opens_its_own_thinking(parts: list[str]) -> None:
    reader = SegmentReader(decode)
    got = joined([segment for part in parts for segment in reader.feed(list(part.encode()))])
    assert got["thinking"] == "\nwhy"
    assert got["text"].strip() == "So."


def test_a_cut_call_has_no_end_and_loses_no_text() -> None:
    text = "Hm.<tool_call>\n<function=edit>\n<parameter=code>\nabc\n</param"
    segments = segments_of(text.encode(), [], False)
    assert joined(segments) == {"text": "Hm.", ("name", 0): "edit", (0, "code"): "abc\n</param"}


def test_engine_streams_to_threads_and_event_loops() -> None:
    engine = Engine.load(Path(__file__).parents[1] / "data" / "tiny-clover" / "coreset-0.6-4-layers")
    tools = {"f": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}, "required": ["a"]}}
    params = GenerationParams(max_new_tokens=128, constraint=ToolCalls(tools, "required", False))
    whole = respond(engine, [1, 2], params)
    assert whole.finish_reason == "tool_calls" and whole.calls[0].name == "f"
    events = list(stream(engine, [1, 2], params, blocks=True))
    assert any(isinstance(event, BlockUpdate) for event in events) and isinstance(events[-1], Finished)
    segments = [event for event in events if not isinstance(event, BlockUpdate | Finished)]
    assert segments[0] == CallStart(0, "f") and segments[-1] == CallEnd(0, whole.calls[0])

    async def collect() -> list[object]:
        return [event async for event in stream_async(engine, [1, 2], params)]

    assert asyncio.run(collect())[:-1] == segments
    cut = respond(engine, [1, 2], GenerationParams(max_new_tokens=9, constraint=params.constraint))
    assert (cut.finish_reason, cut.calls) == ("length", ())
