"""From a model's raw text to a Reply, and from messages to the form that chat templates read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clover_agent.messages import Message, Reply, ToolCall, Usage
from engine.chat import Verbatim
from engine.toolcalls import parse_reply, render_call
from tools.protocol import Tool


def reply_from_text(
    text: str,
    tools: Sequence[Tool],
    *,
    first_call: int,
    thinking: bool = False,
    cut: bool = False,
    usage: Usage | None = None,
) -> Reply:
    """Parse an assistant turn in the family's tool-call form.

    first_call: number of the first call's id, so that ids stay unique in a conversation. thinking: the prompt left
    the think block open. cut: generation ended at a limit. Arguments are typed by the tools' schemas; a call that
    can't be read carries its error. finish_reason: "length" only where the cut left no complete call.
    """
    parsed = parse_reply(text, {tool.name: tool.parameters for tool in tools}, thinking)
    calls = tuple(
        ToolCall(f"call_{number}", call.name, call.arguments, call.error, call.raw if call.error else "")
        for number, call in enumerate(parsed.calls, first_call)
    )
    broken_off = cut and (not calls or calls[-1].error)
    reason = "length" if broken_off else "tool_calls" if calls else "stop"
    return Reply(Message("assistant", parsed.content, parsed.reasoning, calls), reason, usage or Usage())


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in Hugging Face form. A turn with an unreadable call is shown as the model wrote it."""
    return [_template_message(message) for message in messages]


def template_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Tool descriptions in Hugging Face form."""
    return [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
        }
        for t in tools
    ]


def _template_message(message: Message) -> dict[str, Any]:
    if message.role != "assistant":
        return {"role": message.role, "content": message.content}
    turn: dict[str, Any] = {"role": "assistant", "content": message.content, "reasoning_content": message.reasoning}
    if any(call.arguments is None for call in message.tool_calls):
        raw = "\n".join(call.raw or render_call(call.name, call.arguments or {}) for call in message.tool_calls)
        turn["content"] = Verbatim("\n\n".join(part for part in (message.content, raw) if part))
    elif message.tool_calls:
        turn["tool_calls"] = [
            {
                "type": "function",
                "id": call.id,
                "function": {"name": call.name, "arguments": dict(call.arguments or {})},
            }
            for call in message.tool_calls
        ]
    return turn
