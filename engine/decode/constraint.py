"""What decoding needs of a grammar."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Cursor(Protocol):
    """A place in a grammar, behind the tokens consumed so far."""

    def forced(self) -> list[int]:
        """Ids that must follow, in order; empty where there is a choice."""
        ...

    def mask(self) -> Tensor:
        """[vocab] bool of the ids that may follow, on the model's device. Raises EngineError where there is none."""
        ...

    def allows(self, token: int) -> bool:
        """Whether `token` may follow."""
        ...

    def consume(self, token: int) -> bool:
        """Go on behind `token`; False, and no move, where it may not follow."""
        ...

    def completion(self, limit: int) -> list[int] | None:
        """A short way to the end of a response, its stop id included; None where none is known within `limit` ids."""
        ...

    def fork(self) -> Cursor:
        """An independent copy."""
        ...
