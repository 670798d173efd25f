"""Witnesses over several tables: a pair of neighbours that moves the answer as far as the rule says.

The numbers are computed by hand from SENSITIVITY.md; a rule that is looser or tighter fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from random import Random

import pytest
from oracle.family_data import Database, without
from oracle.family_engine import FamilyEngine
from oracle.family_schema import COLUMNS, family_catalog
from oracle.judge import shifts
from oracle.kept import zeroing
from oracle.small_engine import Row, split

from dp_sql.executor import lower_relation
from dp_sql.parser.statement import parse
from dp_sql.planner.plan import plan_release
from dp_sql.privacy.unit import Adjacency
from dp_sql.sensitivity.contribution import derive

ADD, SWAP = Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION


def rows(table: str, times: int = 1, **values: object) -> Database:
    """Return a database with one row, so many times; what isn't named is NULL."""
    names = [column.name for column in COLUMNS[table]]
    assert not set(values) - set(names)
    row: Row = tuple(values.get(name) for name in names)
    return {t: (row,) * times if t == table else () for t in COLUMNS}


def both(*parts: Database) -> Database:
    return {table: tuple(row for part in parts for row in part[table]) for table in COLUMNS}


def v(uid: int = 1, times: int = 1, **values: object) -> Database:
    return rows("visits", times, uid=uid, **values)


def p(uid: int = 1, times: int = 1, **values: object) -> Database:
    return rows("persons", times, uid=uid, **values)


def o(uid: int = 1, times: int = 1, **values: object) -> Database:
    return rows("orders", times, uid=uid, **values)


@dataclass(frozen=True)
class Witness:
    """A statement, data, and how far their neighbour is, as the rule says: L1 and L2 squared.

    after: the neighbour; where it isn't given, the data without person 1.
    """

    sql: str
    data: Database
    l1: int
    l2_squared: int
    after: Database | None = None
    adjacency: Adjacency = ADD
    groups: int = 1
    rows: int = 1
    group_size: int = 1


TWO = both(o(1, ok=1), o(2, ok=1), rows("lines", 9, ok=1, lk=1, qty=3))
KEPT = both(TWO, rows("marks", 9, ok=1, lk=1, mark=2))
FIRST_ROWS = (
    "(SELECT uid, x FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY uid ORDER BY x) <= {})"
)
VISITS_AND_PERSONS = "visits AS v JOIN persons AS p ON v.uid = p.uid"

WITNESSES = [
    # joins on the owner
    Witness(f"SELECT COUNT(*) FROM {VISITS_AND_PERSONS}", both(v(1, 2), p(1, 2)), 3, 9, rows=3),
    Witness(f"SELECT SUM(v.x * p.age) FROM {VISITS_AND_PERSONS}",
            both(v(1, 2, x=5), p(1, 2, age=4)), 60, 3600, rows=3),
    Witness("SELECT COUNT(*) FROM visits AS v LEFT JOIN persons AS p ON v.uid = p.uid",
            v(1, 9), 3, 9, rows=3),
    Witness("SELECT COUNT(*) FROM visits AS v FULL JOIN persons AS p ON v.uid = p.uid",
            p(1, 9), 3, 9, rows=3),
    Witness(f"SELECT a.x, b.x, COUNT(*) FROM {FIRST_ROWS.format(3)} AS a FULL JOIN "
            f"{FIRST_ROWS.format(3)} AS b ON a.uid = b.uid GROUP BY a.x, b.x",
            both(v(1, x=1), v(1, x=2), v(1, x=3)), 9, 9, groups=20),
    Witness(f"SELECT a.x, b.x, COUNT(COALESCE(a.x, b.x)) FROM {FIRST_ROWS.format(1)} AS a FULL JOIN "
            f"{FIRST_ROWS.format(3)} AS b ON a.uid = b.uid AND a.x > b.x GROUP BY a.x, b.x",
            both(v(1, x=1), v(1, x=2), v(1, x=3)), 4, 4, groups=20),
    Witness("SELECT COUNT(*) FROM visits AS v ANTI JOIN orders AS o ON v.uid = o.uid",
            v(1, 9), 3, 9, rows=3),
    Witness("SELECT COUNT(*) FROM visits AS v SEMI JOIN orders AS o ON v.uid = o.uid",
            both(v(1, 9), o(1)), 3, 9, v(1, 9), adjacency=SWAP, rows=3),
    Witness("SELECT COUNT(*) FROM visits AS a JOIN visits AS b ON a.uid = b.uid",
            both(v(1, 2), v(2, 2)), 6, 36, both(), rows=3, group_size=2),
    Witness(f"SELECT p.sex, COUNT(*) FROM {VISITS_AND_PERSONS} GROUP BY p.sex",
            both(v(1, 3), p(1, sex="a"), p(1, sex="b")), 6, 18, groups=2, rows=3),
    # one row a person
    Witness("SELECT COUNT(*) FROM (SELECT uid, SUM(x) AS t FROM visits GROUP BY uid) AS q",
            v(1, 9), 1, 1, rows=3),
    Witness("SELECT SUM(CLAMP(t, -3, 7)) FROM (SELECT uid, SUM(x) AS t FROM visits GROUP BY uid) AS q",
            v(1, 9, x=5), 7, 49, rows=3),
    Witness("SELECT SUM(CLAMP(t, -3, 7)) FROM (SELECT uid, SUM(x) AS t FROM visits GROUP BY uid) AS q",
            v(1, 9, x=5), 10, 100, v(1, 9, x=-3), adjacency=SWAP, rows=3),
    Witness("SELECT COUNT(*) FROM (SELECT uid FROM visits GROUP BY uid HAVING COUNT(*) > 1) AS q",
            v(1, 9), 1, 1, rows=3),
    Witness("SELECT SUM(m) FROM (SELECT uid, MAX(x) AS m FROM visits GROUP BY uid) AS q",
            v(1, 9, x=5), 5, 25, rows=3),
    Witness("SELECT b, COUNT(*) FROM (SELECT uid, MAX(x) > 2 AS b FROM visits GROUP BY uid) AS q "
            "GROUP BY b", v(1, 9, x=5), 1, 1, groups=3, rows=3),
    Witness("SELECT COUNT(*) FROM (SELECT uid, i, COUNT(*) AS c FROM visits GROUP BY uid, i) AS q",
            both(v(1, 9, i=1), v(1, 9, i=2), v(1, i=3), v(1, i=4)), 3, 9, rows=3),
    # windows, distinct, subqueries, set operations
    Witness("SELECT SUM(CLAMP(w, 0, 5)) FROM (SELECT uid, ROW_NUMBER() OVER (PARTITION BY uid "
            "ORDER BY d) AS w FROM visits) AS q", v(1, 9), 25, 625, rows=5),
    Witness("SELECT COUNT(*) FROM (SELECT uid FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY uid "
            "ORDER BY d) <= 2) AS q", v(1, 9), 2, 4, rows=5),
    Witness("SELECT COUNT(*) FROM (SELECT uid FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY uid, s "
            "ORDER BY d) <= 2) AS q", both(v(1, 3, s="a"), v(1, 3, s="b")), 3, 9, rows=3),
    Witness("SELECT COUNT(*) FROM (SELECT uid FROM visits GROUP BY uid) AS u, LATERAL (SELECT v.x FROM "
            "visits AS v WHERE v.uid = u.uid ORDER BY v.x DESC LIMIT 2) AS t", v(1, 9, x=5), 2, 4, rows=5),
    Witness("SELECT COUNT(*) FROM (SELECT DISTINCT uid, x FROM visits) AS q",
            both(v(1, 9, x=1), v(1, 9, x=2), v(1, 9, x=3)), 3, 9, rows=3),
    Witness("SELECT COUNT(*) FROM visits AS v WHERE EXISTS (SELECT 1 FROM orders AS o "
            "WHERE o.uid = v.uid AND o.total > v.x)",
            both(v(1, 9, x=1), o(1, total=2)), 3, 9, v(1, 9, x=1), adjacency=SWAP, rows=3),
    Witness("SELECT COUNT(*) FROM (SELECT uid, x FROM visits UNION ALL SELECT uid, total FROM orders) AS q",
            both(v(1, 2), o(1, 2)), 3, 9, rows=3),
    Witness("SELECT COUNT(*) FROM (SELECT x FROM visits UNION ALL SELECT total FROM orders) AS q",
            both(v(1, 2), o(1, 2)), 3, 9, rows=3),
    # owned through keys
    Witness("SELECT COUNT(*) FROM lines", both(o(1, ok=1), rows("lines", 9, ok=1)), 3, 9, rows=3),
    Witness("SELECT COUNT(*) FROM lines", TWO, 3, 9, rows=3),  # the lines stay, with one owner less
    Witness("SELECT SUM(qty) FROM lines", TWO, 18, 324, both(), rows=3, group_size=2),
    Witness("SELECT SUM(mark) FROM marks", KEPT, 6, 36, rows=3),
    Witness("SELECT COUNT(*) FROM orders AS o JOIN lines AS l ON o.ok = l.ok", TWO, 3, 9, rows=3),
    Witness("SELECT COUNT(*) FROM (SELECT o.uid, SUM(l.qty) AS q FROM orders AS o JOIN lines AS l "
            "ON o.ok = l.ok GROUP BY o.uid) AS w", TWO, 1, 1, rows=3),
]  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> FamilyEngine:
    return FamilyEngine()


@pytest.mark.parametrize("case", WITNESSES, ids=lambda w: f"{w.adjacency}-{w.sql}")
def test_the_rule_says_what_its_witness_shows(engine: FamilyEngine, case: Witness) -> None:
    catalog = family_catalog(
        case.adjacency,
        group_size=case.group_size,
        max_groups=case.groups,
        max_rows=case.rows,
    )
    (release,) = parse(case.sql, catalog).releases
    plan = plan_release(release, catalog, engine, Fraction(1))
    fact = derive(plan, catalog.unit, engine).vectors[0]
    assert (fact.change.l1, fact.change.l2_squared) == (case.l1, case.l2_squared)
    after = without(case.data, 1) if case.after is None else case.after
    (old,) = engine.hold([case.data, after], [lower_relation.release_sql(plan)])
    engine.turn(1)
    (new,) = engine.answers()
    count, keys = len(plan.vectors[0].columns), len(plan.keys)
    moved = shifts(split(old, keys), split(new, keys), 0, count)
    assert (sum(moved), sum(s * s for s in moved)) == (case.l1, case.l2_squared)


def test_a_line_of_two_owners_stays_when_one_leaves() -> None:
    one = without(KEPT, 1)
    assert one["lines"] == KEPT["lines"]
    assert one["marks"] == KEPT["marks"]
    nobody = without(one, 2, Random(1))
    assert nobody["orders"] == nobody["lines"] == nobody["marks"] == ()


def test_a_mark_leaves_with_the_last_line_that_leads_to_it() -> None:
    data = both(
        o(1, ok=1),
        rows("lines", ok=1, lk=1),
        rows("marks", ok=1, lk=1),
        rows("marks", ok=1, lk=2),  # it belonged to nobody
        rows("marks", ok=1),
    )
    left = without(data, 1)
    assert left["lines"] == ()
    assert [row[1] for row in left["marks"]] == [2, None]


@pytest.mark.parametrize("call", ["ARG_MIN(x, d)", "ARG_MAX(x, f)", "MIN(x) FILTER (WHERE b)"])
def test_what_an_aggregate_reads_besides_its_argument_is_not_free(
    engine: FamilyEngine, call: str
) -> None:
    catalog = zeroing(family_catalog(), frozenset({("visits", "x")}))
    for sql, free in ((call, False), ("ARG_MIN(x, x)", True)):
        text = f"SELECT SUM(m) FROM (SELECT uid, {sql} AS m FROM visits GROUP BY uid) AS q"
        (release,) = parse(text, catalog).releases
        plan = plan_release(release, catalog, engine, Fraction(1))
        change = derive(plan, catalog.unit, engine).vectors[0].change
        assert (change.l1 == 0) is free
