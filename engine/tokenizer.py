"""The tokenizer of a checkpoint: text to ids and back, messages to prompt ids."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.chat import ChatTemplate
from engine.errors import TokenizerError


class Tokenizer:
    """tokenizer.json with a chat template.

    special: id of every added token (`<|im_end|>`, `<think>`, ...) by its text. definition: the tokenizer.json.
    """

    def __init__(self, definition: str, template: str | None = None) -> None:
        """`definition`: text of a tokenizer.json; `template`: text of a chat_template.jinja. Raises TokenizerError."""
        from tokenizers import Tokenizer as Backend

        try:
            self._backend = Backend.from_str(definition)
        except Exception as fault:  # the library raises bare Exception
            raise TokenizerError(f"tokenizer.json can't be read: {fault}") from None
        self.definition = definition
        added = self._backend.get_added_tokens_decoder()
        self.special: Mapping[str, int] = {token.content: index for index, token in sorted(added.items())}
        self._special_ids = frozenset(self.special.values())
        by_length = sorted(self.special, key=len, reverse=True)
        self._split = re.compile("(" + "|".join(map(re.escape, by_length)) + ")") if by_length else None
        self._template = ChatTemplate(template, by_length) if template is not None else None

    @classmethod
    def load(cls, folder: str | Path) -> Tokenizer:
        """Read tokenizer.json, and chat_template.jinja (or tokenizer_config.json's `chat_template`) where there is one.

        Raises TokenizerError, one line naming the file.
        """
        folder = Path(folder)
        definition = _read(folder / "tokenizer.json")
        if (folder / "chat_template.jinja").is_file():
            template = _read(folder / "chat_template.jinja")
        elif (folder / "tokenizer_config.json").is_file():
            template = _configured_template(folder / "tokenizer_config.json")
        else:
            template = None
        try:
            return cls(definition, template)
        except TokenizerError as fault:
            raise TokenizerError(f"{folder}: {fault}") from None

    @property
    def vocab_size(self) -> int:
        """Highest id plus one, special tokens included."""
        return max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def token_id(self, token: str) -> int:
        """Id of a special token, for example `<|im_end|>`. Raises TokenizerError where there is none."""
        if token not in self.special:
            raise TokenizerError(f"the tokenizer has no special token {token}")
        return self.special[token]

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Ids of `text`. Special tokens' text becomes the special tokens only with `special`, else ordinary ids."""
        return self._encode_text(text) if special else self._encode_plain(text)

    def starts(self, text: str) -> list[int]:
        """Where each id of `encode(text)` begins, in characters; for text that holds no special token's text."""
        return [start for start, _ in self._backend.encode(text, add_special_tokens=False).offsets]

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """Text of `ids`; bytes that are no UTF-8 (a cut character) become U+FFFD, ids without a token nothing."""
        return self._backend.decode(list(ids), skip_special_tokens=skip_special)

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        enable_thinking: bool = True,
        preserve_thinking: bool = False,
    ) -> list[int]:
        """Prompt ids of messages in Hugging Face form: role, content, and for the assistant `reasoning_content` and
        `tool_calls` (each `{"function": {"name": ..., "arguments": {...}}}`).

        Special tokens come from the template alone: the same text inside a message stays ordinary text, unless the
        message's string is a `Verbatim`. Raises TokenizerError.
        """
        rendered, guard = self._render(messages, tools, add_generation_prompt, enable_thinking, preserve_thinking)
        ids: list[int] = []
        for piece in self._split.split(rendered) if self._split else [rendered]:
            if piece in self.special:
                ids.append(self.special[piece])
            elif piece:
                ids.extend(self._encode_plain(piece.replace(guard, "")))
        return ids

    def render_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        enable_thinking: bool = True,
        preserve_thinking: bool = False,
    ) -> str:
        """The prompt's text, for people: ids must come from `encode_chat`, which knows whose text is whose."""
        rendered, guard = self._render(messages, tools, add_generation_prompt, enable_thinking, preserve_thinking)
        return rendered.replace(guard, "")

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        enable_thinking: bool,
        preserve_thinking: bool,
    ) -> tuple[str, str]:
        if self._template is None:
            raise TokenizerError("the checkpoint has no chat template: add chat_template.jinja to its folder")
        return self._template.render(
            messages,
            tools=list(tools) if tools else None,
            add_generation_prompt=add_generation_prompt,
            enable_thinking=enable_thinking,
            preserve_thinking=preserve_thinking,
        )

    def _encode_text(self, text: str) -> list[int]:
        return self._backend.encode(text, add_special_tokens=False).ids

    def _encode_plain(self, text: str) -> list[int]:
        """Encode with no special token recognised: a special token's text is cut behind its first character."""
        if self._split is None or not self._split.search(text):
            return self._encode_text(text)
        ids: list[int] = []
        start = 0
        for match in self._split.finditer(text):
            ids.extend(self._encode_text(text[start : match.start() + 1]))
            start = match.start() + 1
        ids.extend(self._encode_text(text[start:]))
        if not self._special_ids.isdisjoint(ids):
            raise TokenizerError("two special tokens overlap in this text, which can't be encoded as ordinary text")
        return ids


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TokenizerError(f"{path} is missing: is this a checkpoint folder?") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise TokenizerError(f"{path} can't be read: {fault}") from None


def _configured_template(path: Path) -> str | None:
    try:
        template = json.loads(_read(path)).get("chat_template")
    except (ValueError, AttributeError) as fault:
        raise TokenizerError(f"{path} is not a JSON object: {fault}") from None
    return template if isinstance(template, str) else None
