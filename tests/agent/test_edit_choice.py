"""Which edits of a small model are run, and what holds its search."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from clover_agent.edit_choice import EditChoice, suspicion
from clover_agent.messages import Message, ToolCall
from tests.folder_sandbox import FolderSandbox
from tools.registry import Registry, standard_tools

CODE = b"""def clamp(value, high):
    # values above the limit
    if value > high:
        value = low
    else:
        value = max(
            value, 0)
    return value
"""
RAN = {1: 0.5, 3: 0.5, 6: 0.1, 8: 0.5}  # the else branch was taken
HEAD = "<tool_call>\n<function=str_replace>\n<parameter=path>\ncode.py\n</parameter>\n<parameter=line>\n"


def call(name: str, **arguments: object) -> Message:
    return Message("assistant", "", tool_calls=(ToolCall("1", name, arguments),))


def edit(line: int, old: str, new: str) -> Message:
    return call("str_replace", path="code.py", line=line, old_str=old, new_str=new)


@pytest.fixture
def choice(tmp_path: Path) -> EditChoice:
    (tmp_path / "code.py").write_bytes(CODE)
    registry = Registry(list(standard_tools("true", 10)))
    found = EditChoice(registry, FolderSandbox(tmp_path), lambda path: RAN if path == "code.py" else {})
    assert found.accepts(call("view", path="code.py", view_range=[1, 8]))
    return found


def test_a_statement_weighs_what_its_heaviest_line_does() -> None:
    weights, anchors = suspicion(CODE, RAN)
    assert weights == {1: 0.5, 2: 0.5, 3: 0.5, 4: 0.1, 5: 0.1, 6: 0.1, 7: 0.1, 8: 0.5}
    assert anchors == {2, 4}  # a comment, and the branch that was not taken


def test_what_failing_tests_did_not_run_is_left_out() -> None:
    weights, _ = suspicion(b"def f():\n    return 1\n\n\ndef g():\n    return 2\n", {1: 1.0, 2: 1.0})
    assert set(weights) == {1, 2}


@pytest.mark.parametrize("data", [b"def f(:\n", b"\x00", b""])
def test_without_python_or_weights_nothing_is_known(data: bytes) -> None:
    assert suspicion(data, RAN) == ({}, frozenset()) == suspicion(CODE, {})


def test_only_new_programs_are_accepted(choice: EditChoice) -> None:
    assert choice.accepts(edit(3, "    if value > high:", "    if value >= high:"))
    assert not choice.accepts(edit(3, "    if value > high:", "    if value >= high:"))  # tried before
    assert not choice.accepts(edit(3, "    if value > high:", "    if (value) > high:"))  # the same program
    assert not choice.accepts(edit(3, "    if value > high:", "    if value > high"))  # no program
    assert not choice.accepts(edit(3, "    if value < high:", "    if value >= high:"))  # does not apply
    assert not choice.accepts(call("str_replace", path="code.py"))
    assert not choice.accepts(Message("assistant", "I have fixed it."))


def test_the_guide_spells_out_all_but_the_line_and_its_new_text(choice: EditChoice) -> None:
    assert choice.guide("") == HEAD
    assert choice.guide("Let me see") is None
    assert choice.guide(HEAD) == "" and choice.guide(HEAD + "9\n") is None
    told = choice.guide(HEAD + "3\n")
    assert told == "</parameter>\n<parameter=old_str>\n    if value > high:\n</parameter>\n<parameter=new_str>\n"
    assert choice.guide(HEAD + "3\n" + told) == ""
    assert choice.guide(HEAD + "3\n" + told + "    if value") == ""


def test_a_line_that_did_not_run_is_kept_and_built_upon(choice: EditChoice) -> None:
    told = choice.guide(HEAD + "4\n")
    assert told is not None and told.endswith("<parameter=new_str>\n        value = low\n")


def test_the_prior_is_what_coverage_says_once_a_line_is_settled(choice: EditChoice) -> None:
    assert choice.prior(HEAD) == choice.prior(HEAD + "6") == choice.prior(HEAD + "3\n") == 0.0
    assert choice.prior(HEAD + "6\n</parameter>") == pytest.approx(0.7 * math.log(0.2))


def test_without_coverage_every_line_shown_is_open(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_bytes(CODE)
    found = EditChoice(Registry(list(standard_tools("true", 10))), FolderSandbox(tmp_path))
    found.look([call("view", path="code.py", view_range=[3, 5])])
    assert [line for line in range(1, 9) if found.guide(f"{HEAD}{line}\n") is not None] == [3, 4, 5]
    assert found.prior(HEAD + "4\n") == 0.0
