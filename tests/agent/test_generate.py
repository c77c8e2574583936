"""`clover-agent generate` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clover_agent.cli import main

TINY = Path(__file__).parents[1] / "data" / "tiny-clover" / "coreset-0.6-4-layers"
MODEL = ["--model", str(TINY)]


def test_json_holds_text_ids_and_figures(capsys: pytest.CaptureFixture[str]) -> None:
    case = json.loads((TINY / "expected.json").read_text())[0]
    wanted = case["autoregressive"]["token_ids"][:9]
    arguments = ["generate", case["prompt"], "--raw", "--mode", "autoregressive", "--max-new-tokens", "9", "--json"]
    assert main([*arguments, *MODEL]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["token_ids"] == wanted
    assert (told["finish_reason"], told["passes"], told["commits"]) == ("length", 0, 8)
    assert told["tokens_per_forward"] == {"denoising": 0.0, "all": 1.125}
    assert {"text", "seconds", "time_to_first_token", "tokens_per_second"} <= set(told)


def test_messages_tools_and_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages, tools = tmp_path / "messages.json", tmp_path / "tools.json"
    messages.write_text(json.dumps([{"role": "user", "content": "x"}]))
    parameters = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}
    tools.write_text(json.dumps([{"type": "function", "function": {"name": "f", "parameters": parameters}}]))
    options = ["--tools", str(tools), "--require-call", "--thinking-budget", "4", "--mode", "diffusion", "--trace"]
    assert main(["generate", "--messages", str(messages), *options, "--json", *MODEL]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["finish_reason"] == "tool_calls"
    assert told["tool_calls"][0]["name"] == "f" and told["tool_calls"][0]["arguments"]["n"] in (1, 2)
    assert "pass 0 │" in err and "░" in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["x", "--mode", "fast"], "mode must be one of"),
        (["x", "--temperature", "-1"], "temperature must be"),
        (["x", "--file", "y"], "one of a prompt"),
        (["--messages", "nowhere.json"], "nowhere.json can't be read"),
        (["--messages", "m.json", "--raw"], "--raw takes a prompt"),
        (["x", "--schema", str(Path(__file__))], "is not JSON"),
        (["x", "--suppress", "a"], "--suppress must be token ids"),
        (["x", "--length-ramp", "1,2"], "--length-ramp must be STRENGTH,START,WINDOW"),
        (["x", "--require-call"], "--require-call needs --tools"),
        (["x", "--model", "/nowhere"], "there is no model"),
        (["x", "--regex", "(", *MODEL], "the constraint can't be used"),
        (["x", "--lark", str(TINY / "config.json"), *MODEL], "the constraint can't be used"),
        (["x", "--max-new-tokens", "5000", *MODEL], "exceed the context of 2048"),
        (["x", "--block-size", "5", *MODEL], "block_size 5 does not divide"),
        (["x", "--draft-width", "5", *MODEL], "draft_width 5 does not divide"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and complaint in err and err.count("\n") == 1


def test_bad_options_are_usage_errors() -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["generate", "x", "--top-k", "many"])
    assert stopped.value.code == 2
