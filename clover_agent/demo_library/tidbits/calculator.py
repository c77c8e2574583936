"""Arithmetic expressions: numbers, + - * /, unary minus and parentheses."""


def tokenize(text):
    """Numbers as floats, everything else as single characters."""
    tokens = []
    index = 0
    while index < len(text):
        char = text[index]
        if char.isspace():
            index += 1
        elif char.isdigit() or char == ".":
            end = index
            while end < len(text) and (text[end].isdigit() or text[end] == "."):
                end += 1
            tokens.append(float(text[index:end]))
            index = end
        elif char in "+-*/()":
            tokens.append(char)
            index += 1
        else:
            raise ValueError(f"unexpected {char!r}")
    return tokens


def evaluate(text):
    """The value of an expression; ValueError when it is malformed."""
    tokens = tokenize(text)
    value, position = _sum(tokens, 0)
    if position != len(tokens):
        raise ValueError("unexpected text after the expression")
    return value


def _sum(tokens, position):
    value, position = _product(tokens, position)
    while position < len(tokens) and tokens[position] in ("+", "-"):
        operator = tokens[position]
        right, position = _product(tokens, position + 1)
        value = value + right if operator == "+" else value - right
    return value, position


def _product(tokens, position):
    value, position = _factor(tokens, position)
    while position < len(tokens) and tokens[position] in ("*", "/"):
        operator = tokens[position]
        right, position = _factor(tokens, position + 1)
        value = value * right if operator == "*" else value / right
    return value, position


def _factor(tokens, position):
    if position >= len(tokens):
        raise ValueError("unexpected end")
    token = tokens[position]
    if token == "-":
        value, position = _factor(tokens, position + 1)
        return -value, position
    if token == "(":
        value, position = _sum(tokens, position + 1)
        if position >= len(tokens) or tokens[position] != ")":
            raise ValueError("missing )")
        return value, position + 1
    if isinstance(token, float):
        return token, position + 1
    raise ValueError(f"unexpected {token!r}")
