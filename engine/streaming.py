"""A response while it grows, as a reader wants it: thinking, text, and tool calls argument by argument.

Ids come a block at a time, so one step often crosses `</think>` and `<tool_call>` at once. Everything here works on
the whole text so far, never on the step, so that no cut can move text from one kind to another: the concatenated
pieces are those that `engine.toolcalls.parse_reply` finds in the finished text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.toolcalls import CLOSE, OPEN, THINK_CLOSE, THINK_OPEN, ParsedCall, parse_reply


@dataclass(frozen=True)
class Thinking:
    """New text of the think section."""

    text: str


@dataclass(frozen=True)
class Text:
    """New text of the answer."""

    text: str


@dataclass(frozen=True)
class CallStart:
    """A tool call began; number: of the call in the response, from 0."""

    number: int
    name: str


@dataclass(frozen=True)
class ArgumentDelta:
    """New text of an argument as it stands in the call: strings raw, other values JSON."""

    number: int
    argument: str
    text: str


@dataclass(frozen=True)
class CallEnd:
    """A tool call is complete: `call` holds its arguments, or what is wrong with them."""

    number: int
    call: ParsedCall


Segment = Thinking | Text | CallStart | ArgumentDelta | CallEnd
_Place = Literal["thinking", "text", "call", "arguments", "value", "after"]

_FUNCTION = re.compile(r"\s*<function=([^<>\n]*)>")
_PARAMETER = re.compile(r"\s*<parameter=([^<>\n]*)>\n?")
_CALL_END = re.compile(r"\s*</function>\s*</tool_call>")


def _value_end(newline: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What ends a value, and what may turn out to: its beginnings at the text's end."""
    closed = f"{newline}</parameter>"
    begun = f"{_beginning('</parameter>')}|</parameter>\\s*(?:{_beginning('<parameter=')}|{_beginning('</function>')})?"
    return re.compile(closed + r"(?=\s*(?:<parameter=|</function>))"), re.compile(f"{newline}(?:{begun})?\\Z")


def _beginning(tag: str) -> str:
    """Regex of all beginnings of `tag`, itself left out."""
    pattern = ""
    for character in reversed(tag[:-1]):
        pattern = f"{re.escape(character)}(?:{pattern})?" if pattern else re.escape(character)
    return pattern


_OWN_LINE, _INLINE = _value_end("\n"), _value_end("\n?")


class SegmentReader:
    """Turns ids, as they become final, into segments.

    decode: ids to text. thinking: the prompt left a think section open. schemas: JSON schema of each tool's arguments.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        *,
        thinking: bool = False,
        schemas: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._decode, self._schemas = decode, schemas or {}
        self._ids: list[int] = []
        self._text, self._at = "", 0
        self._place: _Place = "thinking" if thinking else "text"
        self._began_open = thinking
        self._blank = True  # nothing but white space so far
        self._number, self._call_at, self._argument, self._own_line = -1, 0, "", True

    @property
    def text(self) -> str:
        """The whole text so far."""
        return self._text

    def feed(self, ids: Sequence[int], *, final: bool = False) -> list[Segment]:
        """Segments that `ids` add. What may be the start of a tag, or of a character, waits until it is decided or
        `final` says that nothing follows. A call that is cut off ends without a CallEnd."""
        self._ids.extend(ids)
        text = self._decode(self._ids)
        self._text = text if final else text.rstrip("\ufffd")
        segments: list[Segment] = []
        while self._go(segments, final):
            pass
        return segments

    def _go(self, out: list[Segment], final: bool) -> bool:
        """One stretch further; False where more text is needed."""
        match self._place:
            case "thinking":
                return self._plain(out, final, THINK_CLOSE, Thinking, "text")
            case "text":
                if self._blank and not self._began_open:
                    rest = self._text[self._at :].lstrip()
                    if rest.startswith(THINK_OPEN):
                        self._at = self._text.index(THINK_OPEN, self._at) + len(THINK_OPEN)
                        self._place, self._began_open = "thinking", True
                        return True
                    if not final and THINK_OPEN.startswith(rest):
                        return False
                    self._blank = False
                return self._plain(out, final, OPEN, Text, "call")
            case "call":
                return self._name(out)
            case "arguments":
                return self._next_argument(out)
            case "value":
                return self._value(out, final)
            case _:
                return False

    def _plain(
        self, out: list[Segment], final: bool, tag: str, kind: type[Thinking] | type[Text], following: _Place
    ) -> bool:
        end = self._text.find(tag, self._at)
        found = end >= 0
        if not found:
            end = len(self._text) - (0 if final else _begun(self._text, self._at, tag))
        if end > self._at:
            out.append(kind(self._text[self._at : end]))
            self._at = end
        if found:
            if following == "call":
                self._number += 1
                self._call_at = end
            self._at, self._place = end + len(tag), following
        return found

    def _name(self, out: list[Segment]) -> bool:
        match = _FUNCTION.match(self._text, self._at)
        if match is None:
            return self._broken(out)
        out.append(CallStart(self._number, match.group(1).strip()))
        self._at, self._place = match.end(), "arguments"
        return True

    def _next_argument(self, out: list[Segment]) -> bool:
        match = _PARAMETER.match(self._text, self._at)
        if match is not None:
            if match.end() == len(self._text) and not match.group().endswith("\n"):
                return False  # the newline behind the tag, which is no part of the value, may still come
            self._own_line = match.group().endswith("\n")
            self._argument, self._at, self._place = match.group(1).strip(), match.end(), "value"
            return True
        match = _CALL_END.match(self._text, self._at)
        return self._ended(out, match.end()) if match is not None else self._broken(out)

    def _value(self, out: list[Segment], final: bool) -> bool:
        closed, begins = _OWN_LINE if self._own_line else _INLINE
        # An empty value may share its newline with the closing tag, so the search starts at that newline.
        start = self._at - 1 if self._own_line and self._text.startswith("</", self._at) else self._at
        match = closed.search(self._text, start)
        begun = None if final else begins.search(self._text, start)
        mark = match or begun
        end = max(mark.start(), self._at) if mark is not None else len(self._text)
        if end > self._at:
            out.append(ArgumentDelta(self._number, self._argument, self._text[self._at : end]))
            self._at = end
        if match is not None:
            self._at, self._place = match.end(), "arguments"
        return match is not None

    def _broken(self, out: list[Segment]) -> bool:
        """A call that does not read as one (yet): it ends at its closing tag, as the parser has it."""
        end = self._text.find(CLOSE, self._at)
        return end >= 0 and self._ended(out, end + len(CLOSE))

    def _ended(self, out: list[Segment], end: int) -> bool:
        parsed = parse_reply(self._text[self._call_at : end], self._schemas)
        if parsed.calls:
            out.append(CallEnd(self._number, parsed.calls[0]))
        self._at, self._place = end, "text"
        return True


def _begun(text: str, start: int, tag: str) -> int:
    """Length of the longest end of `text`, behind `start`, that begins `tag` without being one."""
    longest = min(len(tag) - 1, len(text) - start)
    return next((n for n in range(longest, 0, -1) if text.endswith(tag[:n])), 0)
