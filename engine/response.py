"""A whole response, read; and its stream, read as it comes, for callers with threads and for callers with an event
loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.constraints import ToolCalls
from engine.engine import Engine
from engine.events import BlockUpdate, Finished, Tokens
from engine.params import GenerationParams
from engine.streaming import Segment, SegmentReader
from engine.toolcalls import ParsedCall, parse_reply

StreamEvent = Segment | BlockUpdate | Finished


@dataclass(frozen=True)
class Response:
    """What came out. text: all of it, without the stop id. calls: complete ones only.

    finish_reason: "stop", "tool_calls" (stopped, and there are calls), or "length", "repetition", "deadline" for a
    response that was cut, whatever it holds.
    """

    text: str
    reasoning: str
    content: str
    calls: tuple[ParsedCall, ...]
    token_ids: tuple[int, ...]
    finish_reason: str
    report: Finished


def respond(
    engine: Engine,
    prompt_ids: Sequence[int],
    params: GenerationParams | None = None,
    *,
    schemas: Mapping[str, Mapping[str, Any]] | None = None,
) -> Response:
    """Generate and read a whole response. schemas: as for `stream`. Raises as `Engine.generate` does."""
    ids: list[int] = []
    for event in engine.generate(prompt_ids, params):
        if isinstance(event, Tokens):
            ids.extend(event.ids)
        elif isinstance(event, Finished):
            return read(engine, prompt_ids, ids, event, schemas or _schemas(params))
    raise RuntimeError("a generation ends with Finished")


def read(
    engine: Engine,
    prompt_ids: Sequence[int],
    ids: Sequence[int],
    report: Finished,
    schemas: Mapping[str, Mapping[str, Any]] | None = None,
) -> Response:
    """Read the ids of a finished generation."""
    text = engine.tokenizer.decode(_without_stop(engine, ids))
    parsed = parse_reply(text, schemas, thinking=engine.leaves_thinking_open(prompt_ids))
    complete = tuple(call for call in parsed.calls if not call.error or report.reason == "stop")
    reason = "tool_calls" if report.reason == "stop" and complete else report.reason
    return Response(text, parsed.reasoning, parsed.content, complete, tuple(ids), reason, report)


def stream(
    engine: Engine,
    prompt_ids: Sequence[int],
    params: GenerationParams | None = None,
    *,
    schemas: Mapping[str, Mapping[str, Any]] | None = None,
    blocks: bool = False,
) -> Iterator[StreamEvent]:
    """Segments as they become final, and `Finished` at the end; with `blocks` also what each preview resolved.

    schemas: of the tools' arguments by tool name, by default those of the request's constraint. Raises at once as
    `Engine.generate` does.
    """
    events = engine.generate(prompt_ids, params)
    thinking = engine.leaves_thinking_open(prompt_ids)
    reader = SegmentReader(engine.tokenizer.decode, thinking=thinking, schemas=schemas or _schemas(params))

    def segments() -> Iterator[StreamEvent]:
        for event in events:
            if isinstance(event, Tokens):
                yield from reader.feed(_without_stop(engine, event.ids))
            elif isinstance(event, Finished):
                yield from reader.feed([], final=True)
                yield event
            elif blocks:
                yield event

    return segments()


async def stream_async(
    engine: Engine,
    prompt_ids: Sequence[int],
    params: GenerationParams | None = None,
    *,
    schemas: Mapping[str, Mapping[str, Any]] | None = None,
    blocks: bool = False,
) -> AsyncIterator[StreamEvent]:
    """As `stream`, for an event loop: each step of the engine runs in a thread, one at a time. A task that is
    cancelled ends the generation behind the step that is running."""
    events = stream(engine, prompt_ids, params, schemas=schemas, blocks=blocks)
    step = None
    try:
        while True:
            step = asyncio.ensure_future(asyncio.to_thread(next, events, None))
            event = await asyncio.shield(step)
            if event is None:
                return
            yield event
    finally:
        if step is not None and not step.done():
            await asyncio.wait([step])


def _schemas(params: GenerationParams | None) -> Mapping[str, Mapping[str, Any]] | None:
    constraint = params.constraint if params is not None else None
    return constraint.tools if isinstance(constraint, ToolCalls) else None


def _without_stop(engine: Engine, ids: Sequence[int]) -> Sequence[int]:
    return ids[:-1] if ids and ids[-1] in engine.generation_config.stop_ids else ids
