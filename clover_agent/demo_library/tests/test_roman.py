import pytest

from tidbits.roman import from_roman, to_roman

PAIRS = [(1, "I"), (4, "IV"), (9, "IX"), (14, "XIV"), (40, "XL"), (90, "XC"), (444, "CDXLIV"), (1994, "MCMXCIV"), (3999, "MMMCMXCIX")]


@pytest.mark.parametrize(("number", "numeral"), PAIRS)
def test_both_ways(number, numeral):
    assert to_roman(number) == numeral
    assert from_roman(numeral) == number


@pytest.mark.parametrize("number", [0, -1, 4000])
def test_out_of_range(number):
    with pytest.raises(ValueError):
        to_roman(number)


@pytest.mark.parametrize("numeral", ["", "IIII", "VX", "ABC", "IM"])
def test_not_a_numeral(numeral):
    with pytest.raises(ValueError):
        from_roman(numeral)
