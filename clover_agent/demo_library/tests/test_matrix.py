import pytest

from tidbits.matrix import determinant, identity, multiply, spiral, transpose


def test_transpose():
    assert transpose([[1, 2, 3], [4, 5, 6]]) == [[1, 4], [2, 5], [3, 6]]


def test_multiply():
    assert multiply([[1, 2], [3, 4]], [[5, 6], [7, 8]]) == [[19, 22], [43, 50]]
    assert multiply([[1, 2, 3]], [[1], [2], [3]]) == [[14]]


def test_multiply_by_identity():
    assert identity(2) == [[1, 0], [0, 1]]
    assert multiply([[2, 3], [5, 7]], identity(2)) == [[2, 3], [5, 7]]


def test_multiply_sizes():
    with pytest.raises(ValueError):
        multiply([[1, 2]], [[1, 2]])


def test_determinant():
    assert determinant([]) == 1
    assert determinant([[7]]) == 7
    assert determinant([[1, 2], [3, 4]]) == -2
    assert determinant([[2, 0, 1], [1, 3, 2], [1, 1, 1]]) == 0
    assert determinant([[2, 0, 1], [1, 3, 2], [0, 1, 4]]) == 21


def test_determinant_not_square():
    with pytest.raises(ValueError):
        determinant([[1, 2]])


def test_spiral():
    assert spiral([[1, 2, 3], [4, 5, 6], [7, 8, 9]]) == [1, 2, 3, 6, 9, 8, 7, 4, 5]
    assert spiral([[1, 2], [3, 4], [5, 6]]) == [1, 2, 4, 6, 5, 3]
    assert spiral([]) == []
