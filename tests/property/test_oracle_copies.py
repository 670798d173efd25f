"""The oracle where a unit is a row and joins or UNION ALL repeat it, into one group or several.

As in `test_oracle`, nothing is known here of how the analysis derives its numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from random import Random

import pytest
from oracle.judge import compare, compare_distincts, compare_histograms, released
from oracle.neighbours import neighbours, rows_of, unit
from oracle.small_engine import Row, SmallEngine
from oracle.small_schema import PUBLIC, small_catalog
from oracle.statements import pick

from dp_sql.parser.statement import parse
from dp_sql.planner.sets import plan_sets
from dp_sql.privacy.contribution import Box, Change, ContributionSet, Simplex
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.sensitivity import contribution, delta, histogram
from dp_sql.sensitivity.contribution import derive

COUNTS: Counter[str] = Counter()
MOST_NEIGHBOURS = 3
FAN = "(SELECT v.x, v.f, v.s, v.t, h.half FROM visits v JOIN pairs h ON v.n = h.n)"
COPIES = (
    "(SELECT x, f, s, t, s AS half FROM visits UNION ALL SELECT x, f, s, 'k2', 'b' FROM visits)"
)
SOURCES = (FAN, COPIES, f"({FAN} UNION ALL {COPIES})")
CALLS = (
    "COUNT(*)",
    "COUNT(x)",
    "SUM(x)",
    "AVG(x)",
    "VAR_POP(x)",
    "COVAR_POP(x, f)",
    "VECTOR_SUM([x, f], 2)[1]",
    "MEDIAN(x)",
    "MODE(x)",
    "COUNT(DISTINCT x)",
    "COUNT(DISTINCT half)",
)
KEYS = ("half", "t", "half, t", "s", None)


class Engine(SmallEngine):
    """Knows that a row finds at most two pairs."""

    def frequency(self, table: str, columns: tuple[str, ...]) -> int | None:
        return 2 if (table, columns) == ("pairs", ("n",)) else super().frequency(table, columns)


@cache
def engine() -> Engine:
    return Engine(small_catalog(), {name: rows for name, (_, rows) in PUBLIC.items()})


def fanned(rows: list[Row]) -> list[Row]:
    """Return the rows with an n that has two pairs."""
    return [(*row[:2], 0, *row[3:]) for row in rows]


def examine(r: Random, call: str) -> None:
    """Hold one statement over few rows against neighbours."""
    adjacency = pick(r, (Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION))
    size = pick(r, (1, 1, 2))
    catalog = small_catalog(Level.EVENT, adjacency, group_size=size)
    sql = f"SELECT {call} AS a FROM {pick(r, SOURCES)}"
    keys = pick(r, KEYS)
    sql += f" GROUP BY {keys}" if keys else ""
    (release,) = parse(sql, catalog).releases
    (plan,) = plan_sets(release, catalog, engine(), Fraction(1))
    fact = derive(plan, catalog.unit, engine())
    data = {i: unit(r, i, user=False) for i in range(1, 2 + r.randrange(3))}
    replaced = adjacency is Adjacency.SUBSTITUTION
    found = list(neighbours(r, data, user=False, substitution=replaced, group_size=size))
    near = r.sample(found, min(len(found), MOST_NEIGHBOURS))
    engine().stage("visits", [fanned(rows_of(d)) for d in (data, *near)])
    seen = []
    for part in range(1 + len(near)):
        engine().use("visits", part)
        sums = released(plan, engine().totals(plan)), engine().chosen(plan)
        seen.append((sums, engine().histograms(plan), engine().distincts(plan)))
    (old, held, counted), *others = seen
    for other, (new, holding, counting) in zip(near, others, strict=True):
        told = partial("{}\n{}\nD : {}\nD': {}".format, sql, catalog.unit, data, other)
        compare(plan, fact, old, new, told, COUNTS)
        touched = sum(old[0].get(key) != new[0].get(key) for key in old[0].keys() | new[0].keys())
        assert touched <= (1 + replaced) * size * fact.groups, (
            told()
        )  # a threshold's delta is for these
        compare_histograms(plan, fact, held, holding, told, COUNTS)
        compare_distincts(plan, fact, counted, counting, told, COUNTS)


def search() -> None:
    COUNTS.clear()
    for index in range(4):
        for call in CALLS:
            examine(Random(f"copies-{index}-{call}"), call)


def test_copies_of_a_row_move_a_release_no_further_than_derived() -> None:
    search()
    assert COUNTS["reached"] >= 60
    assert COUNTS["filled"] >= 5
    assert COUNTS["vouched"] >= 1


def _apart(
    whole: ContributionSet, cells: int | None, unit: PrivacyUnit, *, in_place: bool = False
) -> Change:
    """Return the change as if two copies of a row were in two groups, whatever they are."""
    match whole:
        case Box(low=low, high=high):
            half: ContributionSet = Box(tuple(a // 2 for a in low), tuple(b // 2 for b in high))
        case Simplex(size=size, total=total):
            half = Simplex(size, total // 2)
        case _:
            half = whole
    return delta.change(half, 2, cells, unit, in_place=in_place)


MUTANTS: dict[str, tuple[object, str, Callable[..., object]]] = {
    "copies count once": (contribution, "_times", lambda row, _: row),
    "copies lie in a group each": (contribution, "change_of_copies", _apart),
    "a row has one key": (contribution, "_groups", lambda *_, **__: 1),
    "a row has one value": (histogram, "bounded_rows", lambda *_: 1),
    "a row is in one group": (histogram, "_groups", lambda *_, **__: 1),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_finds_a_wrong_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    with pytest.raises(AssertionError):
        search()
