import pytest

from tidbits.runs import chunks, decode, encode, longest_run, rotate


def test_encode():
    assert encode("aabccc") == [("a", 2), ("b", 1), ("c", 3)]
    assert encode([]) == []
    assert encode("aba") == [("a", 1), ("b", 1), ("a", 1)]


def test_decode():
    assert decode([("a", 2), ("b", 1)]) == ["a", "a", "b"]
    assert decode(encode([1, 1, 2, 1])) == [1, 1, 2, 1]


def test_longest_run():
    assert longest_run("abbbcc") == 3
    assert longest_run("") == 0


def test_chunks():
    assert chunks([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]
    assert chunks("abcd", 4) == ["abcd"]
    assert chunks([1, 2], 1) == [[1], [2]]
    with pytest.raises(ValueError):
        chunks([1], 0)


def test_rotate():
    assert rotate([1, 2, 3, 4], 1) == [2, 3, 4, 1]
    assert rotate([1, 2, 3], -1) == [3, 1, 2]
    assert rotate([1, 2, 3], 4) == [2, 3, 1]
    assert rotate([], 3) == []
