"""Random small databases and their neighbours, from the definition of adjacency and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from oracle.small_engine import Row
from oracle.small_schema import POOLS
from oracle.statements import pick

Unit = tuple[Row, ...]
"""The rows of one unit: one row at event level, all rows of an owner at user level."""

Database = dict[int, Unit]
"""Units by an identity of ours; at user level that is the owner."""

NOBODY = -1
"""The identity of rows without an owner: they belong to no unit and never change."""


def row(r: Random, owner: int | None, like: Row | None = None) -> Row:
    """Return a random row; `like`: one from which most of its values are taken."""
    values: list[object] = [owner]
    for place, pool in enumerate(POOLS.values(), start=1):
        if like is not None and r.random() < 0.7:
            values.append(like[place])
        else:
            values.append(pool[min(r.randrange(len(pool)), r.randrange(len(pool)))])
    return tuple(values)


def unit(r: Random, identity: int, *, user: bool, most: int = 3) -> Unit:
    """Return the rows of a random unit: at user level one to `most`, alike now and then."""
    owner = identity if user else pick(r, (1, 2, None, identity))
    rows = [row(r, owner)]
    while user and len(rows) < most and r.random() < 0.6:
        like = rows[0]
        rows.append(like if r.random() < 0.2 else row(r, owner, pick(r, (None, like, like))))
    return tuple(rows)


def database(r: Random, *, user: bool) -> Database:
    """Return one to four units, and rows without an owner now and then."""
    found: Database = {i: unit(r, i, user=user) for i in range(1, 2 + r.randrange(4))}
    if user and r.random() < 0.3:
        found[NOBODY] = (row(r, None), row(r, None))
    return found


def rows_of(database: Database) -> list[Row]:
    return [row for rows in database.values() for row in rows]


def neighbours(
    r: Random, database: Database, *, user: bool, substitution: bool, group_size: int
) -> Iterator[Database]:
    """Yield data sets at a distance of 1 to `group_size`."""
    units = [i for i in database if i != NOBODY]
    for identity in units:
        near = list(_changed(r, database, identity, user=user, substitution=substitution))
        yield from near
        for _ in range(group_size - 1):
            near = [_again(r, d, user=user, substitution=substitution) for d in near]
            yield from near
    if not substitution:
        for _ in range(2):
            yield _added(r, database, user=user)


def _changed(
    r: Random, database: Database, identity: int, *, user: bool, substitution: bool
) -> Iterator[Database]:
    rest = {i: rows for i, rows in database.items() if i != identity}
    if not substitution:
        yield rest
        return
    for _ in range(2):
        yield rest | {_fresh(database): unit(r, _fresh(database), user=user)}
    yield rest | {identity: unit(r, identity, user=user)}


def _again(r: Random, database: Database, *, user: bool, substitution: bool) -> Database:
    units = [i for i in database if i != NOBODY]
    if not substitution and (not units or r.random() < 0.4):
        return _added(r, database, user=user)
    options = list(_changed(r, database, pick(r, units), user=user, substitution=substitution))
    return pick(r, options)


def _added(r: Random, database: Database, *, user: bool) -> Database:
    return database | {_fresh(database): unit(r, _fresh(database), user=user)}


def _fresh(database: Database) -> int:
    return max([10, *database]) + 1
