"""Frames of windows over one person's rows: ROWS, GROUPS and RANGE, between constants."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from decimal import Decimal

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.parser import constants
from dp_sql.parser.scope import Statement
from dp_sql.plan import functions
from dp_sql.plan.expression import Cast, Expression, IntervalValue, Literal
from dp_sql.plan.rows import Order
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

LARGEST = 1_000_000  # rows, groups or distance of a constant
_PLACES = ("UNBOUNDED PRECEDING", "PRECEDING", "CURRENT ROW", "FOLLOWING", "UNBOUNDED FOLLOWING")
_DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: DuckDB's text, and the order that it is over.

    counts_rows: it tells rows of one value of the order apart. distant: it is between distances of
    the one value of the order, which can't be made total.
    """

    text: str
    order: tuple[Order, ...]
    counts_rows: bool = False
    distant: bool = False


def frame_of(
    statement: Statement, spec: exp.WindowSpec | None, node: exp.Expr, order: list[Order]
) -> Frame:
    """Return the frame of a window.

    Claim:   a frame of distances holds the same rows in every order of the rows, and never raises.
    Why:     which rows are near follows from the value of the order alone; it is a whole number that
             is computed with in more digits than it has, or a double, which are infinite at worst.
    Assumes: DuckDB adds the distance in the type of the value.
    """
    if spec is None:
        return Frame("", tuple(order))
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE", "GROUPS") or spec.args.get("exclude"):
        raise statement.unsupported("this frame isn't answered.", node)
    ends, places = [], []
    for end in ("start", "end"):
        value, side = spec.args.get(end), str(spec.args.get(f"{end}_side") or "").upper()
        if isinstance(value, str) and value.upper() in ("UNBOUNDED", "CURRENT ROW"):
            text = f"{value.upper()} {side}".strip()
            places.append(_PLACES.index(text))
        elif value is None and end == "end":
            text = "CURRENT ROW"
            places.append(2)
        elif isinstance(value, exp.Expr) and side in _PLACES:
            text = f"{_distance(statement, kind, value, node, order)} {side}"
            places.append(_PLACES.index(side))
        else:
            raise _ends(statement, node)
        ends.append(text)
    if places[0] > places[1] or places[0] == 4 or places[1] == 0:
        raise statement.wrong("this frame ends before it starts.", node)
    text = f"{kind} BETWEEN {ends[0]} AND {ends[1]}"
    if kind == "RANGE" and {1, 3} & set(places):
        (only,) = order
        by = replace(only, expression=measured(statement, only.expression, node))
        return Frame(text, (by,), distant=True)
    return Frame(text, tuple(order), counts_rows=kind == "ROWS")


def _ends(statement: Statement, node: exp.Expr) -> Exception:
    return statement.unsupported(
        f"the ends of a frame are constants up to {LARGEST:,}, UNBOUNDED or CURRENT ROW.", node
    )


def _distance(
    statement: Statement, kind: str, value: exp.Expr, node: exp.Expr, order: list[Order]
) -> str:
    """Return the text of a frame's end: a number of rows, of groups, or of what is ordered by."""
    number = isinstance(value, exp.Literal) and not value.is_string
    if kind != "RANGE":
        if not number or not value.is_int or int(value.name) > LARGEST:
            raise _ends(statement, node)
        return str(int(value.name))
    if len(order) != 1:
        raise statement.wrong("a RANGE with a distance is over one value of ORDER BY.", node)
    type_ = order[0].expression.type
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        if not isinstance(value, exp.Interval):
            raise statement.unsupported(
                f"the distance of a {type_} is an interval.", node, hint="INTERVAL 7 DAYS"
            )
        return _span(statement, constants.interval(statement, value), type_, node)
    if not number or Decimal(value.name) > LARGEST:
        raise _ends(statement, node)
    distance = Decimal(value.name)
    digits = -int(distance.normalize().as_tuple().exponent)
    if not type_.is_float and digits > type_.scale:
        raise statement.unsupported(
            f"the distance has more decimals than the {type_} that is ordered by.",
            node,
            hint="ORDER BY CAST(… AS DOUBLE)",
        )
    return f"{distance:f}"


def _span(statement: Statement, interval: Literal, type_: SqlType, node: exp.Expr) -> str:
    """Return an interval in days for a date, in microseconds for a timestamp."""
    value = interval.value
    assert isinstance(value, IntervalValue)  # noqa: S101  `constants.interval` makes no other
    micros = value.days * _DAY + value.microseconds
    unit = _DAY if type_.kind is Kind.DATE else 1
    if value.months or micros < 0 or micros % unit:
        raise statement.unsupported(
            "the distance of a frame is some whole days of a DATE, or days and shorter times of a "
            "TIMESTAMP: months have no fixed length.",
            node,
            hint=f"INTERVAL {30 * abs(value.months) or 30} DAYS",
            tries=_in_days(statement.text, value.months) if value.months > 0 else (),
        )
    return str(micros // unit)


def _in_days(text: str, months: int) -> list[str]:
    """Return a statement with months of 30 days in its frames."""
    written = rf"INTERVAL\s*'?\s*{months}\s*'?\s*MONTHS?\b'?"
    return [re.sub(written, f"INTERVAL {30 * months} DAYS", text, flags=re.IGNORECASE)]


def measured(statement: Statement, value: Expression, node: exp.Expr) -> Expression:
    """Return what is ordered by as a number that has room for the distance."""
    type_ = value.type
    match type_.kind:
        case Kind.DATE:
            first = Literal(date(1970, 1, 1), sqltype.DATE)
            value = functions.call("date_diff", (Literal("day", sqltype.VARCHAR), first, value))
            return Cast(value, sqltype.HUGEINT)
        case Kind.TIMESTAMP:
            return Cast(functions.call("epoch_us", (value,)), sqltype.HUGEINT)
        case Kind.DECIMAL if type_.precision <= 18:
            return Cast(value, SqlType(Kind.DECIMAL, 38, type_.scale))
        case _ if type_.is_integer and type_.kind is not Kind.HUGEINT:
            return Cast(value, sqltype.HUGEINT)
        case _ if type_.is_float:
            return Cast(value, sqltype.DOUBLE)
        case _:
            raise statement.unsupported(
                f"a RANGE with a distance isn't answered over a {type_}.",
                node,
                hint="ORDER BY CAST(… AS BIGINT), ROWS or GROUPS",
            )
