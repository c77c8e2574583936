"""Constrained generation from untrained checkpoints: every response parses and is valid, in every mode.

All 1,000 generations: `python -m pytest -m slow tests/engine/test_grammar.py`.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.constraints import JsonSchema, Lark, Regex, ToolCalls
from engine.engine import Engine
from engine.grammar import Compiler, GrammarCursor, GrammarError
from engine.params import ControlSettings, GenerationParams
from engine.response import respond
from engine.toolcalls import parse_reply, render_call
from tests.engine.untrained import MODES, SCHEMAS, Case, cases, fault, untrained

CONTROLS = ControlSettings(mask_token_id=307, stop_ids=(302, 300))
CHECKPOINTS = 10
FIRST = [Case(schema, ("call", "json", "thinking")[schema % 3], MODES[schema % 4], schema) for schema in range(20)]


@pytest.fixture(scope="module")
def engines() -> list[Engine]:
    return [untrained(seed) for seed in range(CHECKPOINTS)]


def cursor(engine: Engine, *schemas: dict) -> GrammarCursor:
    """The place before the calls of tools `f0`, `f1`, ..."""
    tools = {f"f{number}": schema for number, schema in enumerate(schemas)}
    return Compiler(engine.tokenizer, engine.config.vocab_size).cursor(ToolCalls(tools, "required"), CONTROLS)


def follows(place: GrammarCursor, ids: list[int]) -> bool:
    return all(place.consume(token) for token in ids)


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_untrained_checkpoints_write_valid_values(engines: list[Engine], case: Case) -> None:
    assert fault(engines[case.schema % CHECKPOINTS], case) == ""


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_thousand_generations(engines: list[Engine]) -> None:
    wrong = []
    for number, case in enumerate(cases(1000)):
        wrong += filter(None, [fault(engines[(number + number // 10) % CHECKPOINTS], case)])
    assert not wrong, f"{len(wrong)} of 1000: {wrong[:5]}"


def test_what_the_template_writes_is_allowed(engines: list[Engine]) -> None:
    engine = engines[0]
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array"}}, "required": ["a"]}
    values = ["", "\n", "x\n</parameter>\ny", "</tool_call>", "</parameter>\n</parameter>", "<parameter=b>\n1", "é☃"]
    for value in values:
        for rest in ({}, {"b": [1, "two", None]}):
            text = render_call("f0", {"a": value, **rest})
            place = cursor(engine, schema)
            ids = engine.tokenizer.encode(text, special=True)
            spelt = engine.tokenizer.encode("</tool_call>")  # a value's own text, not the special token
            inside = [part for token in ids[:-1] for part in (spelt if token == 304 else [token])]
            assert follows(place, [*inside, ids[-1], 302]), text


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["\n", "</parameter>", "<parameter=b>", "</function>", " ", "x", "</tool_call>"])))
def test_a_string_never_ends_where_the_parser_would_not_end_it(pieces: list[str]) -> None:
    """Whatever stands in a value, the grammar takes the call exactly where the parser reads that value back."""
    engine = SHARED
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    value = "".join(pieces)
    text = render_call("f0", {"a": value})
    parsed = parse_reply(text, {"f0": schema}).calls
    read_back = len(parsed) == 1 and not parsed[0].error and parsed[0].arguments == {"a": value}
    spelt = engine.tokenizer.encode(value)  # look-alikes, not special tokens
    head, tail = text.split(value, 1) if value and text.count(value) == 1 else (None, None)
    if head is None or tail is None:
        return
    ids = [*engine.tokenizer.encode(head, special=True), *spelt, *engine.tokenizer.encode(tail, special=True), 302]
    if follows(cursor(engine, schema), ids):
        assert read_back


SHARED = untrained(0)


def test_forced_text_takes_no_pass(engines: list[Engine]) -> None:
    constraint = ToolCalls({"only": {"type": "object", "properties": {}}}, "required", parallel=False)
    for mode in MODES:
        done = respond(engines[1], [1, 2, 3], GenerationParams(mode=mode, max_new_tokens=96, constraint=constraint))
        assert done.finish_reason == "tool_calls"
        assert done.report.passes + done.report.commits == 0


def test_a_cut_call_is_length_and_no_call(engines: list[Engine]) -> None:
    constraint = ToolCalls({"f": SCHEMAS[0]}, "required", parallel=False)
    for mode in MODES:
        done = respond(engines[2], [1, 2, 3], GenerationParams(mode=mode, max_new_tokens=20, constraint=constraint))
        assert (done.finish_reason, done.calls) == ("length", ())


def test_greedy_speculation_equals_causal_decoding_under_a_grammar(engines: list[Engine]) -> None:
    for number in (0, 5, 12):
        params = GenerationParams(mode="autoregressive", max_new_tokens=160, constraint=JsonSchema(SCHEMAS[number]))
        causal = respond(engines[3], [1, 2], params)
        drafted = respond(
            engines[3], [1, 2], GenerationParams(mode="speculative", max_new_tokens=160, constraint=params.constraint)
        )
        assert drafted.token_ids == causal.token_ids
        json.loads(causal.text)


@pytest.mark.parametrize(
    ("constraint", "complaint"),
    [
        (Regex("("), "can't be used"),
        (Lark("start: &"), "can't be used"),
        (JsonSchema({"type": "object", "dependentRequired": {"a": ["b"]}}), "dependentRequired"),
        (ToolCalls({}), "at least one"),
        (ToolCalls({"f": {"type": "array"}}), "type object"),
        (ToolCalls({"f": {"type": "object", "minProperties": 2}}), "minProperties"),
        (ToolCalls({"f": {"type": "object", "required": ["x"]}}), "parameter x has no schema"),
        (ToolCalls({"f": {"properties": {"a": {"type": "string", "not": {"const": ""}}}}}), "not"),
        (ToolCalls({"a<b": {"type": "object"}}), "can't be written"),
    ],
)
def test_what_can_not_be_kept_is_refused_in_one_line(
    engines: list[Engine], constraint: Regex | Lark | JsonSchema | ToolCalls, complaint: str
) -> None:
    with pytest.raises(GrammarError, match=complaint) as caught:
        engines[0].generate([1], GenerationParams(constraint=constraint))
    assert "\n" not in str(caught.value)
