"""Grammars that a response can't leave, by llguidance: constraints compiled for a tokenizer, and places in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from engine.completion import Closer
from engine.constraints import Constraint, JsonSchema, Lark, Regex, ToolCalls
from engine.params import ControlSettings
from engine.tokenizer import Tokenizer
from engine.toolcalls import THINK_CLOSE
from engine.toolgrammar import GrammarError, calls_grammar, free_text, json_rule

if TYPE_CHECKING:
    from llguidance import LLMatcher

__all__ = ["Compiler", "GrammarCursor", "GrammarError"]


# The library's bound on work between two masks. A walk over many tokens without a mask in between must never meet it:
# what lies behind it reads as a dead end.
LEXER_FUEL = 10**12
_TROUBLE = ("MaxTokensTotal", "MaxTokensParser", "ParserTooComplex", "LexerTooComplex", "InternalError")


class Compiler:
    """Compiles constraints for one tokenizer. vocab_size: of the model; ids without a token are never allowed."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, device: torch.device | str = "cpu") -> None:
        self._tokenizer, self._vocab_size, self._device = tokenizer, vocab_size, torch.device(device)
        self._backends: dict[tuple[int, ...], Any] = {}

    def cursor(self, constraint: Constraint, controls: ControlSettings) -> GrammarCursor:
        """The place at the start of a response. Raises GrammarError, one line.

        `controls`: the ids that end a response, the ids that may not occur, and whether it starts inside thinking.
        """
        from llguidance import LLMatcher, LLParserLimits

        if not controls.stop_ids:
            raise GrammarError("the checkpoint names no stop id, so a constrained response could never end")
        backend = self._backend(controls.stop_ids)
        limits = LLParserLimits(initial_lexer_fuel=LEXER_FUEL, step_lexer_fuel=LEXER_FUEL)
        source = self._source(constraint, thinking=controls.thinking)
        matcher = LLMatcher(backend, source, log_level=0, limits=limits)
        if matcher.is_error():
            raise GrammarError(f"the constraint can't be used: {_first_line(matcher.get_error())}")
        allowed = np.ones(self._vocab_size, dtype=bool)
        banned = [i for i in (controls.mask_token_id, *controls.suppressed) if i < self._vocab_size]
        allowed[banned] = False
        closer = Closer(backend, controls.stop_ids[0], self._tokenizer.special.get(THINK_CLOSE))
        return GrammarCursor(matcher, allowed, controls.stop_ids, self._device, closer)

    def _backend(self, stop_ids: tuple[int, ...]) -> Any:
        from llguidance import LLTokenizer

        if stop_ids not in self._backends:
            definition = json.loads(self._tokenizer.definition)
            for token in definition.get("added_tokens", []):
                token["special"] = True  # their text, spelt by other tokens, is ordinary text
            if self._tokenizer.vocab_size > self._vocab_size:
                raise GrammarError("the tokenizer has more tokens than the model: constraints can't be used with it")
            try:
                self._backends[stop_ids] = LLTokenizer(
                    json.dumps(definition), n_vocab=self._vocab_size, eos_token=list(stop_ids)
                )
            except Exception as fault:  # the library raises whatever its Rust side gives
                raise GrammarError(f"the tokenizer can't be used for constraints: {_first_line(str(fault))}") from None
        return self._backends[stop_ids]

    def _source(self, constraint: Constraint, *, thinking: bool) -> str:
        """The grammar of the whole response, in llguidance's JSON form."""
        head = f'THINKING {self._token(THINK_CLOSE)} "\\n\\n" ' if thinking else ""
        rules = [f"THINKING: {free_text(THINK_CLOSE, empty=True)}"] if thinking else []
        others: list[dict[str, Any]] = []
        match constraint:
            case ToolCalls():
                rules.append(calls_grammar(constraint, self._token))
                body = "body"
            case JsonSchema(schema):
                rules.append(f"json: {json_rule(schema, schema)}")
                body = "json"
            case Regex(pattern):
                others.append({"name": "given", **_grammar("regex", pattern)})
                body = "@given"
            case Lark(source):
                others.append({"name": "given", **_grammar("lark", source)})
                body = "@given"
        if others and not thinking:
            return json.dumps({"grammars": [others[0]]})
        lark = "\n".join([f"start: {head}{body}", *rules])
        return json.dumps({"grammars": [{"lark_grammar": lark}, *others]})

    def _token(self, text: str) -> str:
        token = self._tokenizer.special.get(text)
        if token is None:
            raise GrammarError(f"the tokenizer has no token {text}, which the constraint needs")
        return f"<[{token}]>"


class GrammarCursor:
    """A place in a grammar (`engine.decode.constraint.Cursor`).

    What the grammar forces is settled where a place is entered, token by token in the tokenizer's own cut of the
    text, so that all modes write the same ids there.
    """

    def __init__(
        self,
        matcher: LLMatcher,
        allowed: np.ndarray,
        stop_ids: tuple[int, ...],
        device: torch.device,
        closer: Closer,
    ) -> None:
        """allowed: [vocab] bool, ids that may occur at all."""
        self._matcher, self._allowed, self._stop_ids, self._device = matcher, allowed, stop_ids, device
        self._closer = closer
        self._ended = False
        self._forced: list[int] = []
        self._mask: np.ndarray | None = None
        self._settle()

    def _settle(self) -> None:
        """Learn what is forced at a new place."""
        self._mask = None
        if self._ended or self._forced:
            return
        if self._matcher.is_stopped():
            self._check()
            self._forced = [self._stop_ids[0]]
        else:
            self._forced = list(self._matcher.compute_ff_tokens())

    def forced(self) -> list[int]:
        return list(self._forced)

    def mask(self) -> Tensor:
        """[vocab] bool. Raises GrammarError where nothing may follow."""
        return torch.from_numpy(self._bits()).to(self._device)

    def allows(self, token: int) -> bool:
        return bool(self._bits()[token])

    def consume(self, token: int) -> bool:
        if self._ended or (self._forced and token != self._forced[0]) or not self._allowed[token]:
            return False
        if token in self._stop_ids:
            if not self._matcher.is_accepting():
                return False
            self._ended, self._forced = True, []
        elif self._matcher.try_consume_tokens([token]) != 1:
            self._check()
            return False
        self._forced = self._forced[1:]
        self._settle()
        return True

    def completion(self, limit: int) -> list[int] | None:
        if self._ended:
            return []
        forced = self._forced
        if not forced:
            return self._closer.completion(self._matcher, limit)
        if forced[0] in self._stop_ids:
            return forced[:1] if limit else None
        ahead = self._matcher.deep_copy()
        ahead.consume_tokens(forced)
        rest = self._closer.completion(ahead, limit - len(forced))
        return None if rest is None else [*forced, *rest]

    def fork(self) -> GrammarCursor:
        twin = object.__new__(GrammarCursor)
        twin.__dict__.update(self.__dict__)
        twin._matcher, twin._forced = self._matcher.deep_copy(), list(self._forced)
        return twin

    def _bits(self) -> np.ndarray:
        if self._mask is None:
            if self._forced:
                bits = np.zeros_like(self._allowed)
                bits[self._forced[0]] = True
            elif self._ended:
                bits = np.zeros_like(self._allowed)
            else:
                packed = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
                bits = np.unpackbits(packed, bitorder="little", count=len(self._allowed)).view(bool) & self._allowed
            if not bits.any():
                self._check()
                raise GrammarError(
                    "the constraint leaves no token that may follow: it, or the banned ids, are too narrow"
                )
            self._mask = bits
        return self._mask

    def _check(self) -> None:
        reason = self._matcher.stop_reason()
        if self._matcher.is_error() or reason in _TROUBLE:
            raise GrammarError(f"the constraint can't be followed: {_first_line(self._matcher.get_error()) or reason}")


def _grammar(kind: str, text: str) -> dict[str, Any]:
    from llguidance import LLMatcher

    if kind == "regex":
        text = json.loads(LLMatcher.grammar_from_regex(text))["grammars"][0]["lark_grammar"]
    return {"lark_grammar": text}


def _first_line(text: str) -> str:
    return " ".join(text.split("\n   |", maxsplit=1)[0].split())[:300]
