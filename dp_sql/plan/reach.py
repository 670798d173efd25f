"""What an expression's lowered text can give on any row at all: facts of its types and constants.

Unlike a domain, nothing declared about the data goes in, so texts may rest on it.
"""

from __future__ import annotations

from dp_sql.plan.conversion import is_null
from dp_sql.plan.expression import Call, Case, Cast, Expression, Literal, Ref
from dp_sql.schema.sqltype import INTEGER_BITS, Kind

Range = tuple[int, int]

# of functions whose type is wider than their values; DuckDB's years lie within six million
_CALLS: dict[str, Range] = {
    "sign": (-1, 1),
    **dict.fromkeys(
        ("length", "length_grapheme", "strlen", "strpos", "json_array_length"), (0, 2**32)
    ),
    **dict.fromkeys(("split_count", "match_count"), (0, 10_001)),
    "bit_length": (0, 2**36),
    **dict.fromkeys(("levenshtein", "damerau_levenshtein", "hamming"), (0, 1000)),
    "bit_count": (0, 128),
    **dict.fromkeys(("ascii", "unicode"), (-1, 0x10FFFF)),
    "list_position": (0, 10_000),
    **dict.fromkeys(
        ("year", "isoyear", "decade", "century", "millennium"), (-6_000_000, 6_000_000)
    ),
    **dict.fromkeys(("month", "day", "quarter", "week", "dayofweek", "isodow", "era"), (0, 60)),
    "days_in_month": (28, 31),
    **dict.fromkeys(("dayofmonth", "weekday", "weekofyear", "dayofyear"), (0, 400)),
    **dict.fromkeys(("hour", "minute", "second"), (0, 60)),
    "date_part": (-(2**31), 2**31),  # whole seconds and finer parts come as their own types
}
_SAME = {"coalesce", "ifnull", "least", "greatest", "clamp"}


def reach(expression: Expression) -> Range | None:
    """Return the smallest and largest integer that an expression of integer type can give.

    None for every other type.
    """
    bits = INTEGER_BITS.get(expression.type.kind)
    if bits is None:
        return None
    inner = _inner(expression)
    if inner is None:
        return bits
    low, high = max(inner[0], bits[0]), min(inner[1], bits[1])
    return (low, high) if low <= high else bits


def _inner(expression: Expression) -> Range | None:
    match expression:
        case Literal(value=int(value)):
            return (int(value), int(value))
        case Literal() | Ref():
            return None
        case Cast(operand=operand):
            return reach(operand)
        case Case(branches=branches, otherwise=otherwise):
            return _hull([otherwise, *(value for _, value in branches)])
        case Call(function=name, args=args):
            if any(arg.type.kind is Kind.INTERVAL for arg in args):
                return None  # its parts may be negative, and as large as the type
            if name in _CALLS:
                return _CALLS[name]
            if name in _SAME:
                return _hull(args)
            if name == "if":
                return _hull(args[1:])
            ranges = [reach(arg) for arg in args]
            known = [r for r in ranges if r is not None]
            return combined(name, known) if len(known) == len(args) else None


def _hull(expressions: list[Expression] | tuple[Expression, ...]) -> Range | None:
    ranges = [reach(e) for e in expressions if not is_null(e)]
    known = [r for r in ranges if r is not None]
    if not known or len(known) < len(ranges):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def combined(name: str, ranges: list[Range]) -> Range | None:
    """Return the range of an operator over operands of known ranges; None for other functions."""
    match name, ranges:
        case "negate", [(low, high)]:
            return -high, -low
        case "abs", [(low, high)]:
            return 0, max(abs(low), abs(high))
        case "+", [(a, b), (c, d)]:
            return a + c, b + d
        case "-", [(a, b), (c, d)]:
            return a - d, b - c
        case "*", [(a, b), (c, d)]:
            products = (a * c, a * d, b * c, b * d)
            return min(products), max(products)
        case "//", [(a, b), (c, d)] if not c <= -1 <= d:
            return min(a, 0), max(b, 0)
        case "//" | "%", [(a, b), (c, d)]:
            most = max(abs(a), abs(b)) if name == "//" else max(abs(c), abs(d))
            return -most, most
        case _:
            return None
