"""Periods of budgets that begin anew: days, weeks, months and years of the calendar, in UTC.

Claim:   in each period of a table the answers together keep the table's (epsilon, delta), whatever
         the clock does; and the periods of a table follow one another, none twice.
Why:     a charge goes to the period of the clock or to the last one that was charged, whichever is
         later, and each period has a sum of its own, which is never reset. A clock that goes back
         finds the last period, with what was spent of it. Names of periods sort as time does.
Assumes: nothing of the clock. One that jumps ahead opens a period early: then the table has that
         period's budget now and no other until the calendar is there again. The guarantee is per
         period of the ledger; over n periods a unit loses at most n times the amounts.
Source:  own; [Rogers2016] for basic composition of the periods
"""

from __future__ import annotations

from datetime import MAXYEAR, UTC, date, datetime, timedelta
from typing import assert_never

from dp_sql.schema.catalog import Renew


def period_at(renew: Renew, time: datetime, last: str) -> str:
    """Return the period that a charge at `time` goes to. last: the last one charged, or "".

    It is "2026-11-30", "2026-W49" (ISO 8601), "2026-11" or "2026"; "" where nothing is renewed.
    """
    return max(_period_of(renew, time.astimezone(UTC).date()), last)


def next_period(renew: Renew, period: str) -> date | None:
    """Return the day on which the period after `period` begins, in UTC; None for never.

    Raises ValueError for a text that `period_at` never returns.
    """
    try:
        match renew:
            case Renew.NEVER:
                return None
            case Renew.DAILY:
                return date.fromisoformat(period) + timedelta(days=1)
            case Renew.WEEKLY:
                return date.fromisoformat(f"{period}-1") + timedelta(days=7)
            case Renew.MONTHLY:
                return (date.fromisoformat(f"{period}-01") + timedelta(days=31)).replace(day=1)
            case Renew.YEARLY:
                first = date.fromisoformat(f"{period}-01-01")
                return None if first.year == MAXYEAR else first.replace(year=first.year + 1)
            case _:
                assert_never(renew)
    except OverflowError:
        return None  # the calendar of Python ends with 9999


def _period_of(renew: Renew, day: date) -> str:
    match renew:
        case Renew.NEVER:
            return ""
        case Renew.DAILY:
            return day.isoformat()
        case Renew.WEEKLY:
            year, week, _ = day.isocalendar()
            return f"{year:04}-W{week:02}"
        case Renew.MONTHLY:
            return day.isoformat()[:7]
        case Renew.YEARLY:
            return day.isoformat()[:4]
        case _:
            assert_never(renew)
