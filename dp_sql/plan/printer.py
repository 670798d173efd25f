"""Plans as text, for EXPLAIN and golden tests: one node a line, inputs indented below."""

from __future__ import annotations

from typing import assert_never

from dp_sql.plan.block import BlockMeasure
from dp_sql.plan.expression import Call, Case, Cast, Expression, IntervalValue, Literal, Ref
from dp_sql.plan.pair import Axis, PairMeasure
from dp_sql.plan.relation import (
    BoundGroups,
    BoundRows,
    CountMeasure,
    DropKeys,
    KeepKeys,
    Measure,
    MeasureRows,
    MomentMeasure,
    PresenceMeasure,
    Relation,
    SpreadRows,
    SumMeasure,
    SumPerUnit,
    arguments,
    inputs,
)
from dp_sql.plan.rows import (
    Filter,
    GroupRows,
    Join,
    Mark,
    Project,
    RowAggregate,
    Scan,
    SetRows,
    StageScan,
    WindowFunction,
    WindowRows,
)
from dp_sql.plan.vector import NormMeasure

_INFIX = {
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "and",
    "or",
    "||",
    "&",
    "|",
    "<<",
    ">>",
}
_SHOWN_VALUES = 6


def expression_text(node: Expression) -> str:
    """Return an expression as text, with the names of its columns."""
    match node:
        case Literal(value=value):
            return _value_text(value)
        case Ref(column=column):
            return column.name
        case Call(function=function, args=args):
            parts = [expression_text(a) for a in args]
            if function in _INFIX and len(parts) == 2:
                return f"({parts[0]} {function.upper()} {parts[1]})"
            return f"{function}({', '.join(parts)})"
        case Case(branches=branches, otherwise=otherwise):
            whens = " ".join(
                f"WHEN {expression_text(c)} THEN {expression_text(v)}" for c, v in branches
            )
            return f"CASE {whens} ELSE {expression_text(otherwise)} END"
        case Cast(operand=operand, type=kind):
            return f"CAST({expression_text(operand)} AS {kind})"
        case _:
            assert_never(node)


def _value_text(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, IntervalValue):
        return f"INTERVAL '{value.months} months {value.days} days {value.microseconds} us'"
    return repr(value) if isinstance(value, str) else str(value)


def relation_text(relation: Relation, indent: int = 0) -> str:
    """Return a relation and what is below it, a line a node."""
    lines = [" " * indent + _node_text(relation)]
    lines += [relation_text(source, indent + 2) for source in inputs(relation)]
    return "\n".join(lines)


def _node_text(node: Relation) -> str:
    match node:
        case Scan(table=table):
            return f"Scan {table}, {_whose(node)}"
        case StageScan(name=name):
            return f"Results of the earlier stage {name}"
        case Filter(predicate=predicate):
            return f"Filter {expression_text(predicate)}"
        case Project(columns=columns, expressions=expressions):
            items = (
                c.name if e == Ref(c) else f"{expression_text(e)} AS {c.name}"
                for c, e in zip(columns, expressions, strict=True)
            )
            return f"Project {', '.join(items)}"
        case Join(kind=kind, condition=condition):
            return f"{kind.value.capitalize()} join on {expression_text(condition)}"
        case Mark(condition=condition, operand=operand, value=value):
            compared = (
                "has a row"
                if operand is None or value is None
                else f"{expression_text(operand)} IN {expression_text(value)}"
            )
            return f"Mark {compared} where {expression_text(condition)}"
        case GroupRows(keys=keys, aggregates=aggregates):
            listed = "".join(f"; {_aggregate_text(a)}" for a in aggregates)
            return f"Group one owner's rows by {', '.join(k.name for k in keys)}{listed}"
        case WindowRows(functions=functions):
            return f"Windows over one owner's rows: {'; '.join(_window_text(f) for f in functions)}"
        case SetRows(kind=set_kind):
            return set_kind.value.capitalize()
        case MeasureRows(keys=keys, key_expressions=expressions, measures=measures, sample=sample):
            grouped = ", ".join(
                f"{k.name} = {expression_text(e)}" for k, e in zip(keys, expressions, strict=True)
            )
            listed = "; ".join(measure_text(m) for m in measures)
            some = "" if sample is None else f" of a sample of units at rate {float(sample.rate):g}"
            return (
                (f"Measure {listed}" if listed else "Rows")
                + (f" by {grouped}" if grouped else "")
                + some
            )
        case KeepKeys(columns=columns, values=values):
            shown = ", ".join(
                "/".join(_value_text(v) for v in row) for row in values[:_SHOWN_VALUES]
            )
            more = f", … {len(values)} in all" if len(values) > _SHOWN_VALUES else ""
            return f"Keep public keys {', '.join(c.name for c in columns)} in {{{shown}{more}}}"
        case SumPerUnit(partners=partners):
            early = "" if partners is None else ", each side before the join"
            return f"Sum per unit and group{early}"
        case DropKeys():
            return "Drop the groups that the first round showed"
        case BoundRows(max_rows=max_rows):
            return f"Bound rows: a unit weighs at most {max_rows} rows in a group"
        case SpreadRows(max_rows=max_rows):
            return f"Spread rows: a unit's values weigh at most {max_rows} rows in a group"
        case BoundGroups(max_groups=max_groups):
            return f"Bound groups: at most {max_groups} of a unit, by a keyed hash"
        case _:
            assert_never(node)


def _whose(scan: Scan) -> str:
    if scan.public:
        return "public"
    if scan.link is not None:
        pairs = ", ".join(f"{own.name} = {name}" for own, name in scan.link.pairs)
        return f"owner through {scan.link.table} on {pairs}, rows without one left out"
    return "each row its own" if scan.owner is None else f"owner {scan.owner.name}"


def _aggregate_text(aggregate: RowAggregate) -> str:
    argument = "" if aggregate.argument is None else f" of {expression_text(aggregate.argument)}"
    place = "" if aggregate.fraction is None else f" at {float(aggregate.fraction):g}"
    return f"{aggregate.kind.value}{argument}{place}"


def _window_text(function: WindowFunction) -> str:
    arguments = ", ".join(expression_text(a) for a in function.arguments)
    by = ", ".join(expression_text(e) for e in function.partition)
    order = ", ".join(
        expression_text(o.expression) + (" DESC" if o.descending else "") for o in function.order
    )
    frame = f" {function.frame}" if function.frame else ""
    return (
        f"{function.name}({arguments}) by {by}" + (f" in order of {order}" if order else "") + frame
    )


def measure_text(measure: Measure | BlockMeasure) -> str:
    """Return what a measure makes of a row, or of a block."""
    if isinstance(measure, BlockMeasure):
        return (
            f"{measure.kind.value} of {expression_text(measure.argument)} over each of "
            f"{measure.blocks} random blocks, in [{float(measure.low):g}, {float(measure.high):g}], "
            f"step {float(measure.step):g}"
        )
    argument = ", ".join(expression_text(found) for found in arguments(measure)) or "*"
    match measure:
        case CountMeasure(per_unit=ends):
            return f"count of {argument}" + _per_unit(ends, 1)
        case PresenceMeasure(weight=weight, evenly=evenly) if weight:
            root = "" if evenly else "the root of "
            return f"units, each weighing 1 over {root}the number of its groups"
        case PresenceMeasure():
            return f"units with {argument}"
        case SumMeasure(low=low, high=high, step=step, per_unit=ends):
            text = f"sum of {argument} in [{float(low):g}, {float(high):g}], step {float(step):g}"
            return text + _per_unit(ends, float(step))
        case MomentMeasure(low=low, high=high, cells=cells, degree=degree, null_component=null):
            also = ", NULL apart" if null else ""
            also += ", of a unit's average" if measure.rows is not None else ""
            if not degree:
                return f"rows with a value of {argument}, which is {float(low):g}{also}"
            return (
                f"moments to degree {degree} of {argument} in [{float(low):g}, {float(high):g}], "
                f"{cells} steps{also}"
            )
        case PairMeasure(axes=(first, second), null_component=null):
            also = ", NULL apart" if null else ""
            return f"products of the {_axis_text(first)} and of the {_axis_text(second)}{also}"
        case NormMeasure(limit=limit, step=step):
            return (
                f"vector of {argument}, its length at most {float(limit):g}, step {float(step):g}"
            )
        case _:
            assert_never(measure)


def _axis_text(axis: Axis) -> str:
    if not axis.degree:
        return f"value of {expression_text(axis.argument)}, which is {float(axis.low):g}"
    return (
        f"moments to degree {axis.degree} of {expression_text(axis.argument)} in "
        f"[{float(axis.low):g}, {float(axis.high):g}], {axis.cells} steps"
    )


def _per_unit(ends: tuple[int, int] | None, step: float) -> str:
    """Return what is said of ends that bound a unit in a group, in numbers of steps."""
    return "" if ends is None else f", of a unit in [{ends[0] * step:g}, {ends[1] * step:g}]"
