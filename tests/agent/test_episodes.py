"""The training conversations: what the product renders, and edits that really repair the file."""

from __future__ import annotations

import random
import re
from collections import deque
from itertools import islice
from pathlib import Path

import pytest

from clover_agent.nano.conversation import Conversation, Encoder
from clover_agent.nano.edits import Edit, needless_change, repairing_edit, wrong_change
from clover_agent.nano.episodes import (
    MAX_TOKENS,
    TOKENIZER,
    Bug,
    draw_bug,
    draw_episodes,
    episode,
    heldout,
    score,
    stream,
)
from clover_agent.nano.functions import Function, prepare
from engine.tokenizer import Tokenizer
from engine.toolcalls import parse_reply
from engine.training.bugs import Mutation
from tests.agent.nano_corpus import modules, write
from tools.editing import replace
from tools.registry import Registry, standard_tools
from tools.render import render_view
from tools.textfile import TextFile

REGISTRY = Registry(standard_tools("pytest"))
SCHEMAS = {tool.name: tool.parameters for tool in standard_tools("pytest")}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(TOKENIZER)


def bugs(count: int, seed: int = 0) -> list[tuple[Bug, Conversation]]:
    """Bugs of the standard library with whole conversations."""
    rng = random.Random(seed)
    found: list[tuple[Bug, Conversation]] = []
    texts = modules()
    while len(found) < count:
        module = rng.choice(texts)
        prepared = prepare(module, keep_docstrings=rng.random() < 0.5)
        assert prepared is not None
        drawn = draw_bug(module, prepared, rng)
        talk = episode(*drawn, [], rng) if drawn else None
        if drawn and talk:
            found.append((drawn[0], talk))
    return found


def test_the_quick_encoding_equals_the_chat_template(tokenizer: Tokenizer) -> None:
    encode = Encoder(tokenizer)
    rng = random.Random(1)
    kinds: set[int] = set()
    for module in modules():
        for talk in draw_episodes(module, deque(), rng, 12):
            example = encode(talk, 10**9)
            assert example is not None
            ids = tokenizer.encode_chat(talk.messages, add_generation_prompt=False, enable_thinking=False)
            assert [*example.tokens, *tokenizer.encode("\n")] == ids
            kinds.add(len(talk.turns))
    assert len(kinds) > 2, "short, whole and corrected episodes must all have been drawn"


def test_text_that_looks_like_special_tokens_stays_text(tokenizer: Tokenizer) -> None:
    talk = Conversation()
    talk.say("user", "Fix <|im_end|> and </tool_call><think>")
    talk.call("str_replace", {"path": "a.py", "line": 3, "old_str": "x = '<|im_end|>'", "new_str": "</parameter>\n<"})
    talk.say("tool", "</tool_response>\n<|im_start|>user <")
    example = Encoder(tokenizer)(talk, 10**9)
    assert example is not None
    ids = tokenizer.encode_chat(talk.messages, add_generation_prompt=False, enable_thinking=False)
    assert [*example.tokens, *tokenizer.encode("\n")] == ids
    assert list(example.tokens).count(tokenizer.token_id("<|im_end|>")) == 3


def test_a_span_is_what_the_model_writes_after_the_generation_prompt(tokenizer: Tokenizer) -> None:
    encode = Encoder(tokenizer)
    for _, talk in bugs(40, seed=2):
        example = encode(talk, 10**9)
        assert example is not None and len(example.spans) == len(talk.turns)
        assistant = [number for number, message in enumerate(talk.messages) if message["role"] == "assistant"]
        for number, span in zip(assistant, example.spans, strict=True):
            prompt = tokenizer.encode_chat(talk.messages[:number], enable_thinking=False)
            assert list(example.tokens[: span.start]) == prompt
            assert example.tokens[span.end - 1] == tokenizer.token_id("<|im_end|>")
            reply = parse_reply(tokenizer.decode(list(example.tokens[span.start : span.end - 1])), SCHEMAS)
            assert [call.error for call in reply.calls] == [""] and not reply.content
            function = talk.messages[number]["tool_calls"][0]["function"]
            assert (reply.calls[0].name, reply.calls[0].arguments) == (function["name"], function["arguments"])
            assert REGISTRY.check(function["name"], function["arguments"]) == ""


def test_the_edits_applied_by_the_tool_itself_restore_the_sound_file() -> None:
    outcomes: dict[str, int] = {}
    for bug, talk in bugs(250, seed=3):
        data = ("\n".join(bug.buggy) + "\n").encode()
        for message in talk.messages:
            if message["role"] != "assistant" or message["tool_calls"][0]["function"]["name"] != "str_replace":
                continue
            given = message["tool_calls"][0]["function"]["arguments"]
            file = TextFile.parse(bug.path, data)
            data = replace(bug.path, file, given["old_str"], given["new_str"], given["line"])
        last = talk.messages[-1]["tool_calls"][0]["function"]
        outcome = last["arguments"].get("outcome", "edit")
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        assert (data.decode() == bug.sound) == (outcome != "not_fixed")
    assert outcomes["fixed"] > 12 and outcomes["not_fixed"] > 0 and outcomes["edit"] > 100


def test_wrong_edits_have_no_weight_and_only_a_first_right_one_is_scored() -> None:
    for bug, talk in bugs(200, seed=4):
        edits = [
            (message["tool_calls"][0]["function"]["arguments"], turn)
            for message, turn in zip(
                (m for m in talk.messages if m["role"] == "assistant"), talk.turns, strict=True
            )
            if message["tool_calls"][0]["function"]["name"] == "str_replace"
        ]  # fmt: skip
        first, (weight, scored) = edits[0]
        right = first == bug.edit.arguments(bug.path)
        assert (weight > 0, scored) == (right, right)
        assert not any(turn[1] for _, turn in edits[1:])


def test_the_view_shows_every_line_that_the_first_edit_replaces() -> None:
    for bug, talk in bugs(150, seed=5):
        first, last = talk.messages[1]["tool_calls"][0]["function"]["arguments"]["view_range"]
        assert talk.messages[2]["content"] == render_view(bug.buggy[first - 1 : last], first)
        assert first <= bug.edit.line <= bug.edit.last <= last
        named = f"{bug.path}:{first}-{last} {bug.function.name}" in talk.messages[0]["content"]
        frames = re.findall(rf"^{re.escape(bug.path)}:(\d+): in ", talk.messages[0]["content"], re.MULTILINE)
        assert named or first <= int(frames[-1]) <= last, "without suspects the traceback must show where"


def test_docstrings_are_left_out_with_the_lines_told_right() -> None:
    module = next(module for module in modules() if module.path == "textwrap.py")
    full, short = prepare(module, keep_docstrings=True), prepare(module, keep_docstrings=False)
    assert full is not None and short is not None and len(short.source) < len(full.source)
    before, after = full.source.split("\n"), short.source.split("\n")
    kept = [number for number in range(1, len(before)) if number not in set(short.gone)]
    assert [before[number - 1] for number in kept] == [after[short.line(number) - 1] for number in kept]
    assert {f.name for f in short.functions} <= {f.name for f in full.functions}


def test_a_dropped_line_is_put_back_behind_the_nearest_line_with_text() -> None:
    buggy = ["def f(x):", "    y = x", "", "    return y"]
    mutation = Mutation("dropped_update", 4, ("    y += 1",), (), "")
    edit = repairing_edit(buggy, mutation, Function("f", 1, 4))
    assert edit is not None and edit == Edit(2, ("    y = x", ""), ("    y = x", "", "    y += 1"))
    assert edit.apply(buggy) == ["def f(x):", "    y = x", "", "    y += 1", "    return y"]
    assert edit.undone().apply(edit.apply(buggy)) == buggy
    with pytest.raises(ValueError, match="line 2"):
        edit.apply(["def f(x):", "    z = x", ""])


def test_hasty_edits_are_wrong_and_fit_the_buggy_file() -> None:
    rng = random.Random(6)
    drawn = [0, 0]
    for bug, _ in bugs(150, seed=6):
        other = wrong_change(bug.sound, bug.edit, rng)
        if other is not None:
            drawn[0] += 1
            changed = other.apply(bug.buggy)
            assert changed != list(bug.buggy) and "\n".join(changed) + "\n" != bug.sound
        needless = needless_change(bug.sound, bug.edit, bug.function, rng)
        if needless is not None:
            drawn[1] += 1
            assert bug.edit.apply(needless.undone().apply(needless.apply(bug.buggy))) == bug.sound[:-1].split("\n")
    assert min(drawn) > 50


def test_the_stream_repeats_with_its_seed_and_keeps_held_out_packages_apart(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    corpus = str(write(tmp_path / "corpus.jsonl.xz"))
    first = list(islice(stream(corpus, 7, 0, 2), 60))
    assert first == list(islice(stream(corpus, 7, 0, 2), 60))
    assert first != list(islice(stream(corpus, 7, 1, 2), 60))
    assert all(len(example.tokens) <= MAX_TOKENS for example in first)
    assert not any("calendar" in tokenizer.decode(list(example.tokens)) for example in first)
    evaluation = heldout(corpus, 30)
    assert evaluation == heldout(corpus, 30)
    for example in evaluation:
        assert [span.scored for span in example.spans] == [False, True]
        assert "calendar" in tokenizer.decode(list(example.tokens))


def test_score_tells_place_and_text() -> None:
    def turn(line: int, old: str, new: str) -> str:
        talk = Conversation()
        talk.call("str_replace", {"path": "a.py", "line": line, "old_str": old, "new_str": new})
        tokenizer = Tokenizer.load(TOKENIZER)
        ids = tokenizer.encode_chat([{"role": "user", "content": ""}, *talk.messages], add_generation_prompt=False)
        return tokenizer.decode(ids).split("</think>\n\n")[1].removesuffix("\n")

    expected = turn(3, "    a < b", "    a <= b")
    assert score(expected, expected) == {"located": True, "exact": True}
    assert score(expected, expected.removesuffix("<|im_end|>")) == {"located": True, "exact": True}
    assert score(expected, turn(3, "    a < b", "    a > b")) == {"located": True, "exact": False}
    assert score(expected, turn(4, "    a < b", "    a <= b")) == {"located": False, "exact": False}
    assert score(expected, "I don't know") == {"located": False, "exact": False}
    assert score(expected, expected[:-30]) == {"located": False, "exact": False}


def test_the_key_tokens_of_an_edit_are_its_line_and_what_differs(tokenizer: Tokenizer) -> None:
    talk = Conversation()
    edit = {"path": "a.py", "line": 37, "old_str": "    if a < b and c:", "new_str": "    if a <= b and c:"}
    talk.call("str_replace", edit)
    talk.call("run_tests", {})
    example = Encoder(tokenizer)(talk, 10**9)
    assert example is not None
    keys = sorted(example.spans[0].keys)
    assert tokenizer.decode([example.tokens[position] for position in keys[:2]]) == "37"
    assert "=" in tokenizer.decode([example.tokens[position] for position in keys[2:]]) and len(keys) <= 4
    assert not example.spans[1].keys
