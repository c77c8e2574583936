import pytest

from tidbits.intervals import gaps, merge, overlaps, total_length


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [((0, 2), (1, 3), True), ((0, 2), (2, 3), False), ((5, 6), (0, 5), False), ((0, 9), (3, 4), True)],
)
def test_overlaps(a, b, expected):
    assert overlaps(a, b) is expected
    assert overlaps(b, a) is expected


def test_merge():
    assert merge([(5, 7), (0, 2), (1, 3)]) == [(0, 3), (5, 7)]
    assert merge([(0, 2), (2, 4)]) == [(0, 4)]
    assert merge([(0, 9), (3, 4)]) == [(0, 9)]
    assert merge([]) == []


def test_total_length():
    assert total_length([(0, 3), (2, 5), (10, 11)]) == 6


def test_gaps():
    assert gaps([(2, 4), (6, 8)], 0, 10) == [(0, 2), (4, 6), (8, 10)]
    assert gaps([(0, 4)], 2, 6) == [(4, 6)]
    assert gaps([(0, 10)], 2, 6) == []
    assert gaps([(0, 2), (6, 9)], 2, 6) == [(2, 6)]
    assert gaps([], 1, 3) == [(1, 3)]
