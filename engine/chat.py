"""Chat templates: messages to text, in a sandbox, with the template's own special tokens told from the user's text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.errors import TokenizerError


class Verbatim(str):
    """Text that a model wrote itself: special tokens in it are real, unlike those in a user's or a tool's text."""

    __slots__ = ()


class ChatTemplate:
    """A compiled `chat_template.jinja`.

    The names that Hugging Face templates expect are there: `tojson`, `raise_exception`, `strftime_now`.
    """

    def __init__(self, source: str, specials: Sequence[str]) -> None:
        """`specials`: text of every special token. Raises TokenizerError when the template has a syntax error."""
        import jinja2
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = _strftime_now
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as fault:
            raise TokenizerError(f"the chat template can't be read: {fault}") from None
        self._specials = tuple(sorted(filter(None, specials), key=len, reverse=True))

    def render(self, messages: Sequence[Mapping[str, Any]], **context: Any) -> tuple[str, str]:
        """Rendered text, and the guard character in it.

        A guard stands behind the first character of every special token's text that a message or tool description
        holds, so that what reads as a special token in the result is the template's own. Take the guards out before
        use. Raises TokenizerError with the template's own complaint.
        """
        import jinja2

        given = {"messages": [_plain(message) for message in messages], **context}
        guard = _unused_character(given)
        guarded = _map_text(given, lambda text: self._guard(text, guard))
        try:
            return self._template.render(guarded), guard
        except TokenizerError:
            raise
        except (jinja2.TemplateError, TypeError, ValueError, AttributeError, LookupError) as fault:
            raise TokenizerError(f"the chat template refuses these messages: {fault}") from None

    def _guard(self, text: str, guard: str) -> str:
        if isinstance(text, Verbatim):
            return str(text)
        for special in self._specials:
            if special in text:
                text = text.replace(special, special[0] + guard + special[1:])
        # What follows in the template must not complete a token that the text begins.
        if any(text.endswith(special[:length]) for special in self._specials for length in range(1, len(special))):
            text += guard
        return text


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise TokenizerError("every message needs a role: system, user, assistant or tool")
    return dict(message)


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {_map_text(key, change): _map_text(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_text(item, change) for item in value]
    return value


def _unused_character(value: Any) -> str:
    """A private-use character that occurs nowhere in `value`."""
    seen: set[str] = set()

    def note(text: str) -> str:
        seen.update(text)
        return text

    _map_text(value, note)
    return next(character for code in range(0xE000, 0xF900) if (character := chr(code)) not in seen)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise TokenizerError(f"the chat template refuses these messages: {message}")


def _strftime_now(pattern: str) -> str:
    from datetime import datetime

    return datetime.now().strftime(pattern)
