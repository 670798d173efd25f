"""The oracle on aggregates over random blocks, where units reach what they can: few values, small limits.

As in `test_oracle`, nothing is known here of how the analysis derives its numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from random import Random

import pytest
from oracle import small_engine
from oracle.judge import compare_sampled
from oracle.neighbours import Database, Unit, neighbours, rows_of, unit
from oracle.small_engine import SmallEngine
from oracle.small_schema import COLUMNS, PUBLIC, small_catalog
from oracle.statements import pick

from dp_sql.executor import lower_rows, lower_sampled
from dp_sql.parser.statement import parse
from dp_sql.plan.relation import SumMeasure
from dp_sql.plan.sampled import Sampled
from dp_sql.planner.sets import plan_sets
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import Catalog
from dp_sql.sensitivity import delta, histogram
from dp_sql.sensitivity.contribution import derive

COUNTS: Counter[str] = Counter()
MOST_NEIGHBOURS = 4
CALLS = (
    "SAMPLE_AND_AGGREGATE('max', x, 0, 1, 1)",
    "SAMPLE_AND_AGGREGATE('count', x, 1, 2, 2)",
    "SAMPLE_AND_AGGREGATE('count', x, 1, 2, 7)",
    "SAMPLE_AND_AGGREGATE('median', x, 0, 1, 1)",
    "SAMPLE_AND_AGGREGATE('sum', x, -1, 2, 3)",
)
ROWS = ("visits", "(SELECT v.x, v.t FROM visits v JOIN visits w ON v.uid = w.uid)")
FAN = "(SELECT v.x, v.t, h.half FROM visits v JOIN pairs h ON v.n = h.n)"
COPIES = "(SELECT x, t, s AS half FROM visits UNION ALL SELECT x, 'k2', 'b' FROM visits)"
FANNED = ("(SELECT x, t, s AS half FROM visits)", FAN, COPIES, f"({FAN} UNION ALL {COPIES})")
KEYS = ("t", "half", "half, t")


class Engine(SmallEngine):
    """Knows that a row finds at most two pairs."""

    def frequency(self, table: str, columns: tuple[str, ...]) -> int | None:
        return 2 if (table, columns) == ("pairs", ("n",)) else super().frequency(table, columns)


@cache
def engine() -> Engine:
    return Engine(small_catalog(), {name: rows for name, (_, rows) in PUBLIC.items()})


def plain(r: Random, data: Database, *, user: bool) -> Database:
    """Return the units with few values of x, one after the other t, and an n that has two pairs.

    At user level each has two rows or three.
    """
    found: Database = {}
    for identity, rows in data.items():
        values = pick(r, ((-3, 5), (-3, 5), (-3, 5), (5, 5), (-3, None)))
        found[identity] = tuple(
            (row[0], values[i % 2], 0, *row[3:9], ("k1", "k2")[i % 2], row[10])
            for i, row in enumerate((*rows, *rows)[: max(2, len(rows))] if user else rows)
        )
    return found


def examine(r: Random) -> None:
    """Hold one statement over few units against all neighbours."""
    user = r.random() < 0.6
    adjacency = pick(r, (Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION))
    size = pick(r, (1, 1, 2))
    catalog = small_catalog(
        Level.USER if user else Level.EVENT, adjacency, group_size=size, max_groups=pick(r, (1, 2))
    )
    sql = f"SELECT {pick(r, CALLS)} AS a FROM {pick(r, ROWS if user else FANNED)}"
    if r.random() < 0.6:
        sql += f" GROUP BY {'t' if user else pick(r, KEYS)}"
    data = plain(r, {i: unit(r, i, user=user) for i in range(1, 2 + r.randrange(3))}, user=user)
    found = list(
        neighbours(
            r, data, user=user, substitution=adjacency is Adjacency.SUBSTITUTION, group_size=size
        )
    )
    near = r.sample(found, min(len(found), MOST_NEIGHBOURS))
    others = [  # units that stay have the rows that they have
        {
            i: rows if data.get(i) == rows else plain(r, {i: rows}, user=user)[i]
            for i, rows in other.items()
        }
        for other in near
    ]
    hold(sql, catalog, data, others, r.getrandbits(63))


def hold(
    sql: str, catalog: Catalog, data: Database, others: Sequence[Database], hash_key: int
) -> None:
    """Hold a statement's blocks by one key against those of other databases."""
    (release,) = parse(sql, catalog).releases
    (plan,) = plan_sets(release, catalog, engine(), Fraction(1))
    plan = replace(plan, sampled=tuple(replace(s, hash_key=hash_key) for s in plan.sampled))
    fact = derive(plan, catalog.unit, engine())
    engine().stage("visits", [rows_of(d) for d in (data, *others)])
    engine().use("visits", 0)
    before = engine().sampled(plan)
    for part, other in enumerate(others, start=1):
        engine().use("visits", part)
        told = partial("{}\n{}\nD : {}\nD': {}".format, sql, catalog.unit, data, other)
        compare_sampled(plan, fact, before, engine().sampled(plan), told, COUNTS)


def search() -> None:
    for index in range(20):
        examine(Random(f"few-{index}"))


def person(owner: int, *values: tuple[int, str]) -> Unit:
    """Return a person's rows: their x and t."""
    some = {"uid": owner, "n": 0, "s": "a"}
    return tuple(tuple((some | {"x": x, "t": t}).get(c.name) for c in COLUMNS) for x, t in values)


def two_alike(call: str, group: str = "") -> None:
    """Hold two persons with the same rows against one of them."""
    both = {owner: person(owner, (-3, "k1"), (5, "k2")) for owner in (1, 2)}
    for hash_key in range(20):
        sql = f"SELECT {call} AS a FROM visits{group}"
        hold(sql, small_catalog(), both, [{1: both[1]}], hash_key)


def exchanged() -> None:
    """Hold a person against another one, where one leaves a block and one enters one."""
    sql = "SELECT SAMPLE_AND_AGGREGATE('avg', x, 0, 1, 2) AS a FROM visits"
    rest = {2: person(2, (-3, "k1")), 3: person(3, (5, "k1"))}
    before, after = ({i: person(i, (x, "k1"))} for i, x in ((1, 100), (11, -100)))
    for hash_key in range(40):
        catalog = small_catalog(adjacency=Adjacency.SUBSTITUTION)
        hold(sql, catalog, rest | before, [rest | after], hash_key)


def joined_twice() -> None:
    """Hold two rows alike that have two pairs each against one of them."""
    sql = f"SELECT SAMPLE_AND_AGGREGATE('count', x, 1, 2, 7) AS a FROM {FAN}"
    both = {1: person(1, (5, "k1")), 2: person(1, (5, "k1"))}
    for hash_key in range(20):
        hold(sql, small_catalog(Level.EVENT), both, [{1: both[1]}], hash_key)


def in_groups(rows: str, keys: str, unit: PrivacyUnit) -> None:
    """Hold units of one row each, which joins and UNION ALL repeat, against others or fewer.

    Each is the largest of its block in all of its groups, so all of these blocks move.
    """
    sql = f"SELECT {keys}, SAMPLE_AND_AGGREGATE('max', x, 0, 1, 1) AS a FROM {rows} GROUP BY {keys}"
    catalog = small_catalog(Level.EVENT, unit.adjacency, group_size=unit.group_size)
    rest = {9 + i: person(9 + i, (-3, f"k{i}")) for i in range(4)}
    replaced = unit.adjacency is Adjacency.SUBSTITUTION
    old, new = ({i: person(i, (5, f"k{at + i}")) for i in range(unit.group_size)} for at in (0, 2))
    hold(sql, catalog, rest | old, [rest | new if replaced else rest], 5)


def spread_out() -> None:
    """Repeat rows into several groups, public and private ones."""
    for rows, keys in ((FAN, "half"), (FAN, "half, t"), (COPIES, "t"), (FANNED[3], "half, t")):
        for adjacency in (Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION):
            for size in (1, 2):
                in_groups(rows, keys, PrivacyUnit(Level.EVENT, adjacency, size))


def by_group() -> None:
    two_alike("SAMPLE_AND_AGGREGATE('count', x, 1, 2, 1)", " GROUP BY t")


def by_none() -> None:
    two_alike("SAMPLE_AND_AGGREGATE('count', x, 1, 2, 2)")


def test_no_neighbour_moves_blocks_further_than_derived() -> None:
    COUNTS.clear()
    search()
    by_group()
    by_none()
    exchanged()
    joined_twice()
    spread_out()
    assert COUNTS["sampled"] >= 130
    assert COUNTS["blocks reached"] >= 30


_SAMPLED_SQL = small_engine.sampled_sql


def _unclamped(measure: SumMeasure, _: object) -> str:
    steps = f"CAST(result_ AS DOUBLE) / {float(measure.step)}"
    return f"CAST(greatest(-1e9, least(1e9, {steps})) AS BIGINT)"


def _by_value(sampled: Sampled) -> str:
    by_owner, by_value = "hash(hash(u,", f"hash(hash({lower_rows.name(sampled.value)},"
    return _SAMPLED_SQL(sampled).replace(by_owner, by_value)


MUTANTS: dict[str, tuple[Callable[[], None], object, str, Callable[..., object]]] = {
    "a block's result not clamped": (search, lower_sampled, "grid", _unclamped),
    "blocks of rows, not of units": (by_none, small_engine, "sampled_sql", _by_value),
    "groups not bounded": (by_group, lower_sampled, "group_order", lambda *_: "u"),
    "both of two units in one block": (
        exchanged, histogram, "blocks_moved",
        lambda width, blocks, pieces, most, cells, unit: delta.blocks_moved(
            width, blocks, pieces, most, cells, replace(unit, adjacency=Adjacency.ADD_REMOVE)
        ),
    ),
    "a row that is joined twice lies in one block": (
        joined_twice, histogram, "bounded_rows", lambda *_: 1,
    ),
    "all copies of a row in one group": (
        spread_out, histogram, "blocks_moved",
        lambda width, blocks, pieces, most, _, unit: delta.blocks_moved(
            width, blocks, pieces, most, 1, unit
        ),
    ),
    "as many units in a group as in one": (
        spread_out, histogram, "blocks_moved",
        lambda width, blocks, pieces, most, cells, unit: delta.blocks_moved(
            width, blocks, pieces, most, cells, replace(unit, group_size=1)
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_finds_a_wrong_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    examine, *mutant = MUTANTS[name]
    monkeypatch.setattr(*mutant)
    with pytest.raises(AssertionError):
        examine()
