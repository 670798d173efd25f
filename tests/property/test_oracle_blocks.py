"""The oracle of blocks: rows of blocks that aren't debited change no bit of any released vector.

Random plans over several tables, with conditions put in at any place, on random data. It knows what
the lowered SQL gives and what the value of a row is; where predicates hold it doesn't know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from random import Random

import duckdb
import pytest
from oracle import neighbours, small_schema, statements
from oracle.blocks import changed, may_be_blocks, restricted
from oracle.family_data import database, row
from oracle.family_engine import FamilyEngine, bits
from oracle.family_schema import COLUMNS, family_catalog
from oracle.family_statements import FAMILIES, statement
from oracle.small_engine import Row, SmallEngine, rounds_of
from oracle.statements import pick

from dp_sql.errors import DPSQLError, InternalError
from dp_sql.executor import lower_relation
from dp_sql.executor.lower_distinct import distinct_sql
from dp_sql.executor.lower_histogram import histogram_sql
from dp_sql.executor.lower_sampled import sampled_sql
from dp_sql.parser.statement import parse
from dp_sql.plan.expression import Expression
from dp_sql.plan.release import PlannedRelease
from dp_sql.plan.rows import Join, Rows, WindowRows
from dp_sql.planner.sets import plan_sets
from dp_sql.privacy.unit import Adjacency, Level
from dp_sql.sensitivity import blocks, spans
from dp_sql.sensitivity.blocks import debit
from dp_sql.sensitivity.ownership import all_scans

COUNTS: Counter[str] = Counter()
ANSWERED = [f for f in FAMILIES if f != "traps"]


@cache
def engine() -> FamilyEngine:
    return FamilyEngine()


def texts_of(plan: PlannedRelease) -> list[str]:
    """Return everything that the engine runs for a release."""
    texts = [lower_relation.release_sql(plan)] if plan.in_table else []
    texts += [sampled_sql(s) for s in plan.sampled] + [histogram_sql(h) for h in plan.histograms]
    return [*texts, *rounds_of(plan), *(distinct_sql(d) for d in plan.distincts)]


def examine(r: Random, family: str) -> None:
    """Check one random statement, restricted at random, on one random database and others."""
    catalog = family_catalog(max_groups=pick(r, (1, 2)), max_rows=pick(r, (1, 2)))
    sql = statement(r, family).sql
    try:
        query = engine().parse(sql, catalog)
    except DPSQLError:
        COUNTS["refused"] += 1
        return
    engine().results(query.stages, r)
    for release in query.releases:
        tables = sorted({s.table for s in all_scans(release.source) if not s.public})
        table = pick(r, tables)
        column = pick(r, may_be_blocks(COLUMNS[table]))
        source = restricted(r, release.source, table, column, pick(r, (0.2, 0.95)))
        told = f"{sql}\nblocks of {table} by {column}\n{source}"
        try:
            plans = plan_sets(replace(release, source=source), catalog, engine(), Fraction(1))  # type: ignore[arg-type]
        except InternalError as error:
            pytest.fail(f"{error}\n{told}")
        except DPSQLError:
            COUNTS["refused"] += 1
            continue
        found = debit(plans, table, column).blocks
        COUNTS["every block" if found is None else "some blocks"] += 1
        if found is not None:
            _compare(r, plans, table, column, found, f"{told}\n{sorted(found)}")


def _compare(
    r: Random,
    plans: list[PlannedRelease],
    table: str,
    column: str,
    found: frozenset[str],
    told: str,
) -> None:
    data, place = database(r), [c.name for c in COLUMNS[table]].index(column)

    def fresh() -> Row:
        return row(r, table, {"uid": pick(r, (1, 2, 3, 4, None))})

    others = [{**data, table: changed(r, data[table], found, place, fresh)} for _ in range(3)]
    for plan in plans:
        texts = texts_of(plan)
        if not texts:
            continue
        try:
            before = engine().hold([data, *others], texts)
            for part in range(1, len(others) + 1):
                engine().turn(part)
                after = engine().answers()
                for one, other in zip(before, after, strict=True):
                    shown = f"{told}\nD : {data[table]}\nD': {others[part - 1][table]}"
                    assert bits(one) == bits(other), f"another block changes the answer\n{shown}"
            COUNTS["not empty"] += any(map(len, before))
        except duckdb.Error as error:
            engine.cache_clear()
            pytest.fail(f"{str(error).splitlines()[0]}\n{told}")


@cache
def small() -> SmallEngine:
    public = {name: rows for name, (_, rows) in small_schema.PUBLIC.items()}
    return SmallEngine(small_schema.small_catalog(Level.EVENT), public)


def examine_rows(r: Random) -> None:
    """Check one random statement at event level, restricted at random, likewise."""
    catalog = small_schema.small_catalog(Level.EVENT, pick(r, tuple(Adjacency)[:2]))
    sql = statements.statement(r, user=False)
    place = pick(r, range(len(small_schema.COLUMNS)))
    column = small_schema.COLUMNS[place].name
    try:
        releases = parse(sql, catalog).releases
        if column not in may_be_blocks(small_schema.COLUMNS):
            return
        sources = [restricted(r, x.source, "visits", column, 0.9) for x in releases]
        plans = [
            plan
            for x, source in zip(releases, sources, strict=True)
            for plan in plan_sets(replace(x, source=source), catalog, small(), Fraction(1))
        ]
    except DPSQLError:
        COUNTS["refused"] += 1
        return
    found = debit(plans, "visits", column).blocks
    COUNTS["every block" if found is None else "some blocks"] += 1
    if found is None:
        return
    rows = [neighbours.row(r, pick(r, (1, 2, None))) for _ in range(5)]
    texts = [text for plan in plans for text in texts_of(plan)]
    small().load("visits", rows)
    before = [small().query(text) for text in texts]
    for _ in range(3):
        other = changed(r, rows, found, place, lambda: neighbours.row(r, pick(r, (1, 2, 3))))
        small().load("visits", other)
        for text, one in zip(texts, before, strict=True):
            told = f"{sql}\n{sources}\nD : {rows}\nD': {other}\n{sorted(found)} of {column}"
            assert bits(one) == bits(small().query(text)), f"another block changes it\n{told}"


def test_rows_of_other_blocks_change_nothing_at_event_level() -> None:
    COUNTS.clear()
    for index in range(24):
        examine_rows(Random(f"rows-{index}"))
    print(f"\noracle of blocks, rows: {dict(COUNTS)}")  # noqa: T201  as below
    assert COUNTS["some blocks"] > 6


def test_rows_of_other_blocks_change_nothing() -> None:
    COUNTS.clear()
    for index in range(26):
        examine(Random(f"blocks-{index}"), ANSWERED[index % len(ANSWERED)])
    print(f"\noracle of blocks: {dict(COUNTS)}")  # noqa: T201  counts belong to the test's output
    assert COUNTS["some blocks"] > 5
    assert COUNTS["every block"] > 5
    assert COUNTS["not empty"] > 1


Known = tuple[Expression, ...]


def _both_sides(join: Join, known: Known) -> object:
    known = (*known, join.condition)
    yield from blocks._restricted(join.left, known)
    yield from blocks._restricted(join.right, known)


def _through_windows(relation: Rows, known: Known) -> object:
    if isinstance(relation, WindowRows):
        return RESTRICTED(relation.source, known)
    return RESTRICTED(relation, known)


def _either(condition: Expression, column: object) -> object:
    if getattr(condition, "function", "") == "or":
        parts = [VALUES(arg, column) for arg in condition.args]  # type: ignore[arg-type,union-attr]
        return spans.all_of(v for v in parts if v is not None)
    return VALUES(condition, column)  # type: ignore[arg-type]


VALUES, RESTRICTED = spans.values_where, blocks._restricted
MUTANTS: dict[str, tuple[object, str, Callable[..., object], tuple[str, ...], int]] = {
    "OR is AND": (blocks, "values_where", _either, ("inner join", "per person"), 13),
    "ON of an outer join drops rows": (blocks, "_joined", _both_sides, ("outer join",), 107),
    "the nearest row stays the nearest": (blocks, "_joined", _both_sides, ("asof join",), 502),
    "windows drop rows": (blocks, "_restricted", _through_windows, ("window", "qualify"), 244),
}
"""By name: what is replaced, by what, families of statements, and the first seed that is tried."""


@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_finds_a_wrong_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, mutant, families, first = MUTANTS[name]
    monkeypatch.setattr(place, attribute, mutant)

    def search() -> None:
        for index in range(first, first + 400):  # the first that is found ends it
            examine(Random(f"mutant-{index}"), families[index % len(families)])

    with pytest.raises(AssertionError, match="another block"):
        search()


@pytest.mark.slow
def test_rows_of_other_blocks_change_nothing_at_event_level_long() -> None:
    for index in range(3000):
        examine_rows(Random(f"long-rows-{index}"))


@pytest.mark.slow
@pytest.mark.parametrize("family", ANSWERED)
def test_rows_of_other_blocks_change_nothing_long(family: str) -> None:
    for index in range(300):
        examine(Random(f"long-{family}-{index}"), family)
