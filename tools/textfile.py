"""A file as text that goes back to the very same bytes.

Bytes that are no UTF-8 become lone surrogates (PEP 383) and return unharmed; line ends are seen as "\\n" and written as
the file has them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

from tools.binary import binary_kind, describe
from tools.protocol import ToolError

_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class TextFile:
    """raw: the text with its own line ends. text: the same with every line end as "\\n". ending: its commonest one."""

    raw: str
    text: str
    ending: str

    @classmethod
    def parse(cls, path: str, data: bytes) -> TextFile:
        """Raises ToolError for content that is no text in an ASCII-compatible encoding."""
        if kind := binary_kind(data):
            raise ToolError(f"{describe(path, data, kind)[:-1]} (no text file)")
        raw = data.decode("utf-8", "surrogateescape")
        ends = Counter(_END.findall(raw))
        return cls(raw, _END.sub("\n", raw), ends.most_common(1)[0][0] if ends else "\n")

    @property
    def lines(self) -> list[str]:
        """Lines without their ends; a final line end starts no further line."""
        lines = self.text.split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    def shown(self) -> str:
        """The text without lone surrogates, for eyes only."""
        return visible(self.text)

    def splice(self, start: int, end: int, new: str) -> bytes:
        """The file's bytes with `text[start:end]` replaced: nothing outside that span changes. Offsets are into `text`.

        Line ends in `new` become those of the lines they replace, else the file's commonest.
        """
        removed = _END.findall(self.raw[self._raw_offset(start) : self._raw_offset(end)])
        own = iter(removed)
        written = _END.sub(lambda _: next(own, removed[-1] if removed else self.ending), new)
        changed = self.raw[: self._raw_offset(start)] + written + self.raw[self._raw_offset(end) :]
        return changed.encode("utf-8", "surrogateescape")

    def _raw_offset(self, offset: int) -> int:
        """Offset into `raw` of an offset into `text`: each "\\r\\n" before it counts one more."""
        return offset + bisect_right(self._long_ends, offset - 1)

    @property
    def _long_ends(self) -> list[int]:
        """Offsets in `text` of the line ends that are "\\r\\n" in `raw`, ascending."""
        return [match.start() - i for i, match in enumerate(re.finditer("\r\n", self.raw))]


def visible(text: str) -> str:
    """`text` with lone surrogates replaced, so that it can be encoded."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
