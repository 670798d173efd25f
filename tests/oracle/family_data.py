"""Random databases of several tables, and their neighbours from the definition of ownership.

D without u lacks u's rows in the tables that hold the privacy key, and every row of a table owned
through a key that was reached and that no remaining row reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from oracle.family_schema import COLUMNS, KEYS, OWNED, TAME, THROUGH, WILD
from oracle.small_engine import Row
from oracle.statements import pick

Database = dict[str, tuple[Row, ...]]
"""Rows by table."""

Near = tuple[Database, frozenset[int]]
"""A neighbour, and the owners whose rows may differ."""

FRESH = 40
"""Keys from here on are taken once, so that new orders reach new lines only."""


def value(r: Random, column: str, *, tame: bool) -> object:
    pool = TAME[column]
    if not tame and r.random() < 0.15 and WILD[column]:
        return pick(r, WILD[column])
    return pool[min(r.randrange(len(pool)), r.randrange(len(pool)))]


def row(r: Random, table: str, keys: dict[str, object], *, tame: bool = False) -> Row:
    """Return a random row; `keys`: values of its key columns where they are given."""
    found: list[object] = []
    for column in COLUMNS[table]:
        if column.name in keys:
            found.append(keys[column.name])
        elif column.name in KEYS:
            found.append(pick(r, KEYS[column.name]))
        else:
            found.append(value(r, column.name, tame=tame))
    return tuple(found)


def some(r: Random, most: int) -> int:
    """Return a number of rows: 0 to `most`, seldom none."""
    return max(r.randrange(most + 1), r.randrange(most + 1))


def database(r: Random) -> Database:
    """Return one to four persons with shared and dangling keys, and rows without an owner."""
    found: dict[str, list[Row]] = {table: [] for table in COLUMNS}
    people: list[int | None] = list(range(1, 2 + r.randrange(4)))
    for owner in [*people, None] if r.random() < 0.4 else people:
        for table, most in (("visits", 3), ("persons", 1), ("orders", 2)):
            count = some(r, most) + (r.random() < 0.1)
            found[table] += [row(r, table, {"uid": owner}) for _ in range(count)]
        if found["visits"] and r.random() < 0.2:
            found["visits"].append(found["visits"][-1])
    found["lines"] = [row(r, "lines", {}) for _ in range(some(r, 5))]
    found["marks"] = [row(r, "marks", {}) for _ in range(some(r, 4))]
    return {table: tuple(rows) for table, rows in found.items()}


def owners(data: Database) -> list[int]:
    """Return the persons in the data."""
    return sorted(
        {u for table in OWNED for (u, *_) in data[table] if isinstance(u, int)},
    )


def without(data: Database, owner: int, r: Random | None = None) -> Database:
    """Return the data without a person.

    r: where given, rows that belonged to nobody before come and go too: nothing may depend on them.
    """
    left = {t: tuple(x for x in rows if x[0] != owner) for t, rows in data.items() if t in OWNED}
    for table in THROUGH:
        kept = []
        for x in data[table]:
            before, after = reached(table, x, data), reached(table, x, left)
            if after or (not before and (r is None or r.random() < 0.7)):
                kept.append(x)
        left[table] = tuple(kept)
    return left


def reached(table: str, x: Row, data: Database) -> bool:
    """Return whether a row of a table owned through a key is reached by some row of its parent."""
    link, columns = THROUGH[table]
    names = [c.name for c in columns]
    mine = [x[names.index(child)] for child, _ in link.pairs]
    if None in mine:
        return False
    parents = [c.name for c in COLUMNS[link.table]]
    places = [parents.index(parent) for _, parent in link.pairs]
    return any([y[p] for p in places] == mine for y in data[link.table])


def with_person(r: Random, data: Database, owner: int) -> Database:
    """Return the data with one person more, so that `without` gives back the data.

    The new orders may share keys of other orders; new lines and marks hang on keys of their own.
    """
    found = {table: list(rows) for table, rows in data.items()}
    for table, most in (("visits", 3), ("persons", 1)):
        found[table] += [row(r, table, {"uid": owner}) for _ in range(some(r, most))]
    for _ in range(some(r, 2)):
        new = r.random() < 0.6
        key = FRESH + r.randrange(10**6) if new else pick(r, KEYS["ok"])
        found["orders"].append(row(r, "orders", {"uid": owner, "ok": key}))
        if new:
            found["lines"] += [row(r, "lines", {"ok": key}) for _ in range(some(r, 2))]
            found["marks"] += [row(r, "marks", {"ok": key}) for _ in range(some(r, 2))]
    return {table: tuple(rows) for table, rows in found.items()}


def neighbours(r: Random, data: Database, *, substitution: bool, group_size: int) -> Iterator[Near]:
    """Yield data sets at a distance of 1 to `group_size`, with the owners that changed."""
    for owner in owners(data):
        near: Near = (data, frozenset())
        target = owner
        for _ in range(group_size):
            near = _step(r, near, target, substitution=substitution)
            yield near
            left = owners(near[0])
            if not left:
                break
            target = pick(r, left)


def _step(r: Random, near: Near, owner: int, *, substitution: bool) -> Near:
    data, changed = near
    rest = without(data, owner, r if r.random() < 0.3 else None)
    if not substitution:
        return rest, changed | {owner}
    fresh = owner if r.random() < 0.5 else 10 + len(changed)
    return with_person(r, rest, fresh), changed | {owner, fresh}


def tame_database(r: Random, people: int) -> Database:
    """Return data that keep every promise: one owner a row, unique keys, bounds.

    Within a person no two rows of a table have one day, so that orders by day have no ties. Everyone
    has a twin, who differs in the owner and the order keys alone, so that no group has one person.
    """
    found: dict[str, list[Row]] = {table: [] for table in COLUMNS}
    for owner in range(1, people + 1):
        found["persons"].append(row(r, "persons", {"uid": owner}, tame=True))
        for table, day in (("visits", "d"), ("orders", "day")):
            for index, moment in enumerate(r.sample(TAME[day], r.randrange(4))):
                keys = {"uid": owner, day: moment, "i": index, "ok": len(found["orders"]) + 1}
                found[table].append(row(r, table, keys, tame=True))
    for order in found["orders"]:
        for lk in range(1, 1 + r.randrange(3)):
            keys = {"ok": order[1], "lk": lk}
            found["lines"].append(row(r, "lines", keys, tame=True))
            found["marks"] += [row(r, "marks", keys, tame=True) for _ in range(r.randrange(3))]
    return {table: (*rows, *(_twin(table, x) for x in rows)) for table, rows in found.items()}


def _twin(table: str, x: Row) -> Row:
    return tuple(
        value + 1000 if column.name in ("uid", "ok") and isinstance(value, int) else value
        for column, value in zip(COLUMNS[table], x, strict=True)
    )
