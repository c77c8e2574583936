"""The loop, driven by scripts: ends, limits, faults, and what it tells."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from clover_agent.agent import Agent, Episode, repeats
from clover_agent.backends.protocol import ContextOverflow, Sampling
from clover_agent.backends.scripted import Item, ScriptedBackend
from clover_agent.events import EpisodeEnded, EpisodeStarted, Noted, Replied, ToolEnded, ToolStarted
from clover_agent.limits import Ending, Limits
from clover_agent.messages import Message, Reply, ToolCall, Usage
from sandboxes.protocol import SandboxError
from tests.folder_sandbox import FolderSandbox
from tools.registry import Registry, standard_tools

TASK = [Message("user", "Fix the bug.")]


def call(name: str, **arguments: object) -> Reply:
    return Reply(
        Message("assistant", "", tool_calls=(ToolCall(f"c-{name}", name, arguments),)),
        "tool_calls",
        Usage(completion_tokens=10, passes=2, commits=1, seconds=0.5),
    )


FIX = call("str_replace", path="add.py", line=2, old_str="    return a - b", new_str="    return a + b")
FINISH = call("finish", outcome="fixed", summary="Sum.")


@pytest.fixture
def sandbox(tmp_path: Path) -> FolderSandbox:
    (tmp_path / "add.py").write_text("def add(a, b):\n    return a - b\n")
    (tmp_path / "check.py").write_text("import sys\nfrom add import add\nsys.exit(add(2, 2) != 4)\n")
    return FolderSandbox(tmp_path)


def run(
    sandbox: FolderSandbox, items: Sequence[Item], limits: Limits | None = None, observer: list[object] | None = None
) -> tuple[Episode, ScriptedBackend]:
    backend, seen = ScriptedBackend(items), [] if observer is None else observer
    agent = Agent(backend, Registry(standard_tools("python3 check.py")), sandbox, seen.append)
    return agent.run(TASK, limits or Limits(max_turns=20), Sampling()), backend


def test_a_whole_episode(sandbox: FolderSandbox, tmp_path: Path) -> None:
    seen: list[object] = []
    view = call("view", path="add.py", view_range=[1, 2])
    episode, backend = run(sandbox, [view, FIX, call("run_tests"), FINISH], observer=seen)
    assert (episode.ending, episode.claim, episode.summary) == (Ending.FINISHED, "fixed", "Sum.")
    assert episode.report is not None and episode.report.ok
    assert (episode.turns, episode.calls, episode.valid_calls, episode.edits) == (4, 4, 4, 1)
    assert (episode.usage.completion_tokens, episode.usage.passes, episode.usage.seconds) == (40, 8, 2.0)
    assert (tmp_path / "add.py").read_text() == "def add(a, b):\n    return a + b\n"
    roles = [message.role for message in episode.messages]
    assert roles == ["user", *["assistant", "tool"] * 4]
    assert episode.messages[2].content == "1\tdef add(a, b):\n2\t    return a - b"
    assert episode.messages[4].content == "Edited add.py\n@@ -2 +2 @@\n-    return a - b\n+    return a + b"
    assert backend.requests[-1] == episode.messages[:7]
    assert [type(event) for event in seen[:4]] == [EpisodeStarted, Replied, ToolStarted, ToolEnded]
    assert seen[-1] == EpisodeEnded(1, Ending.FINISHED, "fixed", "Sum.")


def test_the_tests_word_counts_only_until_the_next_edit(sandbox: FolderSandbox) -> None:
    spoil = call("create", path="other.py", content="x = 1\n")
    assert run(sandbox, [FIX, call("run_tests"), spoil, FINISH])[0].report is None
    assert run(sandbox, [call("run_tests"), call("terminal", command="true"), FINISH])[0].report is None
    assert run(sandbox, [call("run_tests"), call("view", path="add.py"), FINISH])[0].report


def test_faulty_calls_are_told_and_counted(sandbox: FolderSandbox) -> None:
    items = [
        Reply(
            Message("assistant", "", tool_calls=(ToolCall("c", "view", None, "no </tool_call>", "<tool_call>"),)),
            "stop",
        ),
        call("veiw", path="add.py"),
        call("view", path="add.py"),
        call("view"),
        FINISH,
    ]
    episode, _ = run(sandbox, items)
    told = [message.content for message in episode.messages if message.role == "tool"]
    assert told[0] == "no </tool_call>"
    assert told[1].startswith("There is no tool 'veiw'. Did you mean view?")
    assert told[3] == "view: 'path' is a required property"
    assert (episode.ending, episode.calls, episode.valid_calls) == (Ending.FINISHED, 5, 2)


def test_an_edit_that_does_not_apply_is_valid_but_an_error(sandbox: FolderSandbox) -> None:
    seen: list[object] = []
    episode, _ = run(sandbox, [call("str_replace", path="add.py", old_str="nope", new_str="x"), FINISH], observer=seen)
    assert episode.valid_calls == 2
    assert episode.edits == 0
    assert next(event for event in seen if isinstance(event, ToolEnded)).observation.is_error


def test_talk_without_calls_ends_as_a_format_fault(sandbox: FolderSandbox) -> None:
    talk = Reply(Message("assistant", "I think..."), "stop")
    cut = Reply(Message("assistant", "<tool_call>"), "length")
    seen: list[object] = []
    episode, _ = run(sandbox, [talk, cut, talk, FINISH], observer=seen)
    assert (episode.ending, episode.turns) == (Ending.FORMAT, 3)
    notes = [event.message.content for event in seen if isinstance(event, Noted)]
    assert [note.split(".")[0] for note in notes] == [
        "No tool was called",
        "Your reply was cut off at its limit before a complete tool call",
    ]
    assert run(sandbox, [talk, talk, call("view", path="add.py"), talk, talk, FINISH])[0].ending == Ending.FINISHED


def test_going_round_in_circles_ends_as_stuck(sandbox: FolderSandbox) -> None:
    same = call("view", path="add.py")
    assert run(sandbox, [same] * 5)[0].turns == 3
    back = call("str_replace", path="add.py", old_str="    return a + b", new_str="    return a - b")
    episode, _ = run(sandbox, [FIX, back] * 5)
    assert (episode.ending, episode.turns) == (Ending.STUCK, 6)


@pytest.mark.parametrize(
    ("trace", "stuck"),
    [
        ("abc", False),
        ("aba", False),
        ("aaa", True),
        ("baaa", True),
        ("aab", False),
        ("ababab", True),
        ("ababac", False),
        ("abcabc", False),
    ],
)
def test_what_counts_as_a_circle(trace: str, stuck: bool) -> None:
    assert repeats(trace) == stuck


@pytest.mark.parametrize(
    ("limits", "ending", "turns"),
    [
        (Limits(max_turns=2), Ending.TURNS, 2),
        (Limits(max_tokens=15), Ending.TOKENS, 2),
        (Limits(deadline=time.monotonic() - 1), Ending.TIME, 0),
    ],
)
def test_limits(sandbox: FolderSandbox, limits: Limits, ending: Ending, turns: int) -> None:
    views = [call("view", path="add.py", view_range=[1, n]) for n in (1, 2)]
    episode, _ = run(sandbox, [*views, FINISH], limits)
    assert (episode.ending, episode.turns) == (ending, turns)


def test_the_deadline_reaches_the_model(sandbox: FolderSandbox) -> None:
    asked: list[Sampling] = []

    class Backend(ScriptedBackend):
        def complete(self, messages, tools, sampling, on_event=None):
            asked.append(sampling)
            return super().complete(messages, tools, sampling, on_event)

    soon = time.monotonic() + 5
    agent = Agent(Backend([FINISH]), Registry(standard_tools("true")), sandbox)
    agent.run(TASK, Limits(deadline=soon), Sampling(temperature=0.5, deadline=soon + 60))
    assert (asked[0].deadline, asked[0].temperature) == (soon, 0.5)


def test_a_full_context_is_an_end_and_infrastructure_faults_pass(sandbox: FolderSandbox) -> None:
    def overflow(messages: Sequence[Message]) -> Reply:
        raise ContextOverflow("too long")

    assert run(sandbox, [overflow])[0].ending == Ending.CONTEXT

    def gone(path: str) -> bytes:
        raise SandboxError("the container is gone")

    sandbox.read_bytes = gone  # type: ignore[method-assign]
    with pytest.raises(SandboxError, match="gone"):
        run(sandbox, [call("view", path="add.py")])


def test_calls_behind_finish_are_not_run(sandbox: FolderSandbox, tmp_path: Path) -> None:
    both = Message("assistant", "", tool_calls=(*FINISH.message.tool_calls, *FIX.message.tool_calls))
    episode, _ = run(sandbox, [Reply(both, "tool_calls")])
    assert (episode.ending, episode.calls) == (Ending.FINISHED, 1)
    assert "a - b" in (tmp_path / "add.py").read_text()
