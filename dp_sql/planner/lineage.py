"""Where a column comes from: expressions traced down to scans, and the domains of their columns."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dp_sql.plan import functions
from dp_sql.plan.domain import BOOLEANS, Domain
from dp_sql.plan.domains import domain_of, narrow
from dp_sql.plan.expression import Call, Case, Cast, Column, Expression, Literal, Ref
from dp_sql.plan.relation import Filter, Join, JoinKind, Project, Relation, Scan
from dp_sql.schema.catalog import Catalog, ColumnSpec, Scalar
from dp_sql.schema.sqltype import Kind

_EPOCH = date(1970, 1, 1)


def scans(relation: Relation, *, padded: bool = False) -> list[tuple[Scan, bool]]:
    """Return the scans below, each with whether an outer join may pad its columns with NULL."""
    match relation:
        case Scan():
            return [(relation, padded)]
        case Filter(source=source) | Project(source=source):
            return scans(source, padded=padded)
        case Join(left=left, right=right, kind=kind):
            outer = kind is JoinKind.LEFT
            return [*scans(left, padded=padded), *scans(right, padded=padded or outer)]
        case _:
            return []


def never_null(relation: Relation) -> frozenset[int]:
    """Return the numbers of the scans' columns that are declared without NULL and never padded."""
    return frozenset(
        column.number
        for scan, padded in scans(relation)
        if not padded
        for column in scan.columns
        if not column.nullable
    )


def expand(relation: Relation, expression: Expression) -> Expression:
    """Return `expression` over the columns of scans: computed columns replaced by what they mean."""
    definitions = _definitions(relation)

    def walk(node: Expression) -> Expression:
        match node:
            case Literal():
                return node
            case Ref(column=column):
                inner = definitions.get(column.number)
                return node if inner is None else walk(inner)
            case Call(args=args):
                return Call(node.function, tuple(walk(a) for a in args), node.type)
            case Case(branches=branches, otherwise=otherwise):
                pairs = tuple((walk(c), walk(v)) for c, v in branches)
                return Case(pairs, walk(otherwise), node.type)
            case Cast(operand=operand):
                return Cast(walk(operand), node.type)
            case _:
                assert_never(node)

    return walk(expression)


def _definitions(relation: Relation) -> dict[int, Expression]:
    match relation:
        case Scan():
            return {}
        case Filter(source=source):
            return _definitions(source)
        case Project(source=source, columns=columns, expressions=expressions):
            found = _definitions(source)
            for column, expression in zip(columns, expressions, strict=True):
                if expression != Ref(column):
                    found[column.number] = expression
            return found
        case Join(left=left, right=right):
            return {**_definitions(left), **_definitions(right)}
        case _:
            return {}


def column_domains(relation: Relation, catalog: Catalog) -> dict[int, Domain]:
    """Return the domains of the relation's columns: declared, derived, narrowed by filters."""
    match relation:
        case Scan(table=table, columns=columns, sources=sources):
            spec = catalog.tables[table]
            return {
                c.number: declared(spec.columns[s]) for c, s in zip(columns, sources, strict=True)
            }
        case Filter(source=source, predicate=predicate):
            return dict(narrow(column_domains(source, catalog), predicate))
        case Project(source=source, columns=columns, expressions=expressions):
            below = column_domains(source, catalog)
            return below | {
                c.number: domain_of(e, below) for c, e in zip(columns, expressions, strict=True)
            }
        case Join(left=left, right=right):
            return {**column_domains(left, catalog), **column_domains(right, catalog)}
        case _:
            return {}


def declared(spec: ColumnSpec) -> Domain:
    """Return the domain that a declaration gives: bounds, values, or what the type itself bounds."""
    kind = spec.type.kind
    if kind is Kind.BOOLEAN:
        return BOOLEANS
    step = functions.step_of(spec.type)
    low, high = spec.low, spec.high
    if spec.values and low is None:
        numbers = [_number(v) for v in spec.values]
        known = [n for n in numbers if n is not None]
        if known and len(known) == len(numbers):
            return Domain(min(known), max(known), step)
        if kind is Kind.VARCHAR:
            return Domain(max_length=max(len(str(v)) for v in spec.values))
    ends = (None if low is None else _number(low), None if high is None else _number(high))
    return Domain(ends[0], ends[1], step, spec.max_length)


def _number(value: Scalar) -> Fraction | None:
    """Return a bound as a number: dates as days, timestamps as microseconds since 1970-01-01."""
    match value:
        case bool() | int() | Decimal() | float():
            return Fraction(value)
        case datetime():
            delta = value.replace(tzinfo=None) - datetime(1970, 1, 1)  # noqa: DTZ001  no zone in a TIMESTAMP
            return Fraction((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds)
        case date():
            return Fraction((value - _EPOCH).days)
        case _:
            return None


def finite_values(spec: ColumnSpec, limit: int) -> tuple[object, ...] | None:
    """Return the public values of a declared column, NULL among them where it may be; else None.

    Declared values, booleans, and bounded integers and dates of at most `limit` values.
    """
    values: tuple[object, ...] | None = None
    if spec.values is not None:
        values = spec.values
    elif spec.type.kind is Kind.BOOLEAN:
        values = (False, True)
    elif spec.low is not None and spec.high is not None:
        if spec.type.is_integer:
            low, high = int(str(spec.low)), int(str(spec.high))
            values = tuple(range(low, high + 1)) if high - low < limit else None
        elif (
            isinstance(spec.low, date)
            and isinstance(spec.high, date)
            and spec.type.kind is Kind.DATE
        ):
            first, last = spec.low.toordinal(), spec.high.toordinal()
            if last - first < limit:
                values = tuple(date.fromordinal(n) for n in range(first, last + 1))
    if values is None or not spec.nullable:
        return values
    return (*values, None)


def scan_column(relation: Relation, column: Column) -> tuple[Scan, str, bool] | None:
    """Return the scan, the declared name and the padding of a scan's column; None for others."""
    for scan, padded in scans(relation):
        for own, source in zip(scan.columns, scan.sources, strict=True):
            if own.number == column.number:
                return scan, source, padded
    return None
