import datetime

import pytest

from tidbits.dates import add_days, day_of_year, days_in_month, is_leap, weekday


@pytest.mark.parametrize(("year", "leap"), [(2024, True), (2023, False), (1900, False), (2000, True), (2100, False)])
def test_is_leap(year, leap):
    assert is_leap(year) is leap


def test_days_in_month():
    assert days_in_month(2024, 2) == 29
    assert days_in_month(2023, 2) == 28
    assert [days_in_month(2024, month) for month in (1, 4, 12)] == [31, 30, 31]


@pytest.mark.parametrize("month", [0, 13])
def test_no_such_month(month):
    with pytest.raises(ValueError):
        days_in_month(2024, month)


DATES = [(1900, 1, 1), (1999, 12, 31), (2000, 2, 29), (2001, 3, 1), (2024, 2, 28), (2026, 7, 14)]


@pytest.mark.parametrize("date", DATES)
def test_against_the_standard_library(date):
    expected = datetime.date(*date)
    assert day_of_year(*date) == expected.timetuple().tm_yday
    assert weekday(*date) == expected.weekday()
    for days in (0, 1, 31, 400):
        later = expected + datetime.timedelta(days=days)
        assert add_days(*date, days) == (later.year, later.month, later.day)
