"""From a planned release to one SQL statement of ours. No word of the analyst's text is in it."""

from __future__ import annotations

import math
from typing import assert_never

from dp_sql.errors import InternalError, UnsupportedSQLError
from dp_sql.executor import lower_vector
from dp_sql.executor.database import STAGE
from dp_sql.executor.lower_expression import canonical, identifier, lower
from dp_sql.executor.lower_kept import among, early, kept, public_values
from dp_sql.executor.lower_measure import grids
from dp_sql.executor.lower_public import fetched
from dp_sql.executor.lower_rows import name, readable, rows_sql
from dp_sql.executor.lower_sums import ROW_COUNT, accumulators, components, holds, times
from dp_sql.plan.expression import Column, Expression, Ref, columns_of
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import (
    MOST_ROWS,
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
    Sample,
    SpreadRows,
    SumMeasure,
    SumPerUnit,
    arguments,
)
from dp_sql.plan.release import PlannedRelease
from dp_sql.plan.rows import Filter
from dp_sql.plan.vector import NormMeasure
from dp_sql.privacy.contribution import Divided
from dp_sql.sensitivity.ownership import owner_of
from dp_sql.sensitivity.sides import sides_of

_FITS = 2**63 - 1
_SHORT = 64  # characters of a key's text that may be written twice
GROUPS = "groups_"  # how many groups of its unit a pair is one of
_SAFE = 2**86  # times 2^40 units it still fits a HUGEINT


def release_sql(plan: PlannedRelease) -> str:
    """Return the statement that gives the exact table: keys in order, then the vectors' columns."""
    return totals(plan.relation)


def selection_sql(plan: PlannedRelease) -> str:
    """Return the statement that counts the units of each private combination of keys."""
    if plan.selection_relation is None:
        raise InternalError("this release selects keys from its own table")
    return totals(plan.selection_relation)


def second_sql(plan: PlannedRelease) -> str:
    """Return the statement that weighs the combinations that the first round didn't show."""
    if plan.second_relation is None:
        raise InternalError("this release selects keys in one round")
    return totals(plan.second_relation)


def totals(relation: Relation) -> str:
    """Return the sums of every vector by the keys, from units or, at event level, from rows."""
    measured = measured_rows(relation)
    keys = [name(k) for k in measured.keys]
    shown = [fetched(name(k), k.type) for k in measured.keys]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    if isinstance(relation, BoundRows):
        sums = [f"coalesce(sum({text}), 0)" for text, _ in _bounded(relation)]
        return f"SELECT {', '.join([*shown, *sums])} FROM {_with_vectors(relation)}{group}"
    accumulated = _accumulated(measured) or {ROW_COUNT: "s0_0"}  # keys alone are counted too
    counted = ", ".join([*keys, *(f"{text} AS {named}" for text, named in accumulated.items())])
    sums = [part for parts in _components(measured) for part in parts]
    inside = kept(relation, "s0_0") if keys else ""
    return (
        f"SELECT {', '.join([*shown, *sums])} FROM "
        f"(SELECT {counted} FROM ({lower_relation(relation)}) AS rows_{group}) AS sums_{inside}"
    )


def measured_rows(relation: Relation) -> MeasureRows:
    """Return the measured rows below what keeps and bounds them."""
    inner = relation
    while not isinstance(inner, MeasureRows):
        if not isinstance(
            inner, KeepKeys | SumPerUnit | DropKeys | BoundRows | BoundGroups | SpreadRows
        ):
            raise InternalError("a bounded relation without a measure")
        inner = inner.source
    for measure in inner.measures:
        if not holds(measure):
            raise _too_wide()
    return inner


def _accumulators(
    measured: MeasureRows, rows: str | None = None
) -> list[tuple[tuple[str, str], ...]]:
    """Return, for each measure, the (aggregate, name) pairs of its accumulators, each aggregate once.

    rows: the name under which the rows are counted anyhow.
    """
    names = {} if rows is None else {ROW_COUNT: rows}
    return [
        tuple(
            (text, names.setdefault(text, f"s{i}_{j}"))
            for j, text in enumerate(accumulators(measure, f"g{i}", f"h{i}"))
        )
        for i, measure in enumerate(measured.measures)
    ]


def _accumulated(measured: MeasureRows, rows: str | None = None) -> dict[str, str]:
    """Return the names of the accumulators, except `rows`, by their aggregates."""
    found = {text: named for pairs in _accumulators(measured, rows) for text, named in pairs}
    return {text: named for text, named in found.items() if named != rows}


def _components(measured: MeasureRows, rows: str | None = None) -> list[tuple[str, ...]]:
    """Return, for each measure, the texts of its components' sums over the accumulators' names."""
    return [
        components(measure, tuple(named for _, named in pairs))
        for measure, pairs in zip(measured.measures, _accumulators(measured, rows), strict=True)
    ]


def lower_relation(relation: Relation) -> str:
    """Return a SELECT with the relation's columns under their lowered names."""
    match relation:
        case MeasureRows() | KeepKeys():
            return _measure(relation)
        case SumPerUnit(source=source, count=count, partners=partners):
            if partners is None:
                return _per_unit(source, count)
            return _per_side(source, count, partners)
        case DropKeys():
            return _dropped(relation)
        case BoundRows():
            return _bound_rows(relation)
        case SpreadRows():
            raise InternalError("a histogram is lowered as a whole")
        case BoundGroups(source=source):
            kept = ", ".join(_pair_columns(source))
            return f"SELECT {kept} FROM {_pairs(relation)}"
        case _:
            return rows_sql(relation)


def _measure(relation: MeasureRows | KeepKeys) -> str:
    """Lower MeasureRows to one row a row: the owner, the keys, and one integer an argument.

    A float column that is a measure's whole argument is read as it lies in the table: its grid makes
    NULL of NaN and 0 of -0.0 by itself. Every further float is canonical.
    """
    measured = measured_rows(relation)
    source = measured.source
    used = [*measured.key_expressions, *_predicates(source)]
    used += [
        argument
        for m in measured.measures
        for argument in arguments(m)
        if not (
            isinstance(m, SumMeasure | MomentMeasure | PairMeasure | NormMeasure)
            and isinstance(argument, Ref)
        )
    ]
    rows = readable(source, frozenset(c.number for e in used for c in columns_of(e)))
    owner = owner_of(source)
    items = [] if owner is None else [f"{rows.text(owner)} AS u"]
    keys = {}
    for key, expression in zip(measured.keys, measured.key_expressions, strict=True):
        keys[key] = canonical(lower(expression, rows.text), expression.type)
        items.append(f"{keys[key]} AS {name(key)}")
    for index, measure in enumerate(measured.measures):
        lowered = [(lower(argument, rows.text), argument.type) for argument in arguments(measure)]
        if isinstance(measure, NormMeasure):
            items += lower_vector.entries(index, measure, lowered)
            continue
        for text, letter in zip(grids(measure, lowered), "gh", strict=False):
            items.append(f"{text} AS {letter}{index}")
    cheap = [
        among(keys[column], column.type, values)
        for column, values in public_values(relation)
        if early(values) and len(keys[column]) <= _SHORT
    ]
    text = f"SELECT {', '.join(items)}{rows.clauses(*cheap)}"
    if measured.sample is not None:
        text = _some_rows(text, measured.sample, owned=owner is not None)
    return lower_vector.measured(text, _vectors(measured))


def _some_rows(rows: str, sample: Sample, *, owned: bool) -> str:
    """Return a SELECT of the rows whose coin says so: that of their owner, or their own.

    The number of a row names its coin, nothing else: which row gets which number is all one.
    """
    if owned:
        return f"SELECT * FROM ({rows}) AS rows_ WHERE {_coin('u', sample)}"
    numbered = f"SELECT *, row_number() OVER () AS r FROM ({rows}) AS rows_"
    return f"SELECT * FROM ({numbered}) AS numbered_ WHERE {_coin('r', sample)}"


def _coin(text: str, sample: Sample) -> str:
    """Return the condition that what a text names is in the sample; never NULL for a value.

    Claim:   values that are different have independent coins, each true with probability `rate` at
             most and by less than 2^-250 below it; equal ones have the same.
    Why:     a hash is 64 hexadecimal digits, and two such texts compare as the numbers they are. The
             key has a fixed length, so different values make different texts.
    Assumes: SHA-256 of a secret key of 256 random bits and a text looks random to whoever hasn't the
             key; a value has one text (owners have exact equality, and so have whole numbers).
    Source:  [FIPS180]
    """
    most = math.floor(sample.rate * 2**256)
    return f"sha256('{sample.key}' || CAST({text} AS VARCHAR)) < '{most:064x}'"


def _vectors(measured: MeasureRows) -> list[tuple[int, NormMeasure]]:
    """Return the measures of vectors with their places."""
    return [(i, m) for i, m in enumerate(measured.measures) if isinstance(m, NormMeasure)]


def _predicates(relation: Relation) -> list[Expression]:
    if isinstance(relation, Filter):
        return [relation.predicate, *_predicates(relation.source)]
    return []


def _per_unit(source: Relation, count: Column, shown: str = "") -> str:
    """Lower SumPerUnit: one row per (unit, group) with its accumulators.

    shown: a join that drops rows.
    """
    measured = measured_rows(source)
    groups = ["u", *(name(k) for k in measured.keys)]
    items = [*groups, f"{ROW_COUNT} AS {name(count)}"]
    items += [f"{text} AS {named}" for text, named in _accumulated(measured, name(count)).items()]
    pairs = (
        f"SELECT {', '.join(items)} FROM ({lower_relation(source)}) AS rows_{shown} "
        f"GROUP BY {', '.join(groups)}"
    )
    inside = kept(source, name(count))
    return f"SELECT * FROM ({pairs}) AS sums_{inside}" if inside else pairs


def _per_side(source: Relation, count: Column, partners: int) -> str:
    """Lower SumPerUnit over a join on the owner: each side summed, then multiplied.

    Claim:   it gives the rows of `_per_unit`, up to how many more than `partners` there are.
    Why:     a unit's pairs in a group are all pairs of its rows there on either side
             (`sensitivity.sides`): sums over pairs are sums over the one side times the number of
             rows on the other, and each side has one row a unit and group of its own keys.
    Assumes: `planner.sides` found room for the products.
    Source:  [YanLarson1995]
    """
    measured = measured_rows(source)
    sides = sides_of(measured)
    if sides is None:
        raise InternalError("only the sides of a join on the owner are summed before it")
    rows = f"right_.{name(count)}"
    many = f"least({rows}, {partners})"
    if partners > _FITS // MOST_ROWS:
        many = f"CAST({many} AS HUGEINT)"
    of = dict.fromkeys(sides.measured.keys, "left_") | dict.fromkeys(sides.partners.keys, "right_")
    items = ["left_.u AS u", *(f"{of[key]}.{name(key)} AS {name(key)}" for key in measured.keys)]
    sums = {ROW_COUNT: name(count)} | _accumulated(measured, name(count))
    items += [f"{times(text, f'left_.{n}', many)} AS {n}" for text, n in sums.items()]
    first, second = (
        _per_unit(_keeping(source, side), count) for side in (sides.measured, sides.partners)
    )
    return (
        f"SELECT {', '.join(items)} FROM ({first}) AS left_ JOIN ({second}) AS right_ "
        f"ON left_.u = right_.u"
    )


def _keeping(relation: Relation, side: MeasureRows) -> Relation:
    """Return one side's rows with the public keys kept that are its own."""
    if not isinstance(relation, KeepKeys):
        return side
    below = _keeping(relation.source, side)
    places = [i for i, column in enumerate(relation.columns) if column in side.keys]
    if not places:
        return below
    values = tuple(dict.fromkeys(tuple(row[i] for i in places) for row in relation.values))
    return KeepKeys(below, tuple(relation.columns[i] for i in places), values)


def _dropped(relation: DropKeys) -> str:
    """Lower DropKeys: an anti join on all keys, where NULL is a key like any other.

    It drops rows, before they are grouped: all rows of a pair have its keys, so the same pairs are
    left, and those that are dropped, which most are where most keys show, take no group-by. Over a
    join on the owner, whose sides have some of the keys each, it drops pairs.
    """
    keys, source = measured_rows(relation).keys, relation.source
    whole = isinstance(source, SumPerUnit) and source.partners is None
    left = "rows_" if whole else "pairs_"
    same = " AND ".join(
        f"{left}.{name(key)} IS NOT DISTINCT FROM shown_.v{i}" for i, key in enumerate(keys)
    )
    join = f" ANTI JOIN {STAGE}.{identifier(relation.stage)} AS shown_ ON {same}"
    if isinstance(source, SumPerUnit) and whole:
        return _per_unit(source.source, source.count, join)
    return f"SELECT pairs_.* FROM ({lower_relation(source)}) AS pairs_{join}"


def _bound_rows(relation: BoundRows) -> str:
    """Lower BoundRows: from the accumulators of (unit, group) to bounded components."""
    measured = measured_rows(relation.source)
    items = ["u", *(name(k) for k in measured.keys)]
    items += [f"{text} AS {name(c)}" for text, c in _bounded(relation)]
    return f"SELECT {', '.join(items)} FROM {_with_vectors(relation)}"


def _bounded(relation: BoundRows) -> list[tuple[str, Column]]:
    """Return the bounded components of a (unit, group) over its accumulators, with their columns.

    Claim:   no integer operation overflows, and every result lies in its contribution set.
    Why:     a unit has at most 2^45 rows, so sums of rows, multiplied by max_rows and the low bits
             before they are divided by the count, stay below 2^127 (the planner keeps
             cells^degree * max_rows below 2^80); // truncates non-negative numbers toward zero.
    Assumes: DuckDB's sum of BIGINT is an exact HUGEINT.
    """
    measured, most = measured_rows(relation.source), relation.max_rows
    count = name(_sums(relation.source).count)
    parts = zip(
        measured.measures,
        measured.vectors,
        _components(measured, count),
        relation.low_bits,
        strict=True,
    )
    return [
        (
            f"b{index}_{k}"  # of `_with_vectors`
            if isinstance(measure, NormMeasure)
            else _bound(measure, text, count, most, bits),
            column,
        )
        for index, (measure, vector, texts, bits) in enumerate(parts)
        for k, (text, column) in enumerate(zip(texts, vector, strict=True))
    ]


def _with_vectors(relation: BoundRows) -> str:
    """Return a FROM item of the (unit, group) pairs that stay, with what they add of vectors."""
    pairs, measured = _pairs(relation.source), measured_rows(relation.source)
    vectors = _vectors(measured)
    if not vectors:
        return pairs
    if not all(lower_vector.fits(m, relation.max_rows) for _, m in vectors):
        raise _too_wide()
    found = _components(measured, name(_sums(relation.source).count))
    return lower_vector.bounded(pairs, vectors, dict(enumerate(found)), relation.max_rows)


def _sums(relation: Relation) -> SumPerUnit:
    while isinstance(relation, BoundGroups | DropKeys):
        relation = relation.source
    if not isinstance(relation, SumPerUnit):
        raise InternalError("rows are bounded per unit and group")
    return relation


def _bound(measure: Measure, value: str, count: str, most: int, bits: int) -> str:
    match measure:
        case CountMeasure(per_unit=ends):
            if ends is None:
                return f"CAST(least({value}, {most}) AS BIGINT)"
            whole = f"greatest({_big(ends[0])}, least({_big(ends[1])}, {value}))"
            return _narrow(whole, max(map(abs, ends)))
        case PresenceMeasure(weight=weight, most=groups) if weight:
            parts = [str(Divided(weight, measure.evenly).part(m)) for m in range(1, groups + 1)]
            return f"CAST(list_extract([{', '.join(parts)}], least({GROUPS}, {groups})) AS BIGINT)"
        case PresenceMeasure():
            return f"CASE WHEN {value} > 0 THEN 1 ELSE 0 END"
        case SumMeasure():
            low, high = measure.ends
            low, high = measure.per_unit or (most * min(low, 0), most * max(high, 0))
            whole = f"greatest({_big(low)}, least({_big(high)}, {value}))"
            return _narrow(whole, max(abs(low), abs(high)))
        case MomentMeasure() | PairMeasure():
            cut = f"{value} * {_big(most << bits)} // {count}"
            whole = value if bits == 0 else f"{value} * {_big(1 << bits)}"
            text = f"CASE WHEN {count} > {most} THEN {cut} ELSE {whole} END"
            return _narrow(text, measure.total * most << bits)
        case NormMeasure():
            raise InternalError("a vector is bounded as a whole")
        case _:
            assert_never(measure)


def _narrow(text: str, most: int) -> str:
    """Return the text as a BIGINT where every value fits one: sums of BIGINT can't overflow."""
    if most <= _FITS:
        return f"CAST({text} AS BIGINT)"
    if most > _SAFE:
        raise _too_wide()
    return f"CAST({text} AS HUGEINT)"


def _too_wide() -> UnsupportedSQLError:
    return UnsupportedSQLError(
        "the bounds of this aggregate are so wide that its sums could overflow.",
        hint="declare narrower bounds, or CLAMP(…, low, high) in the query",
    )


def _big(number: int) -> str:
    return f"CAST({number} AS HUGEINT)"


def _pair_columns(relation: Relation) -> list[str]:
    """Return the names of what a relation of (unit, group) pairs holds before rows are bounded."""
    measured = measured_rows(relation)
    count = name(_sums(relation).count)
    sums = _accumulated(measured, count).values()
    return ["u", *(name(k) for k in measured.keys), count, *sums]


def group_order(relation: BoundGroups, count: int | None = None) -> str:
    """Return the order in which a unit's groups are kept: by a keyed hash, then by the keys.

    count: of the first so many key columns, where the others don't make groups.
    """
    keys = [name(k) for k in measured_rows(relation).keys[:count]]
    return ", ".join([_hash(relation, keys), *keys])


def _hash(relation: BoundGroups, keys: list[str]) -> str:
    return f"hash({', '.join(['u', *keys])}, {_big(relation.hash_key)})"


def _pairs(relation: Relation) -> str:
    """Return a FROM item, with a WHERE, of the (unit, group) pairs that stay.

    Where a measure spreads a unit's weight over its groups, with the number of these.
    """
    weighed = any(
        isinstance(m, PresenceMeasure) and m.weight for m in measured_rows(relation).measures
    )
    if weighed:
        return (
            f"(SELECT *, count(*) OVER (PARTITION BY u) AS {GROUPS} FROM {_few(relation)}) AS all_"
        )
    return _few(relation)


def _few(relation: Relation) -> str:
    """Return a FROM item, with a WHERE, of the (unit, group) pairs within the limit of groups.

    Claim:   of each unit at most `max_groups` pairs stay, and which ones depends on its own rows and
             the hash key alone; they are among the first ones of `group_order`.
    Why:     those stay whose hash is below the one at place max_groups + 1 of the unit's sorted hashes:
             as many as that place has before it, at most. Pairs of one hash stand in any order, but
             the hash at a place is the same in each of them.
    Assumes: hash(…) is never NULL, and gives equal values the same number.
    Source:  SQL's window functions

    Where hashes of 64 bits tie at that place, fewer pairs stay than the limit has room for. That way
    the keys needn't be sorted by: a sort key of a text has no fixed width and took a third of the time.
    A pair holds 8 bytes more for its hash.
    """
    if not isinstance(relation, BoundGroups):
        return f"({lower_relation(relation)}) AS pairs_"
    keys = [name(k) for k in measured_rows(relation).keys]
    return (
        f"(SELECT *, nth_value(hash_, {relation.max_groups + 1}) OVER (PARTITION BY u ORDER BY hash_ "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS beyond_ "
        f"FROM (SELECT *, {_hash(relation, keys)} AS hash_ FROM ({lower_relation(relation.source)}) "
        "AS pairs_) AS hashed_) AS ranked_ WHERE (beyond_ IS NULL OR hash_ < beyond_)"
    )
