from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clover_agent.backends.protocol import Backend, BackendError, Sampling
from clover_agent.backends.replies import reply_from_text, template_messages
from clover_agent.backends.scripted import ScriptedBackend
from clover_agent.messages import Message, Reply, ToolCall
from engine.chat import Verbatim
from engine.toolcalls import render_call


@dataclass
class FakeTool:
    name: str = "view"
    description: str = "Shows a file."
    parameters: dict[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}}
    )

    def run(self, arguments: Any, sandbox: Any) -> Any:
        raise AssertionError("a backend runs no tool")


TOOLS = [FakeTool()]
TASK = (Message("user", "go"),)
CALL = render_call("view", {"path": "a.py", "n": 3})


def test_texts_replies_and_functions_come_in_order() -> None:
    reply = Reply(Message("assistant", "bye"), "stop")
    backend: Backend = ScriptedBackend([CALL, lambda messages: f"saw {len(messages)}", reply])
    first = backend.complete(TASK, TOOLS, Sampling())
    assert first.message.tool_calls == (ToolCall("call_1", "view", {"path": "a.py", "n": 3}),)
    assert first.finish_reason == "tool_calls"
    second = backend.complete((*TASK, first.message, Message("tool", "x", tool_call_id="call_1")), TOOLS, Sampling())
    assert (second.message.content, second.finish_reason) == ("saw 3", "stop")
    assert backend.complete(TASK, TOOLS, Sampling()) is reply
    with pytest.raises(BackendError, match="no reply left after 3"):
        backend.complete(TASK, TOOLS, Sampling())


def test_call_ids_go_on_through_a_conversation() -> None:
    backend = ScriptedBackend([CALL])
    asked = Message("assistant", "", tool_calls=(ToolCall("call_1", "view", {}), ToolCall("call_2", "view", {})))
    reply = backend.complete((*TASK, asked), TOOLS, Sampling())
    assert [call.id for call in reply.message.tool_calls] == ["call_3"]


def test_script_file(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    entries = [CALL, {"content": "done", "tool_calls": [{"name": "finish", "arguments": {"outcome": "fixed"}}]}]
    path.write_text(json.dumps(entries))
    backend = ScriptedBackend.load(path)
    assert backend.complete(TASK, TOOLS, Sampling()).message.tool_calls[0].arguments == {"path": "a.py", "n": 3}
    reply = backend.complete(TASK, TOOLS, Sampling())
    assert reply.message.content == "done"
    assert reply.message.tool_calls[0].name == "finish"
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "can't be read"),
        ("{}", "must be a JSON list"),
        ("[3]", "reply 1 must be a text"),
        ('[{"tool_calls": {}}]', "reply 1 must be a text"),
        ('["a", {"tool_calls": [{}]}]', "reply 2: every tool call needs a name"),
    ],
)
def test_broken_script_files(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "script.json").write_text(text)
    with pytest.raises(BackendError, match=complaint):
        ScriptedBackend.load(tmp_path / "script.json")
    with pytest.raises(BackendError, match="can't be read"):
        ScriptedBackend.load(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("text", "cut", "reason"),
    [
        ("hello", False, "stop"),
        ("hello", True, "length"),
        (CALL, False, "tool_calls"),
        (CALL, True, "tool_calls"),
        (CALL[:-5], True, "length"),
        (CALL[:-5], False, "tool_calls"),
    ],
)
def test_finish_reasons(text: str, cut: bool, reason: str) -> None:
    assert reply_from_text(text, TOOLS, first_call=1, cut=cut).finish_reason == reason


def test_an_unreadable_call_goes_back_as_it_was_written() -> None:
    text = (
        "Look:\n\n"
        + CALL
        + "\n<tool_call>\n<function=view>\n<parameter=n>\nthree\n</parameter>\n</function>\n</tool_call>"
    )
    message = reply_from_text(text, TOOLS, first_call=1).message
    good, bad = message.tool_calls
    assert (good.error, bad.arguments) == ("", None)
    assert "'n' must be JSON (integer)" in bad.error
    (turn,) = template_messages([message])
    assert turn["content"] == text
    assert isinstance(turn["content"], Verbatim)
    assert "tool_calls" not in turn


def test_a_readable_call_goes_back_as_a_call() -> None:
    message = reply_from_text("Look:\n\n" + CALL, TOOLS, first_call=1).message
    (turn,) = template_messages([message])
    assert not isinstance(turn["content"], Verbatim)
    assert turn["tool_calls"][0]["function"] == {"name": "view", "arguments": {"path": "a.py", "n": 3}}
