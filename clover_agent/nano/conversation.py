"""A conversation in the making, and its token ids as the checkpoint's chat template would give them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.tokenizer import Tokenizer
from engine.toolcalls import render_call
from engine.training.packing import Example, Span


@dataclass
class Conversation:
    """Messages in Hugging Face form, and for each assistant turn its loss weight and whether it is the scored edit."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    turns: list[tuple[float, bool]] = field(default_factory=list)

    def call(self, name: str, arguments: dict[str, Any], *, weight: float = 1.0, scored: bool = False) -> None:
        """An assistant turn: one tool call and nothing else."""
        function = {"name": name, "arguments": arguments}
        self.messages.append({"role": "assistant", "content": "", "tool_calls": [{"function": function}]})
        self.turns.append((weight, scored))

    def say(self, role: str, content: str) -> None:
        """A user message or a tool's observation."""
        self.messages.append({"role": role, "content": content})


class Encoder:
    """Conversations to examples: `Tokenizer.encode_chat` without thinking, for turns of one call each.

    It walks the messages itself because the template, made for any conversation, takes ten times as long;
    tests hold the two to the same ids.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._encode, self._starts = tokenizer.encode, tokenizer.starts
        special = tokenizer.token_id
        self._start, self._stop = special("<|im_start|>"), special("<|im_end|>")
        newline, gap = tokenizer.encode("\n"), tokenizer.encode("\n\n")
        self._next = [*newline, self._start]
        self._user = tokenizer.encode("user\n")
        self._assistant = [*tokenizer.encode("assistant\n"), special("<think>"), *gap, special("</think>")]
        self._gap = gap
        self._call, self._call_end = special("<tool_call>"), special("</tool_call>")
        self._response, self._response_end = special("<tool_response>"), special("</tool_response>")

    def __call__(self, talk: Conversation, longest: int) -> Example | None:
        """Token ids from the first turn to the last one's stop token; None for more than `longest` of them."""
        ids: list[int] = []
        spans: list[Span] = []
        turns = iter(talk.turns)
        for message in talk.messages:
            ids += self._next if ids else [self._start]
            if message["role"] == "assistant":
                ids += [*self._assistant, *self._gap]
                start = len(ids)
                function = message["tool_calls"][0]["function"]
                text = render_call(function["name"], function["arguments"])
                inside = text.removeprefix("<tool_call>").removesuffix("</tool_call>")
                written = self._encode(inside)
                keys = self._keys(inside, function["arguments"], start + 1, len(written))
                ids += [self._call, *written, self._call_end, self._stop]
                spans.append(Span(start, len(ids), *next(turns), keys))
            elif message["role"] == "tool":
                content = self._encode(f"\n{message['content']}\n")
                ids += [*self._user, self._response, *content, self._response_end, self._stop]
            else:
                ids += [*self._encode(f"user\n{message['content']}"), self._stop]
            if len(ids) > longest:
                return None
        return Example(ids, tuple(spans))

    def _keys(self, text: str, arguments: Mapping[str, Any], first: int, count: int) -> frozenset[int]:
        """Positions of the tokens of an edit, the first at `first`, that say which line, and what becomes of it.

        Empty where the text holds a special token's text, so that its `count` ids have no simple places in it.
        """
        starts = self._starts(text) if "old_str" in arguments else []
        if len(starts) != count:
            return frozenset()
        old, new = arguments["old_str"], arguments["new_str"]
        line = text.index("<parameter=line>\n") + len("<parameter=line>\n")
        body = text.index("<parameter=new_str>\n") + len("<parameter=new_str>\n")
        same = _common(old, new)
        tail = _common(old[same:][::-1], new[same:][::-1])
        wanted = ((line, line + len(str(arguments["line"]))), (body + same, body + len(new) - tail))
        return frozenset(
            first + token
            for start, end in wanted
            for token in range(bisect_right(starts, start) - 1, bisect_right(starts, max(end - 1, start)))
        )


def _common(one: str, other: str) -> int:
    """Characters that both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
