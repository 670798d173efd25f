"""Neighbours that keep the rows: protected columns that become NULL, places that move."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_FLOOR, Decimal
from fractions import Fraction
from random import Random

import numpy as np
from oracle import family_data, family_schema
from oracle.family_data import Near
from oracle.neighbours import NOBODY, Database
from oracle.small_engine import Row
from oracle.small_schema import COLUMNS, POOLS
from oracle.statements import pick

from dp_sql.privacy.unit import Adjacency, Named
from dp_sql.schema.catalog import Catalog, OwnerThrough

METRES = Fraction("110574.2758")
"""Of a degree of latitude at the equator of WGS 84, where it is shortest, from a table."""


def zeroing(catalog: Catalog, kept: frozenset[Named]) -> Catalog:
    """Return a catalog of add_remove under zero_out, where these columns and all owners' keys stay."""
    found = set(kept)
    for name, spec in catalog.tables.items():
        match spec.owner:
            case str(owner):
                found.add((name, owner))
            case OwnerThrough(table=parent, pairs=pairs):
                found |= {(name, child) for child, _ in pairs}
                found |= {(parent, column) for _, column in pairs}
            case None:
                pass
    unit = replace(catalog.unit, adjacency=Adjacency.ZERO_OUT, kept=frozenset(found))
    return replace(catalog, unit=unit)


def some_columns(r: Random, catalog: Catalog, share: float) -> frozenset[Named]:
    """Return random columns of the protected tables."""
    return frozenset(
        (name, column)
        for name, spec in sorted(catalog.tables.items())
        if not spec.public
        for column in spec.columns
        if r.random() < share
    )


def zeroed(
    r: Random, database: Database, kept: frozenset[Named], *, group_size: int
) -> Iterator[Database]:
    """Yield data sets in which up to `group_size` units of `visits` have other protected values.

    Half of them are NULLs, as the definition has it. The others are any values: a unit that has them
    and one that has NULLs are neighbours, so what is free may depend on neither.
    """
    names = [c.name for c in COLUMNS]
    units = [i for i in database if i != NOBODY]
    for identity in units:
        near, null = database, r.random() < 0.5
        for unit in [identity, *r.sample(units, len(units))][:group_size]:
            near = near | {
                unit: tuple(
                    tuple(
                        value
                        if ("visits", name) in kept
                        else None
                        if null or name not in POOLS
                        else pick(r, POOLS[name])
                        for name, value in zip(names, row, strict=True)
                    )
                    for row in near[unit]
                )
            }
            yield near


def zeroed_family(
    r: Random, data: family_data.Database, kept: frozenset[Named], *, group_size: int
) -> Iterator[Near]:
    """Yield data sets in which up to `group_size` persons' protected columns are NULL or have others.

    A row owned through a key is a person's if it would go with the person.
    """
    people = family_data.owners(data)
    for person in people:
        near, changed = data, frozenset[int]()
        null = r.random() < 0.5
        for owner in [person, *r.sample(people, len(people))][:group_size]:
            left = family_data.without(near, owner)
            near = {
                table: tuple(
                    _other(r, table, x, kept, null=null)
                    if _belongs(table, x, owner, near, left)
                    else x
                    for x in rows
                )
                for table, rows in near.items()
            }
            changed |= {owner}
            yield near, changed


def _belongs(
    table: str, x: Row, owner: int, data: family_data.Database, left: family_data.Database
) -> bool:
    if table in family_schema.OWNED:
        return x[0] == owner
    return family_data.reached(table, x, data) and not family_data.reached(table, x, left)


def _other(r: Random, table: str, x: Row, kept: frozenset[Named], *, null: bool) -> Row:
    fresh = family_data.row(r, table, {"uid": None})
    return tuple(
        value if (table, column.name) in kept else None if null else other
        for column, value, other in zip(family_schema.COLUMNS[table], x, fresh, strict=True)
    )


def is_place(latitude: object, longitude: object) -> bool:
    """Return whether a row has a place: a longitude, and a latitude of at most 90 degrees."""
    if longitude is None or not isinstance(latitude, int | float | Decimal):
        return False
    return not math.isnan(latitude) and abs(latitude) <= 90


def moved(
    r: Random, rows: Sequence[Row], radius: Fraction, *, group_size: int, single: bool = False
) -> Iterator[list[Row]]:
    """Yield rows of which up to `group_size` have moved by at most `radius` metres.

    The first column is the latitude, the second the longitude. The way goes along a meridian; the
    longitude takes any value, as it may near a pole. single: latitudes are FLOAT.
    """
    for first in range(len(rows)):
        near = list(rows)
        for place in [first, *r.sample(range(len(rows)), len(rows))][:group_size]:
            latitude, longitude, *rest = near[place]
            if is_place(latitude, longitude) and near[place] == rows[place]:
                other = pick(r, (longitude, -180.0, 0.0, 12.5, 180.0))
                near[place] = (_shifted(r, latitude, radius, single=single), other, *rest)
                yield list(near)


def _shifted(r: Random, latitude: object, radius: Fraction, *, single: bool) -> object:
    """Return a latitude of the same type, at most `radius` away, most times just so far."""
    way = radius / METRES * pick(r, (1, -1, 1, -1, Fraction(1, 2), Fraction(-1, 3)))
    match latitude:
        case Decimal():
            start = Fraction(latitude)
            aim = max(Fraction(-90), min(Fraction(90), start + way))
            step = Fraction(1, 10**5)
            steps = math.floor(aim / step) if way > 0 else math.ceil(aim / step)
            return Decimal(steps).scaleb(-5)
        case int():
            steps = math.floor(way) if way > 0 else math.ceil(way)
            return max(-90, min(90, latitude + steps))
        case float():
            aim = max(Fraction(-90), min(Fraction(90), Fraction(latitude) + way))
            near = float(np.float32(float(aim)) if single else float(aim))
            while abs(Fraction(near) - Fraction(latitude)) > abs(way):
                near = _next(near, latitude, single=single)
            return near
        case _:
            raise AssertionError(latitude)


def _next(value: float, towards: float, *, single: bool) -> float:
    if single:
        return float(np.nextafter(np.float32(value), np.float32(towards)))
    return math.nextafter(value, towards)


def tie(step: Fraction, number: int, *, below: bool) -> float:
    """Return the float nearest to (number + 1/2) * step, on one side of it or on it."""
    middle = float((number + Fraction(1, 2)) * step)
    return math.nextafter(middle, -math.inf) if below else middle


def quantized(latitude: float) -> Decimal:
    """Return a latitude as DECIMAL(8,5)."""
    rounding = ROUND_DOWN if latitude > 0 else ROUND_FLOOR
    return Decimal(repr(latitude)).quantize(Decimal("0.00001"), rounding)
