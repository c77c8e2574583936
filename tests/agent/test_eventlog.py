"""The session log and what is made of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clover_agent.agent import Agent
from clover_agent.backends.protocol import Sampling
from clover_agent.backends.scripted import ScriptedBackend
from clover_agent.eventlog import EventLog, conversation, read_log
from clover_agent.limits import Limits
from clover_agent.messages import Message
from clover_agent.trajectory import trajectory
from engine.events import Tokens
from tests.folder_sandbox import FolderSandbox
from tools.registry import Registry, standard_tools

VIEW = "<tool_call>\n<function=view>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>"
FINISH = (
    "<tool_call>\n<function=finish>\n<parameter=outcome>\nnot_fixed\n</parameter>\n<parameter=summary>\nü\n</parameter>\n"
    "</function>\n</tool_call>"
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder, path = tmp_path / "repo", tmp_path / "runs" / "log.jsonl"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    with EventLog(path) as events:
        events.note("Task", path="a.py")
        agent = Agent(
            ScriptedBackend([VIEW, "hm", FINISH]), Registry(standard_tools("true")), FolderSandbox(folder), events
        )
        agent.run([Message("user", "Fix the bug.")], Limits(), Sampling())
        events(Tokens((1, 2)))
    return path


def test_every_step_is_one_line_of_json(log: Path) -> None:
    rows, notice = read_log(log)
    assert notice == ""
    assert [row["event"] for row in rows] == [
        "Task",
        "EpisodeStarted",
        "Replied",
        "ToolEnded",
        "Replied",
        "Noted",
        "Replied",
        "ToolEnded",
        "EpisodeEnded",
    ]
    assert all(row["time"] > 1.6e9 for row in rows)
    assert rows[3]["observation"] == {"text": "1\tx = 1", "is_error": False, "finished": False, "changed": []}
    assert (rows[-1]["ending"], rows[-1]["claim"], rows[-1]["summary"]) == ("finished", "not_fixed", "ü")


def test_a_half_written_last_line_is_dropped_and_said(log: Path) -> None:
    whole, _ = read_log(log)
    log.write_text(log.read_text()[:-20])
    rows, notice = read_log(log)
    assert rows == whole[:-1]
    assert "last line was not written completely" in notice


def test_a_broken_line_elsewhere_is_an_error(log: Path) -> None:
    lines = log.read_text().splitlines()
    log.write_text("\n".join([*lines[:2], "garbage", *lines[3:]]) + "\n")
    with pytest.raises(ValueError, match="line 3: not a line of a session log"):
        read_log(log)


def test_an_interrupted_call_gets_a_result(log: Path) -> None:
    rows, _ = read_log(log)
    assert [m.role for m in conversation(rows)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "tool",
    ]
    before = conversation(rows[:3])
    assert before[-1] == Message("tool", "[interrupted]", tool_call_id="call_1")
    assert before[-2].tool_calls[0].arguments == {"path": "a.py"}


def test_the_log_is_appended_to(log: Path) -> None:
    count = len(read_log(log)[0])
    with EventLog(log) as events:
        events.note("Resumed")
    assert len(read_log(log)[0]) == count + 1


def test_the_trajectory_has_the_common_form_and_our_evidence(log: Path) -> None:
    rows, _ = read_log(log)
    document = trajectory(rows, exit_status="not_fixed", submission="", config={"seed": 1}, evidence={"tests": 3})
    assert json.loads(json.dumps(document)) == document
    assert document["trajectory_format"] == "mini-swe-agent-1.1"
    assert document["info"]["exit_status"] == "not_fixed"
    assert document["info"]["model_stats"]["api_calls"] == 3
    assert document["info"]["evidence"] == {"tests": 3}
    messages = document["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]
    assert messages[1]["tool_calls"][0]["function"] == {"name": "view", "arguments": '{"path": "a.py"}'}
    assert messages[2]["tool_call_id"] == messages[1]["tool_calls"][0]["id"]
    assert all(m["extra"]["attempt"] == 1 for m in messages)
