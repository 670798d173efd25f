"""From a planned release to one SQL statement of ours. No word of the analyst's text is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import assert_never

from dp_sql.errors import InternalError, UnsupportedSQLError
from dp_sql.executor.lower_expression import canonical, identifier, literal, lower
from dp_sql.executor.lower_measure import grid
from dp_sql.executor.lower_sums import accumulators, components, holds
from dp_sql.plan.expression import Column, Expression, Literal, Ref, columns_of
from dp_sql.plan.public import Image, PublicRows, ValueList
from dp_sql.plan.relation import (
    BoundGroups,
    BoundRows,
    CountMeasure,
    Filter,
    Join,
    KeepKeys,
    Measure,
    MeasureRows,
    MomentMeasure,
    PresenceMeasure,
    Project,
    Relation,
    Scan,
    SumMeasure,
    SumPerUnit,
    output,
)
from dp_sql.plan.release import PlannedRelease
from dp_sql.schema.sqltype import Kind, SqlType
from dp_sql.sensitivity.ownership import owner_of

DATA = "data"  # the schema in which the engine keeps the declared tables
_FITS = 2**63 - 1
_SHORT = 64  # characters of a key's text that may be written twice
_SAFE = 2**86  # times 2^40 units it still fits a HUGEINT


def name(column: Column) -> str:
    """Return the name of a column in lowered SQL: ours, unique in the statement."""
    return f"c{column.number}"


def release_sql(plan: PlannedRelease) -> str:
    """Return the statement that gives the exact table: keys in order, then the vectors' columns."""
    return _totals(plan.relation)


def selection_sql(plan: PlannedRelease) -> str:
    """Return the statement that counts the units of each private combination of keys."""
    if plan.selection_relation is None:
        raise InternalError("this release selects keys from its own table")
    return _totals(plan.selection_relation)


def _totals(relation: Relation) -> str:
    """Return the sums of every vector by the keys, from units or, at event level, from rows."""
    measured = _measured(relation)
    keys = [name(k) for k in measured.keys]
    fetched = [_fetched(name(k), k.type) for k in measured.keys]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    if isinstance(relation, BoundRows):
        sums = [f"coalesce(sum({text}), 0)" for text, _ in _bounded(relation)]
        return f"SELECT {', '.join([*fetched, *sums])} FROM {_pairs(relation.source)}{group}"
    accumulated = _accumulated(measured) or ["count(*) AS s0_0"]  # keys alone are counted too
    counted = ", ".join([*keys, *accumulated])
    sums = [part for parts in _components(measured) for part in parts]
    kept = _kept(relation, "s0_0") if keys else ""
    return (
        f"SELECT {', '.join([*fetched, *sums])} FROM "
        f"(SELECT {counted} FROM ({lower_relation(relation)}) AS rows_{group}) AS sums_{kept}"
    )


def _fetched(text: str, kind: SqlType) -> str:
    """Return a key as it is fetched: dates and timestamps as text.

    Claim:   two keys that differ in the database differ in Python.
    Why:     the driver turns an infinite date into 9999-12-31 or 0001-01-01, which may be keys too;
             two groups under one key would each show the same units, and one unit would count twice.
    Assumes: DuckDB's texts of dates and timestamps differ for different values.
    """
    return f"CAST({text} AS VARCHAR)" if kind.kind in (Kind.DATE, Kind.TIMESTAMP) else text


def _measured(relation: Relation) -> MeasureRows:
    inner = relation
    while not isinstance(inner, MeasureRows):
        if not isinstance(inner, KeepKeys | SumPerUnit | BoundRows | BoundGroups):
            raise InternalError("a bounded relation without a measure")
        inner = inner.source
    for measure in inner.measures:
        if not holds(measure):
            raise UnsupportedSQLError(
                "the bounds of this aggregate are so wide that its sums could overflow.",
                hint="declare narrower bounds, or CLAMP(…, low, high) in the query",
            )
    return inner


def _accumulators(measured: MeasureRows) -> list[tuple[tuple[str, str], ...]]:
    """Return, for each measure, the (aggregate, name) pairs of its accumulators."""
    return [
        tuple((text, f"s{i}_{j}") for j, text in enumerate(accumulators(measure, f"g{i}")))
        for i, measure in enumerate(measured.measures)
    ]


def _accumulated(measured: MeasureRows) -> list[str]:
    return [f"{text} AS {named}" for pairs in _accumulators(measured) for text, named in pairs]


def _components(measured: MeasureRows) -> list[tuple[str, ...]]:
    """Return, for each measure, the texts of its components' sums over the accumulators' names."""
    return [
        components(measure, tuple(named for _, named in pairs))
        for measure, pairs in zip(measured.measures, _accumulators(measured), strict=True)
    ]


def lower_relation(relation: Relation) -> str:
    """Return a SELECT with the relation's columns under their lowered names."""
    match relation:
        case Scan():
            return _scan(relation)
        case Filter():
            rows = _rows(relation, _floats(relation))
            items = ", ".join(_as(rows.text(c), c) for c in output(relation))
            return f"SELECT {items}{rows.clauses()}"
        case Project(source=source, columns=columns, expressions=expressions):
            items = ", ".join(
                f"{lower(e, name)} AS {name(c)}" for c, e in zip(columns, expressions, strict=True)
            )
            return f"SELECT {items} FROM ({lower_relation(source)}) AS rows_"
        case Join(left=left, right=right, kind=kind, condition=condition):
            on = lower(condition, name)
            return (
                f"SELECT * FROM ({lower_relation(left)}) AS left_ {kind.value} JOIN "
                f"({lower_relation(right)}) AS right_ ON {on}"
            )
        case MeasureRows() | KeepKeys():
            return _measure(relation)
        case SumPerUnit(source=source, count=count):
            return _per_unit(source, count)
        case BoundRows():
            return _bound_rows(relation)
        case BoundGroups(source=source):
            kept = ", ".join(_pair_columns(source))
            return f"SELECT {kept} FROM {_pairs(relation)}"
        case _:
            assert_never(relation)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that a SELECT reads: its FROM item, its conditions, and the text of a column there."""

    source: str
    where: tuple[str, ...]
    text: Callable[[Column], str]

    def clauses(self, *more: str) -> str:
        """Return FROM and WHERE, with further conditions."""
        conditions = " AND ".join((*self.where, *more))
        return f" FROM {self.source}" + (f" WHERE {conditions}" if conditions else "")


def _rows(relation: Relation, floats: frozenset[int]) -> _Rows:
    """Return rows as one SELECT can read them, filters over a scan in its WHERE.

    floats: the float columns that have to be canonical; one that isn't among them may be read as it
    lies in the table.
    """
    match relation:
        case Scan():
            if any(c.number in floats and c.type.is_float for c in relation.columns):
                return _Rows(f"({_scan(relation)}) AS rows_", (), name)
            names = dict(zip(relation.columns, relation.sources, strict=True))
            where = () if relation.owner is None else (_owned(relation),)
            source = f"{DATA}.{identifier(relation.table)} AS scan_"
            return _Rows(source, where, lambda c: identifier(names[c]))
        case Filter(source=source, predicate=predicate):
            rows = _rows(source, floats)
            return _Rows(rows.source, (*rows.where, lower(predicate, rows.text)), rows.text)
        case _:
            return _Rows(f"({lower_relation(relation)}) AS rows_", (), name)


def _floats(relation: Relation) -> frozenset[int]:
    return frozenset(c.number for c in output(relation) if c.type.is_float)


def _as(text: str, column: Column) -> str:
    return text if text == name(column) else f"{text} AS {name(column)}"


def _owned(scan: Scan) -> str:
    """Return the condition that a row has an owner."""
    owner = next(s for c, s in zip(scan.columns, scan.sources, strict=True) if c == scan.owner)
    return f"{identifier(owner)} IS NOT NULL"


def _scan(scan: Scan) -> str:
    """Lower a scan: canonical values, rows without an owner dropped."""
    items = ", ".join(
        f"{canonical(identifier(s), c.type)} AS {name(c)}"
        for c, s in zip(scan.columns, scan.sources, strict=True)
    )
    where = "" if scan.owner is None else f" WHERE {_owned(scan)}"
    return f"SELECT {items} FROM {DATA}.{identifier(scan.table)} AS scan_{where}"


def _measure(relation: MeasureRows | KeepKeys) -> str:
    """Lower MeasureRows to one row a row: the owner, the keys, and one integer a measure.

    A float column that is a measure's whole argument is read as it lies in the table: its grid makes
    NULL of NaN and 0 of -0.0 by itself. Every further float is canonical.
    """
    measured = _measured(relation)
    source = measured.source
    used = [*measured.key_expressions, *_predicates(source)]
    used += [
        m.argument
        for m in measured.measures
        if m.argument is not None
        and not (isinstance(m, SumMeasure | MomentMeasure) and isinstance(m.argument, Ref))
    ]
    rows = _rows(source, frozenset(c.number for e in used for c in columns_of(e)))
    owner = owner_of(source)
    items = [] if owner is None else [f"{rows.text(owner)} AS u"]
    keys = {}
    for key, expression in zip(measured.keys, measured.key_expressions, strict=True):
        keys[key] = canonical(lower(expression, rows.text), expression.type)
        items.append(f"{keys[key]} AS {name(key)}")
    for index, measure in enumerate(measured.measures):
        argument = measure.argument
        lowered = None if argument is None else (lower(argument, rows.text), argument.type)
        items.append(f"{grid(measure, lowered)} AS g{index}")
    early = [
        _among(keys[column], column.type, values)
        for column, values in _public_values(relation)
        if _early(values) and len(keys[column]) <= _SHORT
    ]
    return f"SELECT {', '.join(items)}{rows.clauses(*early)}"


def _early(values: list[object]) -> bool:
    """Return whether it is cheap to test a public key on every row: a range, or two values."""
    known = [v for v in values if v is not None]
    return len(known) <= 2 or contiguous(known) is not None


def _kept(relation: Relation, counted: str) -> str:
    """Return the WHERE that keeps public keys in their domain, over rows that are grouped by them.

    counted: an accumulator, never NULL. The condition reads it so that DuckDB can't move the test
    below the grouping, where a list of texts would be searched for every row.
    """
    while isinstance(relation, SumPerUnit):
        relation = relation.source
    conditions = [_among(name(c), c.type, values) for c, values in _public_values(relation)]
    if not conditions:
        return ""
    return f" WHERE CASE WHEN {counted} IS NOT NULL THEN {' AND '.join(conditions)} ELSE FALSE END"


def _predicates(relation: Relation) -> list[Expression]:
    if isinstance(relation, Filter):
        return [relation.predicate, *_predicates(relation.source)]
    return []


def _public_values(relation: Relation) -> Iterator[tuple[Column, list[object]]]:
    """Yield each column that KeepKeys keeps in its public values, with these, each once."""
    while isinstance(relation, KeepKeys):
        for index, column in enumerate(relation.columns):
            yield column, list(dict.fromkeys(row[index] for row in relation.values))
        relation = relation.source


def _among(text: str, kind: SqlType, listed: list[object]) -> str:
    """Return the condition that a value is one of those listed, None standing for NULL."""
    missing = f"{text} IS NULL"
    values = [v for v in listed if v is not None]
    null = len(values) < len(listed)
    if not values:
        return f"({missing})" if null else "(FALSE)"
    run = contiguous(values)
    if run is not None:
        low, high = (literal(v, kind) for v in run)  # type: ignore[arg-type]
        inside = f"{text} BETWEEN {low} AND {high}"
    else:
        inside = f"{text} IN ({', '.join(literal(v, kind) for v in values)})"  # type: ignore[arg-type]
    return f"({inside} OR {missing})" if null else f"({inside})"


def contiguous(values: Sequence[object]) -> tuple[object, object] | None:
    """Return the ends of values that are consecutive integers or dates, three or more; else None."""
    first = values[0]
    if len(values) < 3 or isinstance(first, bool):
        return None
    if all(type(v) is int for v in values):
        numbers = [v for v in values if isinstance(v, int)]
    elif all(type(v) is date for v in values):
        numbers = [v.toordinal() for v in values if isinstance(v, date)]
    else:
        return None
    if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return values[0], values[-1]
    return None


def _per_unit(source: Relation, count: Column) -> str:
    """Lower SumPerUnit: one row per (unit, group) with its accumulators."""
    measured = _measured(source)
    groups = ["u", *(name(k) for k in measured.keys)]
    items = [*groups, f"count(*) AS {name(count)}", *_accumulated(measured)]
    pairs = (
        f"SELECT {', '.join(items)} FROM ({lower_relation(source)}) AS rows_ "
        f"GROUP BY {', '.join(groups)}"
    )
    kept = _kept(source, name(count))
    return f"SELECT * FROM ({pairs}) AS sums_{kept}" if kept else pairs


def _bound_rows(relation: BoundRows) -> str:
    """Lower BoundRows: from the accumulators of (unit, group) to bounded components."""
    measured = _measured(relation.source)
    items = ["u", *(name(k) for k in measured.keys)]
    items += [f"{text} AS {name(c)}" for text, c in _bounded(relation)]
    return f"SELECT {', '.join(items)} FROM {_pairs(relation.source)}"


def _bounded(relation: BoundRows) -> list[tuple[str, Column]]:
    """Return the bounded components of a (unit, group) over its accumulators, with their columns.

    Claim:   no integer operation overflows, and every result lies in its contribution set.
    Why:     a unit has at most 2^45 rows, so sums of rows, multiplied by max_rows and the low bits
             before they are divided by the count, stay below 2^127 (the planner keeps
             cells^degree * max_rows below 2^80); // truncates non-negative numbers toward zero.
    Assumes: DuckDB's sum of BIGINT is an exact HUGEINT.
    """
    measured, most = _measured(relation.source), relation.max_rows
    count = name(_sums(relation.source).count)
    parts = zip(
        measured.measures, measured.vectors, _components(measured), relation.low_bits, strict=True
    )
    return [
        (_bound(measure, text, count, most, bits), column)
        for measure, vector, texts, bits in parts
        for text, column in zip(texts, vector, strict=True)
    ]


def _sums(relation: Relation) -> SumPerUnit:
    while isinstance(relation, BoundGroups):
        relation = relation.source
    if not isinstance(relation, SumPerUnit):
        raise InternalError("rows are bounded per unit and group")
    return relation


def _bound(measure: Measure, value: str, count: str, most: int, bits: int) -> str:
    match measure:
        case CountMeasure():
            return f"CAST(least({value}, {most}) AS BIGINT)"
        case PresenceMeasure():
            return f"CASE WHEN {value} > 0 THEN 1 ELSE 0 END"
        case SumMeasure():
            low, high = measure.ends
            low, high = most * min(low, 0), most * max(high, 0)
            whole = f"greatest({_big(low)}, least({_big(high)}, {value}))"
            return _narrow(whole, max(-low, high))
        case MomentMeasure():
            cut = f"{value} * {_big(most << bits)} // {count}"
            whole = value if bits == 0 else f"{value} * {_big(1 << bits)}"
            text = f"CASE WHEN {count} > {most} THEN {cut} ELSE {whole} END"
            return _narrow(text, measure.total * most << bits)
        case _:
            assert_never(measure)


def _narrow(text: str, most: int) -> str:
    """Return the text as a BIGINT where every value fits one: sums of BIGINT can't overflow."""
    if most <= _FITS:
        return f"CAST({text} AS BIGINT)"
    if most > _SAFE:
        raise UnsupportedSQLError(
            "the bounds of this aggregate are so wide that its sums could overflow.",
            hint="declare narrower bounds, or CLAMP(…, low, high) in the query",
        )
    return f"CAST({text} AS HUGEINT)"


def _big(number: int) -> str:
    return f"CAST({number} AS HUGEINT)"


def _pair_columns(relation: Relation) -> list[str]:
    """Return the names of what a relation of (unit, group) pairs holds before rows are bounded."""
    measured = _measured(relation)
    sums = [named for pairs in _accumulators(measured) for _, named in pairs]
    return ["u", *(name(k) for k in measured.keys), name(_sums(relation).count), *sums]


def _pairs(relation: Relation) -> str:
    """Return a FROM item, with a WHERE, of the (unit, group) pairs that stay.

    Of each unit the first `max_groups` groups by a keyed hash, then by the keys. `lag` counts rows,
    so ties can't keep more; and it avoids a rewrite of QUALIFY that is slower.
    """
    if not isinstance(relation, BoundGroups):
        return f"({lower_relation(relation)}) AS pairs_"
    keys = [name(k) for k in _measured(relation).keys]
    order = ", ".join([f"hash({', '.join(['u', *keys])}, {_big(relation.hash_key)})", *keys])
    return (
        f"(SELECT *, lag(1, {relation.max_groups}) OVER (PARTITION BY u ORDER BY {order}) AS beyond_ "
        f"FROM ({lower_relation(relation.source)}) AS pairs_) AS ranked_ WHERE beyond_ IS NULL"
    )


def image_sql(image: Image, limit: int) -> str:
    """Return the statement that lists the distinct values of public expressions, limit + 1 at most."""
    items = ", ".join(
        f"{_fetched(canonical(lower(e, name), e.type), e.type)} AS e{i}"
        for i, e in enumerate(image.expressions)
    )
    sources = [f"({_source(s)}) AS s{i}" for i, s in enumerate(image.sources)]
    tables = f" FROM {', '.join(sources)}" if sources else ""
    listed = f"SELECT DISTINCT {items}{tables} LIMIT {limit + 1}"
    return f"SELECT * FROM ({listed}) AS listed_ ORDER BY ALL"  # a plan's text is always the same


def _source(source: ValueList | PublicRows) -> str:
    match source:
        case PublicRows(scan=scan, padded=padded):
            rows = lower_relation(scan)
            if padded:
                nulls = ", ".join(literal(None, c.type) for c in scan.columns)
                rows += f" UNION ALL SELECT {nulls}"
            return rows
        case ValueList(column=column, values=values):
            known = [v for v in values if v is not None]
            run = contiguous(known) if known else None
            if run is None:
                listed = ", ".join(f"({literal(v, column.type)})" for v in values)  # type: ignore[arg-type]
                return f"SELECT v AS {name(column)} FROM (VALUES {listed}) AS t(v)"
            text = _run(column.type, *run)
            if len(known) < len(values):
                text += f" UNION ALL SELECT {literal(None, column.type)}"
            return text.replace("AS v_", f"AS {name(column)}")
        case _:
            assert_never(source)


def _run(kind: SqlType, low: object, high: object) -> str:
    if isinstance(low, date) and isinstance(high, date):
        span = (high - low).days
        start = Literal(low, SqlType(Kind.DATE))
        first = literal(start.value, start.type)
        return f"SELECT {first} + CAST(i AS INTEGER) AS v_ FROM range({span + 1}) AS t(i)"
    return f"SELECT CAST(i AS {kind}) AS v_ FROM range({low}, {high} + 1) AS t(i)"


def unique_sql(table: str, columns: tuple[str, ...]) -> str:
    """Return the statement that counts the repeated values of public columns, NULLs apart."""
    names = ", ".join(identifier(c) for c in columns)
    known = " AND ".join(f"{identifier(c)} IS NOT NULL" for c in columns)
    return (
        f"SELECT count(*) FROM (SELECT {names} FROM {DATA}.{identifier(table)} WHERE {known} "
        f"GROUP BY {names} HAVING count(*) > 1) AS repeated_"
    )
