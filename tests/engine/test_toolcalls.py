from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.toolcalls import parse_reply, render_call, render_reply

SCHEMAS = {
    "edit": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "line": {"type": "integer"},
            "span": {"type": "array"},
            "limit": {"type": ["integer", "null"]},
            "text": {"type": "string"},
            "extra": {"anyOf": [{"type": "object"}, {"type": "boolean"}]},
        },
    }
}

# Pieces that look like the format's own tags are what breaks parsers.
pieces = st.sampled_from(
    [
        "</parameter>",
        "<parameter=line>",
        "</function>",
        "</tool_call",
        "<function=x>",
        "\n",
        "\r\n",
        " ",
        "\t",
        "a",
        "é",
        "€",
        "\x00",
        "0",
    ]
)
texts = st.lists(pieces | st.text(max_size=5), max_size=12).map("".join)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


def ambiguous(text: str) -> bool:
    """The text holds a closing tag in a place where the format itself would have one."""
    tail = ("\n" + text).split("\n</parameter>")[1:]
    return any(part.lstrip().startswith(("<parameter=", "</function>")) for part in tail)


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "path": texts.filter(lambda t: not ambiguous(t)),
            "line": st.integers(),
            "span": st.lists(json_values, max_size=3),
            "limit": st.none() | st.integers(),
            "text": texts.filter(lambda t: not ambiguous(t)),
            "extra": st.booleans() | st.dictionaries(texts, json_values, max_size=2),
        },
    )
)
def test_rendered_call_parses_back(arguments: dict) -> None:
    reply = parse_reply(render_call("edit", arguments), SCHEMAS)
    assert [call.error for call in reply.calls] == [""]
    assert reply.calls[0].name == "edit"
    assert reply.calls[0].arguments == arguments
    assert list(reply.calls[0].arguments) == list(arguments)
    assert reply.content == reply.reasoning == ""


@settings(deadline=None)
@given(texts, texts, st.booleans())
def test_no_text_raises(before: str, after: str, thinking: bool) -> None:
    for text in (
        before,
        before + render_call("edit", {"text": after}) + after,
        f"<tool_call>{before}</tool_call>{after}",
    ):
        for call in parse_reply(text, SCHEMAS, thinking).calls:
            assert (call.arguments is None) == bool(call.error)
            assert "\n" not in call.error


@settings(deadline=None)
@given(st.data())
def test_every_cut_is_an_error_or_nothing(data: st.DataObject) -> None:
    whole = render_call("edit", {"path": "a.py", "line": 3, "text": "x\n</parameter>\ny"})
    cut = data.draw(st.integers(len("<tool_call>"), len(whole) - 1))
    (call,) = parse_reply(whole[:cut], SCHEMAS).calls
    assert call.arguments is None
    assert call.error


CALL = "<tool_call>\n<function=edit>\n{}</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            CALL.format("<parameter=line>\nthree\n</parameter>\n"),
            "parameter 'line' must be JSON (integer), not 'three'",
        ),
        (
            CALL.format("<parameter=path>\na\n</parameter>\n<parameter=path>\nb\n</parameter>\n"),
            "parameter 'path' is given twice",
        ),
        (CALL.format("<parameter=path>\na\n"), "parameter 'path' is not closed by </parameter>"),
        (CALL.format("junk\n"), "expected <parameter=ARG> or </function>, got 'junk </function> </tool_call>'"),
        ("<tool_call>\n<function=edit>\n<parameter=path>\nab", "the call is cut off inside parameter 'path'"),
        ("<tool_call>\n<function=edit>\n", "the call is cut off before <parameter=ARG> or </function>"),
        ("<tool_call>\n<function=edit>\n</function>\n", "the call is cut off before </tool_call>"),
        ("<tool_call>", "the call is cut off before <function=NAME>"),
        ("<tool_call>\n<function=>\n</function>\n</tool_call>", "<function=> names no tool"),
        (
            '<tool_call>\n{"name": "edit"}\n</tool_call>',
            'expected <function=NAME>, got \'{"name": "edit"} </tool_call>\'',
        ),
        ("<function=edit>\n</function>", "a <function=edit> stands outside <tool_call>"),
        (CALL.format("") + "\nDone.", "text after </tool_call>: 'Done.'; write text before the call"),
        (
            "<tool_call>\n<function=edit>\n</function>\n<function=edit>\n</function>\n</tool_call>",
            "expected </tool_call>, got '<function=edit> </function> </tool_call>'",
        ),
    ],
)
def test_faults_are_named(text: str, error: str) -> None:
    (call,) = parse_reply(text, SCHEMAS).calls
    assert call.error == error
    assert call.arguments is None
    assert call.raw == text.rstrip()


def test_two_calls_are_two_calls() -> None:
    text = "Both.\n\n" + render_call("edit", {"line": 1}) + "\n" + render_call("other", {"line": 1})
    reply = parse_reply(text, SCHEMAS)
    assert reply.content == "Both."
    assert [(c.name, c.arguments, c.error) for c in reply.calls] == [
        ("edit", {"line": 1}, ""),
        ("other", {"line": "1"}, ""),
    ]


def test_a_broken_call_does_not_hide_the_next() -> None:
    text = "<tool_call>\nnonsense\n</tool_call>\n" + render_call("edit", {"line": 1})
    first, second = parse_reply(text, SCHEMAS).calls
    assert first.error and second.arguments == {"line": 1}


def test_exactly_one_newline_is_stripped_on_each_side() -> None:
    value = "\n  indented\n\n"
    (call,) = parse_reply(render_call("edit", {"text": value}), SCHEMAS).calls
    assert call.arguments == {"text": value}


def test_values_on_the_tags_line_are_read() -> None:
    text = (
        "<tool_call><function=edit><parameter=path>a.py</parameter><parameter=line>7</parameter></function></tool_call>"
    )
    (call,) = parse_reply(text, SCHEMAS).calls
    assert call.arguments == {"path": "a.py", "line": 7}


def test_reasoning_is_split_off() -> None:
    text = "I must <tool_call> it.\n</think>\n\nSo:\n\n" + render_call("edit", {"line": 1})
    reply = parse_reply(text, SCHEMAS, thinking=True)
    assert (reply.reasoning, reply.content, len(reply.calls)) == ("I must <tool_call> it.", "So:", 1)
    assert reply == parse_reply("<think>\n" + text, SCHEMAS)


def test_unclosed_reasoning_holds_no_call() -> None:
    reply = parse_reply("hmm " + render_call("edit", {}), SCHEMAS, thinking=True)
    assert (reply.calls, reply.content, reply.closed) == ((), "", False)


def test_render_reply_is_read_back() -> None:
    text = render_reply("So:", [("edit", {"line": 1})], "why")
    reply = parse_reply(text, SCHEMAS)
    assert (reply.reasoning, reply.content, reply.calls[0].arguments) == ("why", "So:", {"line": 1})
