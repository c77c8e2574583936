import pytest

from tidbits.stats import histogram, mean, median, mode, moving_average, variance


def test_mean():
    assert mean([1, 2, 6]) == 3
    with pytest.raises(ValueError):
        mean([])


def test_median():
    assert median([5, 1, 3]) == 3
    assert median([4, 1, 3, 2]) == 2.5
    assert median([9]) == 9


def test_variance():
    assert variance([2, 4, 4, 4, 5, 5, 7, 9]) == 4
    assert variance([3, 3]) == 0


def test_mode():
    assert mode([1, 2, 2, 3]) == 2
    assert mode(["b", "a", "a", "b"]) == "b"
    assert mode([]) is None


def test_moving_average():
    assert moving_average([1, 2, 3, 4], 2) == [1.5, 2.5, 3.5]
    assert moving_average([1, 2], 2) == [1.5]
    assert moving_average([1], 2) == []
    assert moving_average([4, 6], 1) == [4, 6]
    with pytest.raises(ValueError):
        moving_average([1], 0)


def test_histogram():
    assert histogram([0, 1, 2, 3, 4], 0, 4, 2) == [2, 3]
    assert histogram([-1, 5, 0.5], 0, 4, 4) == [1, 0, 0, 0]
    assert histogram([1, 2, 3], 1, 3, 2) == [1, 2]
