"""`clover-agent generate`: a prompt or messages in, text out, with every control of the engine."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clover_agent.errors import UsageError
from clover_agent.models import EMBEDDED

if TYPE_CHECKING:
    from engine.constraints import Constraint
    from engine.engine import Engine
    from engine.params import GenerationParams
    from engine.response import Response

_NUMBERS = {
    "max-new-tokens": (int, "ceiling of the response"),
    "block-size": (int, "rows of a diffusion block, a divisor of the checkpoint's"),
    "threshold": (float, "confidence above which a masked row is filled"),
    "draft-width": (int, "rows of a speculative round, a divisor of the block size"),
    "temperature": (float, "0 is greedy"),
    "top-p": (float, "mass that a draw keeps"),
    "top-k": (int, "ids that a draw keeps, 0 for all"),
    "seed": (int, "of the draws"),
    "presence-penalty": (float, "taken off every id the response holds"),
    "frequency-penalty": (float, "the same, times its count"),
    "repetition-penalty": (float, "divides its logit"),
    "thinking-budget": (int, "tokens after which thinking is closed"),
    "coreset-top-p": (float, "mass of a preview's expert coreset, 1 for all experts"),
    "typical-ratio": (float, "of the lossy acceptance"),
    "typical-delta": (float, "of the lossy acceptance"),
}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "generate",
        help="continue a prompt, or answer messages",
        description="Answer a prompt or a conversation. What is not given comes from the checkpoint.",
    )
    parser.add_argument("prompt", nargs="?", help="the prompt; - or nothing reads standard input")
    parser.add_argument("--file", metavar="PATH", help="read the prompt from a file")
    parser.add_argument("--messages", metavar="PATH", help="a JSON file with a list of messages (role, content)")
    parser.add_argument("--raw", action="store_true", help="continue the text as it stands, without chat template")
    parser.add_argument("--no-think", action="store_true", help="chat template without a think section")
    parser.add_argument("--model", default=EMBEDDED, metavar="NAME|PATH", help="shipped model or checkpoint folder")
    parser.add_argument("--mode", default="auto", help="autoregressive, diffusion, speculative or auto (default)")
    parser.add_argument("--acceptance", default="exact", help="of speculative: exact (default) or typical (lossy)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--trace", action="store_true", help="draw every pass on stderr: masks, tokens, confidence")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads")
    for name, (kind, text) in _NUMBERS.items():
        parser.add_argument(f"--{name}", type=kind, metavar="N" if kind is int else "X", help=text)
    for name in ("length-ramp", "think-end-ramp"):
        text = "bias on the ids that end the response" if name == "length-ramp" else "bias on </think>"
        parser.add_argument(f"--{name}", metavar="STRENGTH,START,WINDOW", help=text)
    parser.add_argument("--suppress", metavar="ID,ID", help="token ids that never occur")
    parser.add_argument("--no-early-exit", action="store_true", help="resolve every row of the last block")
    parser.add_argument("--no-loop-guard", action="store_true", help="let a response go in circles")
    held = parser.add_mutually_exclusive_group()
    held.add_argument("--schema", metavar="PATH", help="the answer is JSON that is valid against this schema")
    held.add_argument("--regex", metavar="PATTERN", help="the answer matches this as a whole")
    held.add_argument("--lark", metavar="PATH", help="the answer follows this Lark grammar")
    parser.add_argument("--tools", metavar="PATH", help="a JSON list of tools that may be called")
    parser.add_argument("--require-call", action="store_true", help="with --tools: the answer is a call")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Generate; the text on stdout. Raises UsageError for anything that can't be asked for."""
    tools = _json_file(options.tools, list) if options.tools else None
    if options.require_call and tools is None:
        raise UsageError("--require-call needs --tools")
    if tools is not None and (options.schema or options.regex or options.lark):
        raise UsageError("--tools can't be combined with --schema, --regex or --lark")
    given = _given(options)
    params = _params(options, tools)
    from clover_agent.models import load_embedded

    engine = load_embedded(options.model, options.threads).engine
    prompt = _prompt_ids(engine, given, options, tools)
    response = _generate(engine, prompt, params, options)
    if options.json:
        print(json.dumps(_as_json(response), ensure_ascii=False))
    else:
        print(response.text, flush=True)
    return 0


def _given(options: argparse.Namespace) -> str | list[Any]:
    """The prompt's text, or messages."""
    if sum(value is not None for value in (options.prompt, options.file, options.messages)) > 1:
        raise UsageError("give one of a prompt, --file and --messages")
    if options.messages:
        if options.raw:
            raise UsageError("--raw takes a prompt, not --messages")
        return _json_file(options.messages, list)
    text = _read(options.file) if options.file else options.prompt
    if text is None or text == "-":
        try:
            text = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError:
            raise UsageError("standard input is not UTF-8 text") from None
    if not text:
        raise UsageError("the prompt is empty: give a text, --file, --messages, or text on standard input")
    return text


def _prompt_ids(
    engine: Engine, given: str | list[Any], options: argparse.Namespace, tools: list[Any] | None
) -> list[int]:
    if options.raw:
        assert isinstance(given, str)
        return engine.tokenizer.encode(given, special=True)
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return engine.tokenizer.encode_chat(messages, tools=tools, enable_thinking=not options.no_think)


def _params(options: argparse.Namespace, tools: list[Any] | None) -> GenerationParams:
    from engine.params import GenerationParams

    numbers = {name.replace("-", "_"): getattr(options, name.replace("-", "_")) for name in _NUMBERS}
    chosen: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    for name in ("length_ramp", "think_end_ramp"):
        if getattr(options, name) is not None:
            chosen[name] = _ramp(name, getattr(options, name))
    try:
        return GenerationParams(
            mode=options.mode,
            acceptance=options.acceptance,
            early_exit=not options.no_early_exit,
            loop_guard=not options.no_loop_guard,
            suppress_tokens=_ids(options.suppress),
            constraint=_constraint(options, tools),
            **chosen,
        )
    except ValueError as fault:
        raise UsageError(str(fault)) from None


def _ids(text: str | None) -> tuple[int, ...]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"--suppress must be token ids with commas between them, not {text!r}")
    return tuple(map(int, parts))


def _constraint(options: argparse.Namespace, tools: list[Any] | None) -> Constraint | None:
    from engine.constraints import JsonSchema, Lark, Regex, ToolCalls, tool_schemas

    if options.schema:
        return JsonSchema(_json_file(options.schema, dict))
    if options.regex is not None:
        return Regex(options.regex)
    if options.lark:
        return Lark(_read(options.lark))
    if tools is not None:
        return ToolCalls(tool_schemas(tools), "required" if options.require_call else "auto")
    return None


def _ramp(name: str, text: str) -> Any:
    from engine.generation_config import Ramp

    try:
        strength, start, window = text.split(",")
        return Ramp(float(strength), int(start), int(window))
    except ValueError as fault:
        raise UsageError(f"--{name.replace('_', '-')} must be STRENGTH,START,WINDOW, not {text!r} ({fault})") from None


def _generate(engine: Engine, prompt: list[int], params: GenerationParams, options: argparse.Namespace) -> Response:
    from engine.events import BlockUpdate, Finished, Tokens
    from engine.response import read

    trace = None
    if options.trace:
        from clover_agent.trace import Trace

        trace = Trace(sys.stderr, engine.tokenizer.decode, engine.config.mask_token_id)
    ids: list[int] = []
    for event in engine.generate(prompt, params):
        if trace is not None:
            trace(event)
        if isinstance(event, Tokens):
            ids.extend(event.ids)
        elif isinstance(event, Finished):
            schemas = getattr(params.constraint, "tools", None)
            return read(engine, prompt, ids, event, schemas)
        else:
            assert isinstance(event, BlockUpdate)
    raise RuntimeError("a generation ends with Finished")


def _as_json(response: Response) -> dict[str, Any]:
    report = response.report
    return {
        "text": response.text,
        "token_ids": list(response.token_ids),
        "finish_reason": response.finish_reason,
        "reasoning": response.reasoning,
        "content": response.content,
        "tool_calls": [
            {"name": call.name, "arguments": call.arguments, **({"error": call.error} if call.error else {})}
            for call in response.calls
        ],
        "prompt_tokens": report.prompt_tokens,
        "completion_tokens": report.completion_tokens,
        "passes": report.passes,
        "commits": report.commits,
        "tokens_per_forward": {
            "denoising": round(report.tokens_per_pass, 3),
            "all": round(report.tokens_per_forward, 3),
        },
        "acceptance_length": round(report.acceptance_length, 3),
        "mode_tokens": dict(report.mode_tokens),
        "seconds": round(report.seconds, 4),
        "time_to_first_token": round(report.first_token_seconds, 4),
        "tokens_per_second": round(report.tokens_per_second, 2),
    }


def _read(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None
    except OSError as fault:
        raise UsageError(f"{path} can't be read: {fault.strerror or fault}") from None


def _json_file(path: str, kind: type) -> Any:
    try:
        value = json.loads(_read(path))
    except (ValueError, RecursionError) as fault:
        raise UsageError(f"{path} is not JSON: {fault}") from None
    if not isinstance(value, kind):
        raise UsageError(f"{path} must hold a JSON {'list' if kind is list else 'object'}")
    return value
