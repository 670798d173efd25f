"""Where a column comes from: expressions traced down to scans, and the domains of their columns."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dp_sql.plan import functions
from dp_sql.plan.conversion import is_null
from dp_sql.plan.domain import BOOLEANS, UNKNOWN, Domain
from dp_sql.plan.domains import domain_of, narrow
from dp_sql.plan.expression import Call, Case, Cast, Column, Expression, Literal, Ref
from dp_sql.plan.intervals import hull
from dp_sql.plan.relation import output
from dp_sql.plan.row_aggregates import aggregate_domain, window_domain
from dp_sql.plan.rows import (
    Filter,
    GroupRows,
    Join,
    JoinKind,
    Mark,
    Project,
    Rows,
    Scan,
    SetKind,
    SetRows,
    StageScan,
    WindowRows,
)
from dp_sql.schema.catalog import Catalog, ColumnSpec, Scalar
from dp_sql.schema.sqltype import Kind
from dp_sql.sensitivity.ownership import is_protected

_EPOCH = date(1970, 1, 1)


def scans(rows: Rows, *, padded: bool = False) -> list[tuple[Scan | StageScan, bool]]:
    """Return the scans below whose columns keep their numbers, and whether a join may pad them.

    Stages of public data alone are among them.
    """
    match rows:
        case Scan():
            return [(rows, padded)]
        case Filter() | Project() | GroupRows() | WindowRows():
            return scans(rows.source, padded=padded)
        case Mark(left=left):
            return scans(left, padded=padded)
        case Join(left=left, right=right, kind=kind):
            full = padded or kind is JoinKind.FULL
            return [*scans(left, padded=full), *scans(right, padded=padded or kind.pads_right)]
        case StageScan(public=public):
            return [(rows, padded)] if public else []
        case SetRows():
            return []
        case _:
            assert_never(rows)


def never_null(rows: Rows) -> frozenset[int]:
    """Return the numbers of the columns that are never NULL, as far as declarations tell."""
    scanned = frozenset(
        column.number
        for scan, padded in scans(rows)
        if not padded
        for column in scan.columns
        if not column.nullable
    )
    return scanned | _counts(rows)


def _counts(rows: Rows) -> frozenset[int]:
    """Return the columns of groups' counts, which are numbers for every group."""
    match rows:
        case GroupRows(aggregates=aggregates):
            return frozenset(
                a.column.number for a in aggregates if a.kind.value.startswith("COUNT")
            )
        case Filter(source=source) | WindowRows(source=source) | Project(source=source):
            return _counts(source)
        case Mark(left=left):
            return _counts(left)
        case _:
            return frozenset()


def expand(rows: Rows, expression: Expression) -> Expression:
    """Return `expression` over the columns of scans: computed columns replaced by what they mean."""
    definitions = _definitions(rows)

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


def _definitions(rows: Rows) -> dict[int, Expression]:
    match rows:
        case Scan() | StageScan() | SetRows():
            return {}
        case Filter(source=source) | WindowRows(source=source):
            return _definitions(source)
        case Mark(left=left):
            return _definitions(left)
        case Project(source=source, columns=columns, expressions=expressions):
            return _defined(source, columns, expressions)
        case GroupRows(source=source, keys=columns, key_expressions=expressions):
            return _defined(source, columns, expressions)
        case Join(left=left, right=right):
            return {**_definitions(left), **_definitions(right)}
        case _:
            assert_never(rows)


def _defined(
    source: Rows, columns: tuple[Column, ...], expressions: tuple[Expression, ...]
) -> dict[int, Expression]:
    found = _definitions(source)
    for column, expression in zip(columns, expressions, strict=True):
        if expression != Ref(column):
            found[column.number] = expression
    return found


def column_domains(rows: Rows, catalog: Catalog, limit: int) -> dict[int, Domain]:
    """Return the domains of the columns: declared, derived, narrowed by filters and joins.

    limit: how many rows of one owner an aggregate over them may count.
    """
    match rows:
        case Scan(table=table, columns=columns, sources=sources):
            spec = catalog.tables[table]
            return {
                c.number: declared(spec.columns[s]) for c, s in zip(columns, sources, strict=True)
            }
        case StageScan():
            return {}
        case Filter(source=source, predicate=predicate):
            return dict(narrow(column_domains(source, catalog, limit), predicate))
        case Project(source=source, columns=columns, expressions=expressions):
            below = column_domains(source, catalog, limit)
            return below | {
                c.number: domain_of(e, below) for c, e in zip(columns, expressions, strict=True)
            }
        case GroupRows(source=source, keys=keys, key_expressions=expressions):
            below = column_domains(source, catalog, limit)
            found = below | {
                c.number: domain_of(e, below) for c, e in zip(keys, expressions, strict=True)
            }
            most = limit if is_protected(source) else None  # public rows have no owner's limit
            return found | {
                a.column.number: aggregate_domain(a, below, most) for a in rows.aggregates
            }
        case WindowRows(source=source, functions=functions):
            below = column_domains(source, catalog, limit)
            return below | {f.column.number: window_domain(f, below, limit) for f in functions}
        case Mark(left=left, column=column):
            return column_domains(left, catalog, limit) | {column.number: BOOLEANS}
        case Join(left=left, right=right, kind=kind, condition=condition):
            both = column_domains(left, catalog, limit) | column_domains(right, catalog, limit)
            inner = kind in (JoinKind.INNER, JoinKind.ASOF)
            return dict(narrow(both, condition)) if inner else both
        case SetRows():
            return _combined(rows, catalog, limit)
        case _:
            assert_never(rows)


def _combined(rows: SetRows, catalog: Catalog, limit: int) -> dict[int, Domain]:
    left = column_domains(rows.left, catalog, limit)
    right = column_domains(rows.right, catalog, limit)
    union = rows.kind in (SetKind.UNION, SetKind.UNION_ALL)
    found = {}
    for column, a, b in zip(rows.columns, output(rows.left), output(rows.right), strict=True):
        first, second = left.get(a.number, UNKNOWN), right.get(b.number, UNKNOWN)
        if not union or _is_nothing(rows.right, b):
            found[column.number] = first
        else:
            found[column.number] = second if _is_nothing(rows.left, a) else hull([first, second])
    return found


def _is_nothing(rows: Rows, column: Column) -> bool:
    """Return whether a column is NULL in every row, as what BY NAME adds: it adds no value."""
    value = expand(rows, Ref(column))
    while isinstance(value, Cast):
        value = value.operand
    return is_null(value)


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


def scan_column(rows: Rows, column: Column) -> tuple[Scan | StageScan, str, bool] | None:
    """Return the scan, the declared name and the padding of a scan's column; None for others."""
    for scan, padded in scans(rows):
        sources = scan.sources if isinstance(scan, Scan) else tuple(c.name for c in scan.columns)
        for own, source in zip(scan.columns, sources, strict=True):
            if own.number == column.number:
                return scan, source, padded
    return None
