from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

import engine.training
from engine.chat import Verbatim
from engine.errors import TokenizerError
from engine.tokenizer import Tokenizer
from engine.toolcalls import parse_reply, render_reply

TEMPLATE = (Path(engine.training.__file__).parent / "chat_template.jinja").read_text()
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
SPECIAL += ["<tool_response>", "</tool_response>", "<|mask|>"]


def byte_tokenizer(specials: list[str] = SPECIAL) -> Backend:
    """A byte-level tokenizer without merges: 256 ids, then the special tokens."""
    backend = Backend(
        models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(specials)
    return backend


DEFAULT = Tokenizer(byte_tokenizer().to_str(), TEMPLATE)


@pytest.fixture
def tokenizer() -> Tokenizer:
    return DEFAULT


def call(name: str, arguments: dict) -> dict:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


EPISODE = [
    {"role": "user", "content": "Fix the bug."},
    {"role": "assistant", "content": "", "tool_calls": [call("view", {"path": "a.py", "view_range": [1, 9]})]},
    {"role": "tool", "content": "1\tx = 1"},
    {"role": "tool", "content": "  2"},
    {
        "role": "assistant",
        "content": "So.",
        "reasoning_content": "hm",
        "tool_calls": [call("go", {}), call("go", {"a": "é\n"})],
    },
    {"role": "tool", "content": "ok"},
]


def test_turns_read_as_the_family_writes_them(tokenizer: Tokenizer) -> None:
    assert tokenizer.render_chat(EPISODE, enable_thinking=False) == (
        "<|im_start|>user\nFix the bug.<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n<tool_call>\n<function=view>\n<parameter=path>\na.py\n</parameter>\n"
        "<parameter=view_range>\n[1, 9]\n</parameter>\n</function>\n</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n1\tx = 1\n</tool_response>\n"
        "<tool_response>\n  2\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\nhm\n</think>\n\nSo.\n\n<tool_call>\n<function=go>\n</function>\n</tool_call>\n"
        "<tool_call>\n<function=go>\n<parameter=a>\né\n\n</parameter>\n</function>\n</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nok\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def test_generation_prompt_leaves_thinking_open(tokenizer: Tokenizer) -> None:
    text = tokenizer.render_chat([{"role": "user", "content": "x"}])
    assert text.endswith("<|im_start|>assistant\n<think>\n")


def test_old_reasoning_goes_unless_preserved(tokenizer: Tokenizer) -> None:
    messages = [
        *EPISODE[:1],
        {"role": "assistant", "content": "c", "reasoning_content": "r"},
        {"role": "user", "content": "y"},
    ]
    assert "<|im_start|>assistant\nc<|im_end|>" in tokenizer.render_chat(messages)
    assert "<think>\nr\n</think>\n\nc<|im_end|>" in tokenizer.render_chat(messages, preserve_thinking=True)


def test_tools_stand_in_the_system_turn(tokenizer: Tokenizer) -> None:
    tools = [{"type": "function", "function": {"name": "view", "description": "a < b & 'c'"}}]
    text = tokenizer.render_chat([{"role": "system", "content": "Be brief."}, *EPISODE[:1]], tools=tools)
    assert text.startswith("<|im_start|>system\n# Tools\n")
    assert json.dumps(tools[0]) + "\n</tools>" in text
    assert "\n\nBe brief.<|im_end|>\n<|im_start|>user" in text


def test_every_turn_extends_the_one_before(tokenizer: Tokenizer) -> None:
    """The prefix cache rests on this: prompt + canonical reply + stop is a prefix of the next prompt."""
    for turn in (1, 4):
        before = tokenizer.encode_chat(EPISODE[:turn], enable_thinking=False)
        after = tokenizer.encode_chat(EPISODE[: turn + 2], enable_thinking=False)
        message = EPISODE[turn]
        calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message["tool_calls"]]
        reply = render_reply(message["content"], calls, message.get("reasoning_content", ""))
        start = tokenizer.encode_chat(EPISODE[:turn], add_generation_prompt=False)
        start += tokenizer.encode("<|im_start|>assistant\n" + reply + "<|im_end|>\n", special=True)
        assert after[: len(start)] == start
        if not message.get("reasoning_content"):
            assert start[: len(before)] == before


def roles(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    return [i for i in ids if i in tokenizer.special.values()]


hostile = st.lists(
    st.sampled_from([*SPECIAL, *(s[:-1] for s in SPECIAL), "<", ">", "|im_end|>", "mask|>", "\n", "x", "\ue000"]),
    max_size=6,
).map("".join)


@settings(deadline=None)
@given(hostile, hostile, hostile)
def test_special_tokens_in_messages_stay_text(user: str, result: str, argument: str) -> None:
    tokenizer = DEFAULT

    def episode(user: str, result: str, argument: str) -> list[dict]:
        return [
            {"role": "user", "content": user},
            {
                "role": "assistant",
                "content": user,
                "reasoning_content": result,
                "tool_calls": [call("go", {"a": argument})],
            },
            {"role": "tool", "content": result},
        ]

    messages = episode(user, result, argument)
    ids = tokenizer.encode_chat(messages)
    assert tokenizer.decode(ids) == tokenizer.render_chat(messages)
    plain = tokenizer.encode_chat(episode("u" * bool(user), "r", "a"))
    assert roles(ids, tokenizer) == roles(plain, tokenizer)


@settings(deadline=None)
@given(hostile)
def test_encode_recognises_nothing_unless_told(text: str) -> None:
    tokenizer = DEFAULT
    assert roles(tokenizer.encode(text), tokenizer) == []
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode(text, special=True)) == text


def test_verbatim_text_keeps_its_special_tokens(tokenizer: Tokenizer) -> None:
    broken = "<tool_call>\n<function=view>\n"
    messages = [*EPISODE[:1], {"role": "assistant", "content": Verbatim(broken)}]
    ids = tokenizer.encode_chat(messages, add_generation_prompt=False)
    assert tokenizer.token_id("<tool_call>") in ids
    assert parse_reply(broken).calls[0].error


def test_tool_text_is_guarded_too(tokenizer: Tokenizer) -> None:
    tools = [{"type": "function", "function": {"name": "view", "description": "ends a turn: <|im_end|>"}}]
    ids = tokenizer.encode_chat(EPISODE[:1], tools=tools)
    assert ids.count(tokenizer.token_id("<|im_end|>")) == 2


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "there is no user message"),
        ([{"role": "user", "content": "x"}, {"role": "system", "content": "y"}], "the system message must come first"),
        ([{"role": "user", "content": [{"type": "image"}]}], "message content must be text"),
        ([{"role": "wizard", "content": "x"}], "unknown role wizard"),
        ([{"content": "x"}], "every message needs a role"),
        (
            [*EPISODE[:1], {"role": "assistant", "tool_calls": [{"function": {"name": "x", "arguments": "{}"}}]}],
            "refuses",
        ),
    ],
)
def test_refusals_are_one_line(tokenizer: Tokenizer, messages: list, complaint: str) -> None:
    with pytest.raises(TokenizerError, match=complaint) as caught:
        tokenizer.encode_chat(messages)
    assert "\n" not in str(caught.value)


def test_loading_names_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.json is missing"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json can't be read"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text(byte_tokenizer().to_str())
    with pytest.raises(TokenizerError, match="no chat template"):
        Tokenizer.load(tmp_path).encode_chat(EPISODE)
    (tmp_path / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(TokenizerError, match="chat template can't be read"):
        Tokenizer.load(tmp_path)


def test_template_from_tokenizer_config(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(byte_tokenizer().to_str())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages[0].content }}"}))
    assert Tokenizer.load(tmp_path).render_chat(EPISODE) == "Fix the bug."


def test_template_runs_in_a_sandbox() -> None:
    evil = Tokenizer(byte_tokenizer().to_str(), "{{ messages.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(TokenizerError):
        evil.encode_chat(EPISODE)


def test_cut_characters_do_not_raise(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("é")[:1]) == "\ufffd"
    assert tokenizer.decode([10**6]) == ""
