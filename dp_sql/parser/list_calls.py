"""What functions of lists take of a list of one person's values, as aggregates of these values."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.dataclass import dataclass

LENGTHS = (exp.Length, exp.ArraySize)
_WHOLE = ("list_aggregate", "list_aggr", "array_aggregate", "array_aggr")
_SOUGHT = {f"{kind}_has_{name}": name for kind in ("list", "array") for name in ("any", "all")}
_ORDERED = ("first", "last")
_NAMES = frozenset(
    "sum avg min max count median mode mad stddev_pop stddev_samp var_pop var_samp skewness kurtosis "
    "kurtosis_pop bool_and bool_or".split()
)
"""The aggregates that list_sum(t), or list_aggregate(t, 'sum'), are; no order changes their value."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A list, what is taken of it, and the values that it is searched for."""

    name: str
    listed: exp.Expr
    values: tuple[exp.Expr, ...] = ()


def takes(node: exp.Expr | None, listed: exp.Expr) -> exp.Expr | None:
    """Return what takes a value of a list, `node` or the call around it; None where nothing does."""
    if isinstance(node, exp.ArrayDistinct):
        node = node.parent
    use = None if node is None else _use(node)
    return node if use is not None and use.listed is listed else None


def aggregate_of(node: exp.Expr) -> exp.Expr | None:
    """Return the aggregates that `list_sum(LIST(x))` and its like mean; None for other nodes.

    A list that holds no row at all is NULL, and so is what is taken of it.
    """
    use = _use(node)
    made = None if use is None else use.listed.unnest()
    call = made.this if isinstance(made, exp.Filter) else made
    if use is None or made is None or not isinstance(call, exp.ArrayAgg):
        return None
    inner = call.this
    apart = isinstance(inner, exp.Distinct)
    value = inner.expressions[0] if apart else inner
    if isinstance(value, exp.Order) and use.name not in _ORDERED:
        value = value.this

    def over(name: str, argument: exp.Expr, *, distinct: bool = False) -> exp.Expr:
        part = exp.Distinct(expressions=[argument.copy()]) if distinct else argument.copy()
        found: exp.Expr = exp.func(name, part, dialect="duckdb")
        found.meta.update(call.meta)
        if isinstance(made, exp.Filter):
            found = exp.Filter(this=found, expression=made.expression.copy())
        return found

    if use.name in _NAMES - {"count"} or use.name in _ORDERED:
        return over(use.name, value, distinct=apart)
    if not use.values:
        result = over("count", value, distinct=apart or use.name == "unique")
    else:
        tests = [exp.EQ(this=exp.paren(value.copy()), expression=v.copy()) for v in use.values]
        found = [exp.func("coalesce", over("bool_or", test), exp.false()) for test in tests]
        result = exp.or_(*found) if use.name == "any" else exp.and_(*found)
    some = over("count", exp.Star()) > exp.Literal.number(0)
    return exp.Case(ifs=[exp.If(this=some, true=result)])


def _use(node: exp.Expr) -> _Use | None:
    match node:
        case exp.ArrayMax() | exp.ArrayMin():
            return _Use("max" if isinstance(node, exp.ArrayMax) else "min", node.this)
        case exp.Length() | exp.ArraySize() if isinstance(node.this, exp.ArrayDistinct):
            return _Use("unique", node.this.this)
        case exp.ArrayContains() if _constant(node.expression):
            return _Use("any", node.this, (exp.paren(node.expression),))
        case exp.In() if node.args.get("field") and _constant(node.this):
            return _Use("any", node.args["field"], (exp.paren(node.this),))
        case exp.ArrayOverlaps() | exp.ArrayContainsAll():
            name = "any" if isinstance(node, exp.ArrayOverlaps) else "all"
            return _sought(name, node.this, node.expression)
        case exp.Anonymous() if node.expressions:
            first, *rest = node.expressions
            called = node.name.lower()
            name = called.removeprefix("list_")
            if called in _SOUGHT and len(rest) == 1:
                return _sought(_SOUGHT[called], first, rest[0])
            if called in _WHOLE and len(rest) == 1 and isinstance(rest[0], exp.Literal):
                name, rest = rest[0].name.lower(), []
            elif called == name:
                return None
            known = name in _NAMES or name in _ORDERED or name == "unique"
            return _Use(name, first) if known and not rest else None
        case _:
            return None


def _sought(name: str, listed: exp.Expr, many: exp.Expr) -> _Use | None:
    many = many.unnest()
    constant = isinstance(many, exp.Array) and many.expressions and _constant(many)
    return _Use(name, listed, tuple(many.expressions)) if constant else None


def _constant(node: exp.Expr) -> bool:
    return node.find(exp.Column, exp.Query, exp.Null) is None
