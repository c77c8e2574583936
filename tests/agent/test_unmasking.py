"""Drawing blocks as they are unmasked: on a terminal, and where there is none."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pytest

from clover_agent.unmasking import Terminal, Unmasking
from engine.events import BlockUpdate, Finished, Tokens

MASK, PAD = 0, 1
WORDS = {2: "def", 3: " f", 4: "(x):\n", 5: "    return", 6: " x", 7: "\n\n", 8: "\x1b[2Jevil", 9: "é" * 50, 10: "\t"}


def decode(ids: Sequence[int]) -> str:
    return "".join(WORDS[i] for i in ids)


def screen(output: str) -> list[str]:
    """What a terminal shows after `output`: cursor up, erase below and line ends are obeyed, styles dropped."""
    rows, at = [""], 0
    for part in re.findall(r"\x1b\[\d*[A-Za-z]|\x1b\[[\d;]+m|\n|\r|[^\x1b\n\r]+", output):
        if up := re.fullmatch(r"\x1b\[(\d+)A", part):
            at -= int(up[1])
        elif part == "\x1b[J":
            del rows[at + 1 :]
            rows[at] = ""
        elif part == "\n":
            at += 1
            rows += [""] * (at + 1 - len(rows))
        elif not part.startswith("\x1b") and part != "\r":
            rows[at] += part
    return rows


def view(live: bool, colour: bool = False, width: int = 80) -> tuple[Unmasking, io.StringIO]:
    stream = io.StringIO()
    return Unmasking(stream, decode, MASK, frozenset({PAD}), Terminal(live, colour, width)), stream


def update(*tokens: int) -> BlockUpdate:
    return BlockUpdate(0, 0, tokens, tuple(0.0 for _ in tokens))


def test_masked_cells_fill_in_place_and_the_final_text_stays() -> None:
    show, stream = view(live=True)
    show(update(2, MASK, MASK, 5, MASK))
    assert screen(stream.getvalue()) == ["  │ def░░░░    return░░", ""]
    show(update(2, 3, 4, 5, MASK))
    assert screen(stream.getvalue()) == ["  │ def f(x):", "  │     return░░", ""]
    show(Tokens((2, 3, 4, 5, 6)))
    show(update(MASK, 6))
    assert screen(stream.getvalue()) == ["  │ def f(x):", "  │     return x░░ x", ""]
    show(Tokens((7, PAD)))
    show(Finished("stop", 10, 7, 3, 2, 0, 1.25))
    assert screen(stream.getvalue())[:3] == ["  │ def f(x):", "  │     return x", "  │ "]
    assert "7 tokens in 3 previews and 2 commits (1.4 tokens a pass), 1.2 s" in stream.getvalue()


@pytest.mark.parametrize("width", [24, 30, 80])
def test_long_blocks_wrap_and_are_erased_whole(width: int) -> None:
    show, stream = view(live=True, width=width)
    for _ in range(3):
        show(update(9, MASK, 9))
    rows = screen(stream.getvalue())
    assert max(map(len, rows)) < width
    assert "".join(row.removeprefix("  │ ") for row in rows) == "é" * 50 + "░░" + "é" * 50


def test_without_a_terminal_only_final_lines_are_written() -> None:
    show, stream = view(live=False)
    show(update(2, MASK))
    assert stream.getvalue() == ""
    show(Tokens((2, 3, 4)))
    show(Tokens((5, 6, PAD)))
    show.settle()
    assert stream.getvalue() == "  │ def f(x):\n  │     return x\n"
    assert "\x1b" not in stream.getvalue()


def test_the_models_text_cannot_steer_the_terminal() -> None:
    show, stream = view(live=True, colour=False)
    show(update(8, 10, MASK))
    show(Tokens((8, 10)))
    show.settle()
    assert "\x1b[2J" not in stream.getvalue()
    assert "[2Jevil" in screen(stream.getvalue())[0]


def test_colours_only_where_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Terminal.of(Screen()).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert Terminal.of(Screen()).live
    assert not Terminal.of(Screen()).colour
    assert not Terminal.of(io.StringIO()).live
    monkeypatch.setenv("TERM", "dumb")
    assert not Terminal.of(Screen()).live
    show, stream = view(live=True, colour=True)
    show(update(2, MASK))
    show(update(2, 3))
    assert "\x1b[1;32m f\x1b[0m" in stream.getvalue()
    assert not re.search(r"\x1b\[1;32mdef\x1b\[0m.*\x1b\[1;32mdef", stream.getvalue(), re.S)
