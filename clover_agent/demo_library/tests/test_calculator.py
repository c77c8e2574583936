import pytest

from tidbits.calculator import evaluate, tokenize


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("8 / 4 / 2", 1), ("7 - 2 - 1", 4), ("-3 + 5", 2), ("2 * -4", -8),
        ("--2", 2), ("1.5 * 2", 3), ("((4))", 4), ("10 - (2 + 3) * 2", 0),
    ],
)
def test_evaluate(text, value):
    assert evaluate(text) == value


def test_tokenize():
    assert tokenize("12+ (3.5)") == [12.0, "+", "(", 3.5, ")"]


@pytest.mark.parametrize("text", ["", "1 +", "(1", "1)", "2 $ 3", "* 2", "1 2"])
def test_malformed(text):
    with pytest.raises(ValueError):
        evaluate(text)
