"""Matrices as lists of rows."""


def transpose(matrix):
    """Rows become columns."""
    return [list(column) for column in zip(*matrix)]


def multiply(a, b):
    """The matrix product; ValueError when the inner sizes differ."""
    if len(a[0]) != len(b):
        raise ValueError("inner sizes differ")
    columns = transpose(b)
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def identity(size):
    """Ones on the diagonal, zeros elsewhere."""
    return [[1 if row == column else 0 for column in range(size)] for row in range(size)]


def determinant(matrix):
    """By expansion along the first row; ValueError for a matrix that is not square."""
    size = len(matrix)
    if any(len(row) != size for row in matrix):
        raise ValueError("not a square matrix")
    if size == 0:
        return 1
    total = 0
    for column in range(size):
        minor = [row[:column] + row[column + 1:] for row in matrix[1:]]
        sign = -1 if column % 2 else 1
        total += sign * matrix[0][column] * determinant(minor)
    return total


def spiral(matrix):
    """The elements in clockwise order from the top left corner inwards."""
    result = []
    rows = [list(row) for row in matrix]
    while rows:
        result.extend(rows.pop(0))
        rows = transpose(rows)[::-1]
    return result
