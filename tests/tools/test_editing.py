"""Edits change the span they name and no other byte, whatever the file's line ends and encoding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.editing import insert, replace
from tools.protocol import ToolError
from tools.textfile import TextFile

LINES = st.lists(st.sampled_from(["a", "b = 1", "    return x", "é", "", "\t", "\udcff", "a\x0cb"]), max_size=8)
ENDS = st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=8, max_size=8)


def parse(data: bytes) -> TextFile:
    return TextFile.parse("f.py", data)


@given(lines=LINES, ends=ENDS, final=st.booleans(), data=st.data())
def test_bytes_outside_the_span_stay_and_the_text_reads_as_asked(
    lines: list[str], ends: list[str], final: bool, data: st.DataObject
) -> None:
    raw = "".join(line + end for line, end in zip(lines, ends, strict=False))
    raw = raw if final else raw.rstrip("\r\n")
    original = raw.encode("utf-8", "surrogateescape")
    file = parse(original)
    start = data.draw(st.integers(0, len(file.text)))
    end = data.draw(st.integers(start, len(file.text)))
    new = data.draw(st.sampled_from(["", "x", "x\ny", "\n", "z\n\n"]))
    changed = file.splice(start, end, new)
    assert parse(changed).text == file.text[:start] + new + file.text[end:] or "\r" in raw  # "\r" + "\n" may join
    head, tail = file.splice(start, len(file.text), ""), file.splice(0, end, "")
    assert changed.startswith(head)
    assert changed.endswith(tail)
    assert len(changed) >= len(head) + len(tail)


@given(lines=LINES, ends=ENDS)
def test_a_file_survives_being_read(lines: list[str], ends: list[str]) -> None:
    data = "".join(a + b for a, b in zip(lines, ends, strict=False)).encode("utf-8", "surrogateescape")
    file = parse(data)
    assert file.splice(0, 0, "") == data
    assert file.splice(len(file.text), len(file.text), "") == data


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\nb", "b", "c", b"a\nc"),
        (b"a\nb\r\nc\n", "b\nc", "d\ne", b"a\nd\r\ne\n"),
        (b"# caf\xe9\nx = 1\n", "x = 1", "x = 2", b"# caf\xe9\nx = 2\n"),
        (b"\xef\xbb\xbfx = 1\n", "x = 1", "x = 2", b"\xef\xbb\xbfx = 2\n"),
        (b"a\nb\n\n", "a", "c", b"c\nb\n\n"),
        (b"a\nb\nc\n", "b\n", "", b"a\nc\n"),
    ],
)
def test_line_ends_encodings_and_final_lines_stay(before: bytes, old: str, new: str, after: bytes) -> None:
    assert replace("f.py", parse(before), old, new) == after


def test_repeated_text_needs_a_line() -> None:
    file = parse(b"x\ny\nx\nx x\n")
    with pytest.raises(ToolError, match=r"4 times in f.py, at lines 1, 3, 4, 4: say which with `line`"):
        replace("f.py", file, "x", "z")
    assert replace("f.py", file, "x", "z", 3) == b"x\ny\nz\nx x\n"
    with pytest.raises(ToolError, match="give more of the lines"):
        replace("f.py", file, "x", "z", 4)
    with pytest.raises(ToolError, match="say which"):
        replace("f.py", file, "x", "z", 2)
    assert replace("f.py", file, "y", "z", 40) == b"x\nz\nx\nx x\n"  # unique: a wrong line does no harm


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "x", "old_str is empty"),
        ("a = 1", "a = 1", "the same"),
        ("zebra crossing", "x", "does not occur in f.py$"),
        ("  \ta = 1", "x", "line 2 differs from it in indentation only"),
        ("    a = 1\n    c = 3", "x", "line 2 is its first line, but the lines below differ"),
        (
            "    a = 1\n  b  = 2\n",
            "x",
            r"lines 2 to 3 differ from it in whitespace only:\n2\t'    a = 1'\n3\t'    b = 2'$",
        ),
        ("    a=1", "x", "line 2 differs from it in whitespace only"),
        ("    b = 22", "x", "the nearest line is 3: '    b = 2'"),
    ],
)
def test_faults_say_what_is_wrong_and_where_to_look(old: str, new: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        replace("f.py", parse(b"def f():\n    a = 1\n    b = 2\n"), old, new)


@pytest.mark.parametrize(
    ("before", "line", "text", "after"),
    [
        (b"a\nb\n", 0, "x", b"x\na\nb\n"),
        (b"a\nb\n", 1, "x\ny\n", b"a\nx\ny\nb\n"),
        (b"a\nb\n", 2, "x", b"a\nb\nx\n"),
        (b"a\nb", 2, "x\n", b"a\nb\nx"),
        (b"a\r\nb\r\n", 1, "x", b"a\r\nx\r\nb\r\n"),
        (b"", 0, "x", b"x\n"),
    ],
)
def test_inserting_lines(before: bytes, line: int, text: str, after: bytes) -> None:
    assert insert("f.py", parse(before), line, text) == after


def test_inserting_beyond_the_end_and_nothing() -> None:
    with pytest.raises(ToolError, match="has 1 lines: line 2 is beyond"):
        insert("f.py", parse(b"a\n"), 2, "x")
    with pytest.raises(ToolError, match="text is empty"):
        insert("f.py", parse(b"a\n"), 1, "")


def test_binary_files_are_refused() -> None:
    with pytest.raises(ToolError, match="no text file"):
        parse("x = 1\n".encode("utf-16"))
