"""Aggregates that choose a value: quantiles, MIN and MAX, MODE and TOP_K, in all their spellings."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.errors import ParameterError
from dp_sql.parser.aggregates import Call
from dp_sql.parser.dialect import BOUNDS, PROPOSED
from dp_sql.parser.options import number_text
from dp_sql.parser.scope import Statement
from dp_sql.plan.histogram import Choice, Extreme, Popular, Quantile, Rank
from dp_sql.plan.release import AggregateKind
from dp_sql.privacy.amount import exact
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

_KINDS = {
    "MEDIAN": AggregateKind.QUANTILE_CONT,
    "QUANTILE_CONT": AggregateKind.QUANTILE_CONT,
    "PERCENTILE_CONT": AggregateKind.QUANTILE_CONT,
    "QUANTILE_DISC": AggregateKind.QUANTILE_DISC,
    "PERCENTILE_DISC": AggregateKind.QUANTILE_DISC,
    "QUANTILE": AggregateKind.QUANTILE_DISC,
    "APPROX_QUANTILE": AggregateKind.QUANTILE_DISC,
    "APPROX_QUANTILES": AggregateKind.QUANTILE_DISC,
    "MODE": AggregateKind.MODE,
    "TOP_K": AggregateKind.TOP_K,
    "APPROX_TOP_K": AggregateKind.TOP_K,
    "MIN": AggregateKind.MIN,
    "MAX": AggregateKind.MAX,
}
_READ = ("this", "expressions", "expression", "quantile", "count", BOUNDS)
_MOST_PARTS = 1000  # of APPROX_QUANTILES, and denominators of a quantile's place
_EXAMPLE = "QUANTILE_CONT(x, 0.9), or a list of places: QUANTILE_CONT(x, [0.25, 0.5, 0.75])"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call asks of its argument: one choice, or a list of them."""

    kind: AggregateKind
    argument: exp.Expr
    choices: tuple[Choice, ...]
    listed: bool


def asked(statement: Statement, call: Call) -> Asked | None:
    """Return what an aggregate that chooses a value asks, None for other aggregates.

    Raises QueryError for forms that aren't answered and places outside 0 to 1.
    """
    kind = _KINDS.get(call.name)
    if kind is None:
        return None
    found = _asked(statement, call, kind)
    nodes = [node for node in call.bounds if node.this.name.lower() == PROPOSED]
    if not nodes or not any(isinstance(choice, Quantile) for choice in found.choices):
        return found  # elsewhere it is refused with the contribution bounds
    if len(nodes) > 1:
        raise statement.wrong(f"{PROPOSED} stands here twice.", nodes[1])
    return replace(found, choices=_proposed(statement, found.choices, nodes[0]))


def _proposed(
    statement: Statement, choices: tuple[Choice, ...], node: exp.Expr
) -> tuple[Choice, ...]:
    """Return the choices with what the text proposes: how far one row may move each."""
    hint = f"MEDIAN(x, {PROPOSED} => 2)"
    text = number_text(node.expression)
    if text is None:
        raise statement.unsupported(f"{PROPOSED} is a constant above 0.", node, hint=hint)
    try:
        amount = exact(text, name=PROPOSED)
    except ParameterError as error:
        raise statement.out_of_range(error.message, node, hint=hint) from None
    if amount <= 0:
        raise statement.out_of_range(f"{PROPOSED} is a constant above 0.", node, hint=hint)
    if any(not isinstance(choice, Quantile) for choice in choices):
        raise statement.unsupported(
            f"{PROPOSED} is said of places between 0 and 1: one row moves the ends anywhere.",
            node,
            hint=hint,
        )
    return tuple(replace(c, proposed=amount) for c in choices if isinstance(c, Quantile))


def _asked(statement: Statement, call: Call, kind: AggregateKind) -> Asked:
    node = call.node.this if isinstance(call.node, exp.Filter) else call.node
    inner = node.this if isinstance(node, exp.WithinGroup) else node
    if any(v not in (None, False, []) for k, v in inner.args.items() if k not in _READ):
        raise _form(statement, call, _EXAMPLE)
    if isinstance(node, exp.WithinGroup):
        if kind is AggregateKind.MODE:
            raise _form(statement, call, "MODE(x)")
        return _within_group(statement, call, kind, node)
    parts = [p for p in _arguments(node) if p is not None]
    if kind in (AggregateKind.MIN, AggregateKind.MAX):
        if len(parts) == 1 and isinstance(parts[0], exp.Distinct):
            parts = parts[0].expressions
        if len(parts) != 1:
            raise _form(statement, call, f"{call.name}(x)")
        return Asked(kind, parts[0], (Extreme(kind is AggregateKind.MAX),), listed=False)
    if call.distinct:
        raise _form(statement, call, f"{call.name}(x)" if kind is AggregateKind.MODE else _EXAMPLE)
    if kind is AggregateKind.MODE:
        if len(parts) != 1:
            raise _form(statement, call, "MODE(x)")
        return Asked(kind, parts[0], (Popular(0, 1),), listed=False)
    if kind is AggregateKind.TOP_K:
        if len(parts) != 2:
            raise _form(statement, call, "TOP_K(x, 3)")
        many = _whole(statement, parts[1], f"the number of values of {call.name}", "TOP_K(x, 3)")
        return Asked(kind, parts[0], tuple(Popular(i, many) for i in range(many)), listed=True)
    if call.name == "MEDIAN":
        if len(parts) != 1:
            raise _form(statement, call, "MEDIAN(x)")
        return Asked(kind, parts[0], (_rank(kind, Fraction(1, 2)),), listed=False)
    if len(parts) != 2:
        raise _form(statement, call, _EXAMPLE)
    argument, place = parts
    if call.name == "APPROX_QUANTILES":
        return Asked(kind, argument, _even(statement, call, place), listed=True)
    descending = False
    if isinstance(place, exp.Order):  # QUANTILE_CONT(x, 0.5 ORDER BY x)
        items = place.expressions
        if len(items) != 1 or items[0].this != argument:
            raise _form(statement, call, _EXAMPLE)
        place, descending = place.this, bool(items[0].args.get("desc"))
    ranks, listed = _places(statement, call, kind, place, descending=descending)
    return Asked(kind, argument, ranks, listed)


def result_type(kind: AggregateKind, argument: SqlType) -> SqlType | None:
    """Return the type of the chosen value, None where the argument can't be ranked."""
    if kind in (AggregateKind.MODE, AggregateKind.TOP_K):
        return argument
    if argument.kind in (Kind.DATE, Kind.TIMESTAMP):
        return sqltype.TIMESTAMP if kind is AggregateKind.QUANTILE_CONT else argument
    if not argument.is_numeric:
        return None
    whole = argument.is_integer and kind is not AggregateKind.QUANTILE_CONT
    return sqltype.BIGINT if whole else sqltype.DOUBLE


def _arguments(node: exp.Expr) -> list[exp.Expr | None]:
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return list(node.expressions)
    second = node.args.get("quantile") or node.args.get("expression") or node.args.get("count")
    return [node.args.get("this"), second]


def _within_group(
    statement: Statement, call: Call, kind: AggregateKind, node: exp.WithinGroup
) -> Asked:
    order = node.expression
    items = order.expressions if isinstance(order, exp.Order) else []
    places = [p for p in _arguments(node.this) if p is not None]
    if len(items) != 1 or len(places) != 1:
        raise _form(statement, call, "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)")
    descending = bool(items[0].args.get("desc"))
    ranks, listed = _places(statement, call, kind, places[0], descending=descending)
    return Asked(kind, items[0].this, ranks, listed)


def _places(
    statement: Statement, call: Call, kind: AggregateKind, node: exp.Expr, *, descending: bool
) -> tuple[tuple[Rank, ...], bool]:
    listed = isinstance(node, exp.Array)
    nodes = node.expressions if listed else [node]
    if not nodes:
        raise _form(statement, call, _EXAMPLE)
    fractions = [_fraction(statement, call, item) for item in nodes]
    return tuple(_rank(kind, f, descending=descending) for f in fractions), listed


def _even(statement: Statement, call: Call, node: exp.Expr) -> tuple[Rank, ...]:
    """Return the ranks that cut the values into so many parts of equal size, with both ends."""
    parts = _whole(statement, node, f"the number of parts of {call.name}", "APPROX_QUANTILES(x, 4)")
    return tuple(_rank(AggregateKind.QUANTILE_DISC, Fraction(i, parts)) for i in range(parts + 1))


def _whole(statement: Statement, node: exp.Expr, what: str, hint: str) -> int:
    text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    if not text.isdigit() or not 1 <= int(text) <= _MOST_PARTS:
        raise statement.out_of_range(
            f"{what} is a constant from 1 to {_MOST_PARTS}.", node, hint=hint
        )
    return int(text)


def _fraction(statement: Statement, call: Call, node: exp.Expr) -> Fraction:
    if not isinstance(node, exp.Literal) or node.is_string:
        raise statement.unsupported(
            f"the place of {call.name} is a constant from 0 to 1.", node, hint=_EXAMPLE
        )
    found = Fraction(node.name)
    if not 0 <= found <= 1:
        raise statement.wrong(f"{node.name} isn't between 0 and 1.", node, hint=_EXAMPLE)
    if found.denominator > _MOST_PARTS:
        raise statement.out_of_range(
            f"the place of {call.name} has at most three digits after the point.",
            node,
            hint=_EXAMPLE,
        )
    return found


def _rank(kind: AggregateKind, place: Fraction, *, descending: bool = False) -> Rank:
    """Return the rank of a place; the first and the last are those of MIN and MAX."""
    if place in (0, 1):
        return Extreme(largest=(place == 1) is not descending)
    if kind is AggregateKind.QUANTILE_CONT:
        return Quantile(1 - place if descending else place, continuous=True)
    return Quantile(1 - place if descending else place, continuous=False, from_top=descending)


def _form(statement: Statement, call: Call, hint: str) -> Exception:
    return statement.unsupported(f"this form of {call.name} isn't answered.", call.node, hint=hint)
