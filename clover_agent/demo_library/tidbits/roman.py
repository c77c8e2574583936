"""Roman numerals from 1 to 3999."""

NUMERALS = [
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
]  # fmt: skip


def to_roman(number):
    """The numeral of an integer; ValueError outside 1..3999."""
    if not 0 < number < 4000:
        raise ValueError(f"{number} has no Roman numeral")
    result = ""
    for value, numeral in NUMERALS:
        count, number = divmod(number, value)
        result += numeral * count
    return result


def from_roman(numeral):
    """The integer of a numeral; ValueError for anything that is not a proper numeral."""
    number = 0
    rest = numeral
    for value, symbol in NUMERALS:
        while rest.startswith(symbol):
            number += value
            rest = rest[len(symbol):]
    if rest or number == 0 or to_roman(number) != numeral:
        raise ValueError(f"{numeral!r} is not a Roman numeral")
    return number
