"""SAMPLE_AND_AGGREGATE: what a call of the text asks, or why it isn't answered."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from dp_sql.errors import ParameterError
from dp_sql.parser import aggregates
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.options import number_text
from dp_sql.parser.scope import Statement
from dp_sql.plan import functions
from dp_sql.plan.block import Sample
from dp_sql.plan.expression import Expression, Literal, Ref
from dp_sql.plan.nulls import null_on
from dp_sql.plan.row_aggregates import typed
from dp_sql.plan.rows import RowAggregateKind
from dp_sql.privacy.amount import exact
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind

NAME = "SAMPLE_AND_AGGREGATE"
_EXAMPLE = f"{NAME}('median', x, 0, 100, 50)"
AGGREGATES = {
    kind.value.lower(): kind
    for kind in (
        RowAggregateKind.AVG,
        RowAggregateKind.BOOL_AND,
        RowAggregateKind.BOOL_OR,
        RowAggregateKind.COUNT,
        RowAggregateKind.KURTOSIS,
        RowAggregateKind.KURTOSIS_POP,
        RowAggregateKind.MAD,
        RowAggregateKind.MAX,
        RowAggregateKind.MEDIAN,
        RowAggregateKind.MIN,
        RowAggregateKind.MODE,
        RowAggregateKind.SKEWNESS,
        RowAggregateKind.STDDEV_POP,
        RowAggregateKind.STDDEV_SAMP,
        RowAggregateKind.SUM,
        RowAggregateKind.VAR_POP,
        RowAggregateKind.VAR_SAMP,
    )
}
"""Those that give the same bits in whatever order rows come, by their names."""
_OTHER_NAMES = {"mean": "avg", "stddev": "stddev_samp", "variance": "var_samp"}
_MOST_BLOCKS = 1_000_000
_LARGEST = 10**15  # of a bound: its steps fit a DOUBLE
_SMALLEST = 1 / exact("1000000000000", name="the range")  # between the bounds


def read(
    statement: Statement,
    call: aggregates.Call,
    binder: Expressions,
    owners: Collection[int],
    padded: Collection[int],
) -> tuple[Expression, Sample]:
    """Return the argument, NULL where the call's FILTER isn't true, and what is asked of the blocks.

    owners, padded: the numbers of the owners' columns, and of those that an outer join pads.
    Raises QueryError for a call that isn't answered.
    """
    inner = call.node.this if isinstance(call.node, exp.Filter) else call.node
    parts = inner.expressions
    if len(parts) != 5 or any(isinstance(p, exp.Distinct | exp.Order) for p in parts):
        raise statement.unsupported(
            f"{NAME} takes an aggregate's name, its argument, the ends of its result and the number "
            "of blocks.",
            call.node,
            hint=_EXAMPLE,
        )
    if call.bounds:
        raise statement.unsupported(
            f"{NAME} needs no contribution bounds: all rows of a unit lie in one block.",
            call.bounds[0],
            hint="leave it out",
        )
    sample = _sample(statement, parts)
    if aggregates.has_aggregate(parts[1]):
        raise statement.wrong("an aggregate can't stand in an aggregate.", call.node)
    argument = binder.bind(parts[1])
    if isinstance(argument, Ref) and argument.column.number in owners:
        raise statement.not_private(
            "the owner's column can be counted, not computed with.", parts[1]
        )
    if padded and not null_on(argument, padded):
        raise statement.not_private(
            f"this {NAME} would read rows of the public table that match nobody.",
            call.node,
            hint="an inner join",
        )
    if call.condition is not None:
        condition = binder.bind_condition(call.condition)
        argument = functions.case(((condition, argument),), Literal(None, sqltype.NULL))
    try:
        _, result = typed(sample.kind, argument)
    except functions.TypeProblem as problem:
        raise statement.wrong(f"{problem}.", parts[1]) from None
    if not result.is_numeric and result.kind is not Kind.BOOLEAN:
        raise statement.wrong(
            f"{NAME} takes a mean of the blocks' results, and {sample.kind.value.lower()} of "
            f"{argument.type} gives {result}.",
            parts[1],
            hint="an aggregate that gives numbers",
        )
    return argument, sample


def _sample(statement: Statement, parts: list[exp.Expr]) -> Sample:
    """Return the constants of a call."""
    named, _, *ends, blocks = parts
    text = named.name.lower() if isinstance(named, exp.Literal) and named.is_string else ""
    kind = AGGREGATES.get(_OTHER_NAMES.get(text, text))
    if kind is None:
        raise statement.unsupported(
            f"{NAME} is answered for aggregates that give the same in whatever order rows come, by a "
            "name in single quotes.",
            named,
            hint=f"one of {', '.join(sorted([*AGGREGATES, *_OTHER_NAMES]))}",
        )
    try:
        low, high = (exact(number_text(e) or e.sql(), name="an end of the result") for e in ends)
    except ParameterError as error:
        raise statement.out_of_range(error.message, ends[0], hint=_EXAMPLE) from None
    if not low < high or max(abs(low), abs(high)) > _LARGEST or high - low < _SMALLEST:
        raise statement.out_of_range(
            "the ends of the result are constants within 1e15 of 0, the first below the second by "
            "1e-12 or more.",
            ends[0],
            hint=_EXAMPLE,
        )
    count = blocks.name if isinstance(blocks, exp.Literal) and not blocks.is_string else ""
    if not count.isdigit() or not 1 <= int(count) <= _MOST_BLOCKS:
        raise statement.out_of_range(
            f"the number of blocks is a constant from 1 to {_MOST_BLOCKS}.", blocks, hint=_EXAMPLE
        )
    return Sample(kind, low, high, int(count))
