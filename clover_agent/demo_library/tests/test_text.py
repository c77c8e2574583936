import pytest

from tidbits.text import common_prefix, slugify, snake_case, truncate, wrap


@pytest.mark.parametrize(
    ("title", "slug"),
    [("Hello, World!", "hello-world"), ("  A  b ", "a-b"), ("x", "x"), ("", ""), ("C3-PO & R2", "c3-po-r2"), ("é1", "1")],
)
def test_slugify(title, slug):
    assert slugify(title) == slug


def test_slugify_separator():
    assert slugify("one two", separator="_") == "one_two"


@pytest.mark.parametrize(
    ("width", "lines"),
    [(5, ["aa bb", "cc"]), (4, ["aa", "bb", "cc"]), (8, ["aa bb cc"]), (1, ["aa", "bb", "cc"])],
)
def test_wrap(width, lines):
    assert wrap("aa bb  cc", width) == lines


def test_wrap_nothing():
    assert wrap("  ", 10) == []


@pytest.mark.parametrize(
    ("text", "limit", "short"),
    [("abcdef", 6, "abcdef"), ("abcdefg", 6, "abc..."), ("abcdefg", 3, "..."), ("abcdefg", 2, "..")],
)
def test_truncate(text, limit, short):
    assert truncate(text, limit) == short


@pytest.mark.parametrize(
    ("name", "snake"),
    [("myName", "my_name"), ("HTTPServer", "http_server"), ("A", "a"), ("already", "already"), ("getX", "get_x")],
)
def test_snake_case(name, snake):
    assert snake_case(name) == snake


@pytest.mark.parametrize(
    ("words", "prefix"),
    [(["flow", "flower", "flight"], "fl"), ([], ""), (["a", "b"], ""), (["same", "same"], "same"), (["ab"], "ab")],
)
def test_common_prefix(words, prefix):
    assert common_prefix(words) == prefix
