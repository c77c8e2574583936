"""Calendar arithmetic in the Gregorian calendar, without the standard library."""

MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def is_leap(year):
    """Whether a year has a 29th of February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year, month):
    """28 to 31; ValueError for a month outside 1..12."""
    if not 1 <= month <= 12:
        raise ValueError(f"no month {month}")
    if month == 2 and is_leap(year):
        return 29
    return MONTH_DAYS[month - 1]


def day_of_year(year, month, day):
    """1 for the first of January."""
    total = day
    for earlier in range(1, month):
        total += days_in_month(year, earlier)
    return total


def add_days(year, month, day, days):
    """The date `days` later (days >= 0), as a (year, month, day) tuple."""
    day += days
    while day > days_in_month(year, month):
        day -= days_in_month(year, month)
        month += 1
        if month > 12:
            month = 1
            year += 1
    return year, month, day


def weekday(year, month, day):
    """0 for Monday to 6 for Sunday, counted from Monday, 1 January 1900."""
    days = 0
    for earlier in range(1900, year):
        days += 366 if is_leap(earlier) else 365
    days += day_of_year(year, month, day) - 1
    return days % 7
