"""How far a neighbour moves the value of an expression, where its rows stay and some columns change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.plan.expression import Call, Case, Cast, Expression, Literal, Ref
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType

_PRECISION = {Kind.DOUBLE: 50, Kind.FLOAT: 21}  # bits; each has three more
_LARGEST = {Kind.DOUBLE: Fraction(10**300), Kind.FLOAT: Fraction(10**37)}
_TINY = Fraction(1, 2**140)  # more than the distance of the smallest floats
_TO_WHOLE = ("floor", "ceil", "ceiling", "round", "trunc")
_CHOICES = ("coalesce", "ifnull", "least", "greatest")


@dataclass(frozen=True, slots=True)
class Drift:
    """A value that moves by at most slope * d + slack when latitudes move by d degrees.

    It is NULL on both data sets or on neither. most: its largest magnitude on rows whose place can
    move, None unknown.
    """

    slope: Fraction = Fraction(0)
    slack: Fraction = Fraction(0)
    most: Fraction | None = None

    @property
    def still(self) -> bool:
        """Whether the value is the same on all neighbours, bit for bit."""
        return self.slope == 0 == self.slack


STILL = Drift()
LATITUDE = Drift(Fraction(1), Fraction(0), Fraction(90))

Drifts = Mapping[int, Drift | None]
"""By number, the columns that a neighbour may change; None: in any way. All other columns stay."""


def drift_of(expression: Expression, columns: Drifts) -> Drift | None:
    """Return how far a neighbour moves the value of an expression; None: in any way.

    Claim:   |e(D) - e(D')| <= slope * d + slack, as DuckDB computes e, and e is NULL in both or in
             neither, where latitudes move by at most d.
    Why:     an expression that reads no changed column is the same. Else by the triangle inequality,
             node by node, from the functions listed here alone; a rounding to a float moves each of
             the two values by no more than a unit in the last place of its magnitude, and where
             an exact type or a float could overflow to NULL or infinity the answer is None.
    Assumes: expressions are deterministic; a place that moves is no NULL, its latitude is within 90
             degrees before and after. Declared bounds are not used: nothing enforces them here.
    Source:  [Chatzikokolakis2013]
    """
    match expression:
        case Literal(value=None):
            return Drift(most=Fraction(0))
        case Literal():
            return Drift(most=_magnitude(expression))
        case Ref(column=column):
            return columns.get(column.number, STILL)
        case Case(branches=branches, otherwise=otherwise):
            if not all(still(condition, columns) for condition, _ in branches):
                return None
            values = [*(value for _, value in branches), otherwise]
            return _largest([drift_of(value, columns) for value in values])
        case Cast(operand=operand, type=type_):
            inner = drift_of(operand, columns)
            if inner is not None and (inner.still or operand.type.is_numeric):
                return _cast(inner, operand.type, type_)
            return None
        case Call():
            return _call(expression, columns)
        case _:
            assert_never(expression)


def still(expression: Expression, columns: Drifts) -> bool:
    """Return whether no neighbour changes the value of an expression."""
    found = drift_of(expression, columns)
    return found is not None and found.still


def _call(call: Call, columns: Drifts) -> Drift | None:
    name, args, type_ = call.function, call.args, call.type
    found = [drift_of(arg, columns) for arg in args]
    known = [drift for drift in found if drift is not None]
    if len(known) == len(found) and all(drift.still for drift in known):
        return Drift(most=_still_most(name, known))
    if name == "if":
        return _largest(found[1:]) if found[0] is not None and found[0].still else None
    if len(known) < len(found) or not type_.is_numeric:
        return None
    if not all(arg.type.is_numeric for arg in args):
        return None
    match name, known:
        case (("+" | "-"), [first, second]):
            moved = Drift(
                first.slope + second.slope,
                first.slack + second.slack,
                None if first.most is None or second.most is None else first.most + second.most,
            )
            return _computed(moved, type_)
        case "*", [first, second]:
            factor, moving = (first, second) if first.still else (second, first)
            if not factor.still or factor.most is None:
                return None
            return _computed(_times(moving, factor.most), type_)
        case "/", [first, _]:
            divisor = _constant(args[1])
            if not divisor:
                return None
            return _computed(_times(first, (1 + Fraction(1, 2**50)) / abs(divisor)), type_)
        case (("negate" | "abs"), [only]):
            return _computed(only, type_)
        case "clamp", [value, low, high]:
            ends = [end.most for end in (low, high) if end.most is not None]
            return replace(value, most=max(ends) if len(ends) == 2 else None)
        case _ if name in _CHOICES:
            return _largest(known)
        case _, [only] if name in _TO_WHOLE:
            most = None if only.most is None else only.most + 1
            return _computed(Drift(only.slope, only.slack + 1, most), type_)
        case _:
            return None


def _still_most(name: str, args: Sequence[Drift]) -> Fraction | None:
    """Return the magnitude of a value that stays; known for what lies between constants alone."""
    if name == "clamp":
        ends = [end.most for end in args[1:] if end.most is not None]
        return max(ends) if len(ends) == 2 else None
    if name == "negate":
        return args[0].most
    return None


def _largest(values: Sequence[Drift | None]) -> Drift | None:
    """Return the drift of a value that is one of several, chosen alike, or an extreme of them."""
    known = [drift for drift in values if drift is not None]
    if len(known) < len(values):
        return None
    sizes = [drift.most for drift in known if drift.most is not None]
    return Drift(
        max(drift.slope for drift in known),
        max(drift.slack for drift in known),
        max(sizes) if len(sizes) == len(known) else None,
    )


def _times(drift: Drift, factor: Fraction) -> Drift:
    most = None if drift.most is None else drift.most * factor
    return Drift(drift.slope * factor, drift.slack * factor, most)


def _computed(drift: Drift, type_: SqlType) -> Drift | None:
    """Return the drift of a result in a type: rounded if it is a float; None where it may overflow."""
    most = drift.most
    if most is None:
        return None
    match type_.kind:
        case Kind.DOUBLE | Kind.FLOAT:
            error = _float_error(most, type_.kind)
            if error is None:
                return None
            return Drift(drift.slope, drift.slack + error, most + error)
        case Kind.DECIMAL:
            return drift if 2 * most <= 10 ** (type_.precision - type_.scale) else None
        case kind if kind in INTEGER_BITS:
            low, high = INTEGER_BITS[kind]
            return drift if 2 * most <= min(-low, high) else None
        case _:
            return None


def _float_error(most: Fraction, kind: Kind) -> Fraction | None:
    """Return what rounding to a float adds at most to a difference; None where it may be infinite."""
    return most / 2 ** _PRECISION[kind] + _TINY if most <= _LARGEST[kind] else None


def _cast(drift: Drift, source: SqlType, target: SqlType) -> Drift | None:
    """Return the drift of a cast of a number, or of any value that stays."""
    if source == target:
        return drift
    most = drift.most
    if not (source.is_numeric and target.is_numeric):
        return STILL if drift.still else None
    cut = Fraction(0)  # how far apart it moves two values
    if target.kind is Kind.DECIMAL and (source.is_float or source.scale > target.scale):
        cut = Fraction(1, 10**target.scale)
    elif target.is_integer and not source.is_integer:
        cut = Fraction(1)
    most = None if most is None else most + cut
    if not drift.still:
        return _computed(Drift(drift.slope, drift.slack + cut, most), target)
    if most is not None and target.is_float:
        error = _float_error(most, target.kind)
        most = None if error is None else most + error
    return Drift(most=most)


def _magnitude(literal: Literal) -> Fraction | None:
    value = literal.value
    if isinstance(value, int | float | Decimal):
        return abs(Fraction(value))
    return None


def _constant(expression: Expression) -> Fraction | None:
    """Return the value of a constant number, as DuckDB computes with it."""
    match expression:
        case Literal(value=int() | float() | Decimal() as value):
            return Fraction(value)
        case Cast(operand=Literal(value=int() | float() | Decimal() as value), type=type_):
            return Fraction(float(value)) if type_.kind is Kind.DOUBLE else None
        case _:
            return None
