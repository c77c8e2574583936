"""A conversation in the making, and its token ids as the checkpoint's chat template would give them."""

from __future__ import annotations

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
        self._encode = tokenizer.encode
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
                ids += [self._call, *self._encode(inside), self._call_end, self._stop]
                spans.append(Span(start, len(ids), *next(turns)))
            elif message["role"] == "tool":
                content = self._encode(f"\n{message['content']}\n")
                ids += [*self._user, self._response, *content, self._response_end, self._stop]
            else:
                ids += [*self._encode(f"user\n{message['content']}"), self._stop]
            if len(ids) > longest:
                return None
        return Example(ids, tuple(spans))
