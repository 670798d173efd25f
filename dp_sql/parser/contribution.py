"""The contribution bounds that an aggregate of the text names: GoogleSQL's named arguments."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.errors import ParameterError, QueryError
from dp_sql.parser.aggregates import Call
from dp_sql.parser.dialect import BOUND_NAMES, PROPOSED
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.options import number_text
from dp_sql.parser.scope import Statement
from dp_sql.plan import functions
from dp_sql.plan.expression import Expression
from dp_sql.plan.release import AggregateKind
from dp_sql.privacy.amount import exact
from dp_sql.privacy.unit import Level

_PER_GROUP, _PER_ROW = BOUND_NAMES
_COUNTS = (AggregateKind.COUNT_STAR, AggregateKind.COUNT)
_BY_UNIT = (*_COUNTS, AggregateKind.SUM, AggregateKind.AVG)
_HINT = "(0, 100)"


@dataclass(frozen=True, slots=True)
class _Ends:
    """Two numbers of the text, low below high; their nodes, and the node of the whole argument."""

    low: Fraction
    high: Fraction
    nodes: tuple[exp.Expr, ...]
    node: exp.Expr


def bounded(
    statement: Statement,
    call: Call,
    kind: AggregateKind,
    argument: Expression | None,
    binder: Expressions,
) -> tuple[Expression | None, tuple[Fraction, Fraction] | None]:
    """Return the argument with its rows bounded, and what one unit's rows of a group may give.

    `contribution_bounds_per_row` is CLAMP of the argument. `contribution_bounds_per_group` bounds a
    unit's count, sum or average in a group; at event level, where a unit is one row, its value.
    Raises QueryError for bounds that are written wrong or don't fit the aggregate.
    """
    quantile = kind in (AggregateKind.QUANTILE_CONT, AggregateKind.QUANTILE_DISC)
    bounds = []
    for node in call.bounds:
        if node.this.name.lower() != PROPOSED:
            bounds.append(node)
        elif not quantile:
            raise statement.unsupported(
                f"{PROPOSED} is said of MEDIAN and quantiles.",
                node,
                hint=f"MEDIAN(x, {PROPOSED} => 2)",
            )
    found = _read(statement, bounds)
    rows, group = found.get(_PER_ROW), found.get(_PER_GROUP)
    if rows is not None:
        if argument is None or kind in (*_COUNTS, AggregateKind.COUNT_OWNERS):
            raise statement.unsupported(
                "a count has no values to bound row by row.",
                rows.node,
                hint=f"{_PER_GROUP} => (0, 5)",
            )
        argument = _clamp(statement, argument, rows, binder)
    if group is None:
        return argument, None
    if kind not in _BY_UNIT:
        raise statement.unsupported(
            f"{call.name} bounds its values row by row.", group.node, hint=f"{_PER_ROW} => {_HINT}"
        )
    if kind in _COUNTS:
        if group.low.denominator != 1 or group.high.denominator != 1 or group.high < 1:
            raise statement.out_of_range(
                "a count is bounded by whole numbers, the upper at least 1.",
                group.node,
                hint=f"{_PER_GROUP} => (0, 5)",
            )
        if statement.catalog.unit.level is Level.USER:
            return argument, (group.low, group.high)
        if group.low > 1:
            raise statement.out_of_range(
                "this schema protects single rows, and one row counts once.",
                group.node,
                hint=f"{_PER_GROUP} => (0, 1)",
            )
        return argument, None
    if statement.catalog.unit.level is Level.EVENT and argument is not None:
        return _clamp(statement, argument, group, binder), None
    return argument, (group.low, group.high)


def _clamp(
    statement: Statement, argument: Expression, ends: _Ends, binder: Expressions
) -> Expression:
    try:
        return functions.call("clamp", (argument, *(binder.bind(node) for node in ends.nodes)))
    except functions.TypeProblem as problem:
        raise statement.wrong(f"{problem}", ends.node) from None


def _read(statement: Statement, nodes: list[exp.Expr]) -> dict[str, _Ends]:
    found: dict[str, _Ends] = {}
    for node in nodes:
        name = node.this.name.lower()
        if name in found:
            raise statement.wrong(f"{name} stands here twice.", node)
        found[name] = _ends(statement, name, node)
    return found


def _ends(statement: Statement, name: str, node: exp.Expr) -> _Ends:
    def refused(message: str) -> QueryError:
        return statement.out_of_range(message, node, hint=f"{name} => {_HINT}")

    ends = node.expression.expressions if isinstance(node.expression, exp.Tuple) else []
    texts = [text for end in ends if (text := number_text(end)) is not None]
    if len(ends) != 2 or len(texts) != 2:
        raise refused(f"{name} takes two numbers.")
    try:
        low, high = (exact(text, name=name) for text in texts)
    except ParameterError as error:
        raise refused(error.message) from None
    if low >= high:
        raise refused(f"the lower end of {name} is below the upper.")
    return _Ends(low, high, tuple(ends), node)
