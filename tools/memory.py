"""What the tools have shown and written, so that a file that changed in between is noticed and an edit can go back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

KEPT_EDITS = 100
MAX_KEPT_BYTES = 64 << 20


@dataclass(frozen=True)
class Edit:
    """before: the file's bytes, None where the edit made it. after: its bytes then."""

    path: str
    before: bytes | None
    after: bytes


class FileMemory:
    """Of one set of tools in one sandbox."""

    def __init__(self) -> None:
        self._seen: dict[str, set[bytes]] = {}
        self._edits: list[Edit] = []

    def saw(self, path: str, data: bytes) -> None:
        """The model was shown this content."""
        self._seen.setdefault(path, set()).add(hashlib.sha256(data).digest())

    def is_news(self, path: str, data: bytes) -> bool:
        """Whether the file was shown or written before, and its content now is none of what it was then."""
        seen = self._seen.get(path)
        return seen is not None and hashlib.sha256(data).digest() not in seen

    def wrote(self, edit: Edit) -> None:
        """Remember an edit; the oldest are forgotten when there are many."""
        self.saw(edit.path, edit.after)
        self._edits.append(edit)
        sizes = [len(kept.before or b"") + len(kept.after) for kept in self._edits]
        while len(self._edits) > 1 and (len(self._edits) > KEPT_EDITS or sum(sizes) > MAX_KEPT_BYTES):
            del self._edits[0], sizes[0]

    def last(self, path: str) -> Edit | None:
        """The last edit of a file that was not taken back."""
        return next((edit for edit in reversed(self._edits) if edit.path == path), None)

    def took_back(self, edit: Edit) -> None:
        """Forget an edit."""
        self._edits.remove(edit)
