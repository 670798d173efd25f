"""Exact deltas through the whole engine: what mechanisms are given on neighbours, call by call.

Statements run from their text to their answer on two data sets that differ in one unit. Mechanisms are
used in the same order with the same parameters; true values move no further than was proved, and at no
more than what is charged; and where the noisy values are the same, so is everything that is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from golden.shop import write_shop
from oracle.failure import Failure, told_apart
from oracle.hostile import attack, hostile_catalog, hostile_rows
from oracle.hostile_persons import person_attack
from oracle.neighbours import Database, database, neighbours, rows_of
from oracle.recorder import Recorder, compare, one_hash_key
from oracle.small_schema import PUBLIC, small_catalog
from oracle.statements import statement
from oracle.world import World
from test_equals_duckdb import cases, corpus

import dp_sql
from dp_sql import stages
from dp_sql.errors import DPSQLError, QueryError
from dp_sql.executor import lower_relation
from dp_sql.mechanisms import chooser
from dp_sql.mechanisms.sampler import rate_below
from dp_sql.privacy.unit import Adjacency, Level

FOUND: Counter[str] = Counter()
EPSILON, DELTA = Fraction(7, 10), Fraction(1, 10**6)
SHARE = 44  # of the corpus, one statement in so many is run in CI


@pytest.fixture(autouse=True)
def _one_key() -> Iterator[None]:
    with one_hash_key():
        yield


@dataclass(frozen=True)
class Run:
    """A statement on one data set: what mechanisms were given, and what was shown or how it failed.

    prepared is None where it was refused, answer where it failed.
    """

    recorder: Recorder
    prepared: stages.Prepared | None = None
    answer: Any = None
    error: DPSQLError | None = None

    @property
    def failure(self) -> Failure | None:
        """All that is seen of its error."""
        stage = "preparing" if self.prepared is None else "running"
        return self.error and Failure.of(self.error, stage, len(self.recorder.steps))

    @property
    def shown(self) -> tuple[Any, ...]:
        """All that an analyst sees beside EXPLAIN, whose text follows from the same."""
        if self.prepared is None:
            return ()
        steps = [(s.plan, s.facts, s.measurement, s.statements) for s in self.prepared.steps]
        answer = self.answer
        if answer is None:
            return steps, self.prepared.costs
        rows = [repr(row) for row in answer.rows]
        return steps, self.prepared.costs, answer.columns, answer.types, rows, answer.groups


def run(place: World | dp_sql.Connection, sql: str, replayed: list[Any]) -> Run:
    """Run a statement on a connection or a world, with answers of another run in place of its own."""
    recorder = Recorder(replayed)
    prepared = None
    try:
        if isinstance(place, World):
            prepared, engine, post = place.prepare(sql, EPSILON, DELTA), place.engine, place.post
        else:
            prepared = place._prepare(sql, EPSILON, DELTA, None, None, None)
            engine, post = place._engine, place._post
        with recorder.listening():
            course = stages.Course(prepared, place.catalog, post)
            answer = course.finish(stages.fresh(engine, post, recorder))
    except DPSQLError as error:
        return Run(recorder, prepared, error=error)
    return Run(recorder, prepared, answer)


def examine(
    places: Sequence[World | dp_sql.Connection], sql: str, caplog: pytest.LogCaptureFixture
) -> QueryError | None:
    """Compare a statement on the first place with it on each other one; return what all refuse it with.

    An error is a channel like a value: neighbours have the same one at the same stage, or none. One
    that all have and that refuses nothing is raised.
    """
    first, *others = places
    base = run(first, sql, [])
    FOUND["statements" if base.error is None else "refused"] += 1
    FOUND["calls"] += len(base.recorder.calls)
    for number, other in enumerate(others):
        found = run(other, sql, base.recorder.answers)
        apart = told_apart(base.failure, found.failure)
        assert apart is None, f"told apart by an error: {apart}\n{sql}\nneighbour {number}"
        assert found.shown == base.shown, sql
        used = compare(
            base.recorder,
            found.recorder,
            lambda number=number: f"{sql}\nneighbour {number}",
        )
        if base.error is None:
            FOUND["compared"] += 1
            FOUND["reached"] += used > Fraction(99, 100)
            FOUND["moved"] += used > 0
    assert not caplog.records
    if base.error is None or isinstance(base.error, QueryError):
        return base.error
    raise base.error


LESS = {
    "people": "SELECT * FROM people WHERE id <> 3",
    "visits": "SELECT * FROM visits WHERE uid <> 7",
    "users": "SELECT * FROM users WHERE uid <> 7",
    "orders": "SELECT * FROM orders WHERE uid <> 7",
    "items": "SELECT * FROM items WHERE oid NOT IN (SELECT oid FROM orders WHERE uid = 7)",
}
MORE = {
    "people": "SELECT * FROM people UNION ALL SELECT 9999, 'zed', 2147483647, 'inf', 'oslo', "
    "DATE '5000-01-01', '-1e999', true, 999999.99",
    "visits": """SELECT * FROM visits UNION ALL SELECT 9999,
        CASE WHEN i % 3 = 0 THEN 'home' WHEN i % 3 = 1 THEN 'q' || (i % 140) END,
        ['inf'::DOUBLE, '-inf', 'nan', 1e308, -1e308, 100, 0, NULL][1 + i % 8],
        DATE '1900-01-01' + CAST(i * i AS INTEGER), [-2147483648, 2147483647, 5, -5, NULL][1 + i % 5],
        i % 2 = 0, ['oslo', 'rome', 'Oslo', NULL][1 + i % 4], TIMESTAMP '2024-01-01' + to_hours(i * 9)
        FROM range(2000) AS r(i)""",
    "users": "SELECT * FROM users UNION ALL SELECT 9999, 'pro', -5, 'oslo'",
    "orders": """SELECT * FROM orders UNION ALL SELECT 90000 + i, 9999,
        [99999.99, -99999.99, 500, NULL][1 + i % 4], DATE '2023-12-01' + CAST(i * 2 AS INTEGER),
        ['new', 'paid', 'lost', NULL][1 + i % 4] FROM range(90) AS r(i)""",
    "items": """SELECT * FROM items UNION ALL SELECT 90000 + i % 90, [1, 6, 0, -2147483648][1 + i % 4],
        [4, 1, 2147483647, NULL][1 + (i // 4) % 4], ['inf'::DOUBLE, 80, 'nan', -3][1 + i % 4]
        FROM range(1500) AS r(i)""",
}


@contextmanager
def opened_shops(folder: Path) -> Iterator[dict[str, list[dp_sql.Connection]]]:
    """Open, by schema, the shop, the shop without a unit, and with a strange one more."""
    opened: dict[str, list[dp_sql.Connection]] = {"people": [], "visits": []}
    for name, changed in (("shop", {}), ("less", LESS), ("more", MORE)):
        place = folder / name
        place.mkdir()
        write_shop(place)
        with duckdb.connect() as data:
            for table in LESS:
                data.execute(f"CREATE TABLE {table} AS FROM '{place}/{table}.parquet'")
            for table, sql in changed.items():
                data.execute(f"COPY ({sql}) TO '{place}/{table}.parquet' (FORMAT parquet)")
        for schema, connections in opened.items():
            connections.append(dp_sql.connect(place / f"{schema}.yaml", ledger=":memory:"))
    try:
        yield opened
    finally:
        for connection in [c for connections in opened.values() for c in connections]:
            connection.close()


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[dp_sql.Connection]]]:
    with opened_shops(tmp_path_factory.mktemp("shops")) as opened:
        yield opened


def report(name: str) -> None:
    print(f"\n{name}: {dict(FOUND)}")  # noqa: T201  counts belong to the test's output
    FOUND.clear()


def test_the_statements_of_the_corpus_keep_their_deltas(
    shops: dict[str, list[dp_sql.Connection]], caplog: pytest.LogCaptureFixture
) -> None:
    answered = [case for case in corpus() if case["expect"] == "answer"]
    for case in answered[::SHARE]:
        examine(shops[case["schema"]], case["sql"], caplog)
    assert FOUND["statements"] == len(answered[::SHARE])
    assert FOUND["moved"] >= 0.7 * FOUND["compared"]
    assert FOUND["reached"] >= 8
    report("recorded, corpus")


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(answered=True))
def test_the_statements_of_the_corpus_keep_their_deltas_long(
    case: Any, shops: dict[str, list[dp_sql.Connection]], caplog: pytest.LogCaptureFixture
) -> None:
    examine(shops[case["schema"]], case["sql"], caplog)


def worlds(folder: Path, seed: str) -> list[World]:
    """Return a random small database and some of its neighbours, behind one random catalog."""
    r = Random(seed)
    level, adjacency = (
        r.choice(tuple(Level)),
        r.choice([Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION]),
    )
    catalog = small_catalog(
        level,
        adjacency,
        group_size=r.choice((1, 1, 2)),
        max_groups=r.choice((1, 2, 3)),
        max_rows=r.choice((1, 2, 3)),
    )
    user, size = level is Level.USER, catalog.unit.group_size
    data = database(r, user=user)
    substitution = adjacency is Adjacency.SUBSTITUTION
    near = list(neighbours(r, data, user=user, substitution=substitution, group_size=size))
    sets: list[Database] = [data, *r.sample(near, min(2, len(near)))]
    public = {name: rows for name, (_, rows) in PUBLIC.items()}
    return [
        World(folder, catalog, {"visits": rows_of(one), **public}, f"w{i}")
        for i, one in enumerate(sets)
    ]


def hostile_worlds(folder: Path) -> list[World]:
    """Return data of extreme values alone, and the same with a person more, and without anybody."""
    catalog = hostile_catalog(Level.USER, Adjacency.ADD_REMOVE)
    some = [row for o in "abcde" for row in hostile_rows(Random(f"t1-{o}"), o, 4)]
    more = hostile_rows(Random("t1-f"), "f", 9)
    alone = [row for row in some if row[0] == "a"]
    sets = {"some": some, "more": [*some, *more], "alone": alone, "none": []}
    return [World(folder, catalog, {"t": rows}, name) for name, rows in sets.items()]


def search_hostile(folder: Path, seeds: Sequence[int], caplog: pytest.LogCaptureFixture) -> None:
    places = hostile_worlds(folder)
    try:
        for seed in seeds:
            for made in (attack, person_attack):
                sql = made(Random(f"t1-{seed}"))
                examine(places[:2], sql, caplog)
                examine(places[2:], sql, caplog)
    finally:
        for place in places:
            place.__exit__()


def test_extreme_values_keep_their_deltas(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Values overflow, divide by zero, fail casts, are NaN or infinite: nothing but the noise moves."""
    search_hostile(tmp_path, range(12), caplog)
    assert FOUND["compared"] >= 25
    assert FOUND["moved"] >= 5
    report("recorded, hostile")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_extreme_values_keep_their_deltas_long(
    part: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    search_hostile(tmp_path, range(1000 * part, 1000 * part + 250), caplog)
    report(f"recorded, hostile {part}")


def search(folder: Path, seed: str, count: int, caplog: pytest.LogCaptureFixture) -> None:
    folder.mkdir()
    places = worlds(folder, seed)
    user = places[0].catalog.unit.level is Level.USER
    try:
        for index in range(count):
            sql = statement(Random(f"{seed}-{index}"), user=user, sampled=index % 9 == 0)
            examine(places, sql, caplog)
    finally:
        for place in places:
            place.__exit__()


def test_no_neighbour_moves_a_true_value_further_than_its_delta(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    search(tmp_path / "short", "recorded-3", 14, caplog)
    assert FOUND["compared"] >= 20
    assert FOUND["reached"] >= 1
    report("recorded, random")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_no_neighbour_moves_a_true_value_further_than_its_delta_long(
    seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    search(tmp_path / "long", f"recorded-long-{seed}", 150, caplog)
    report(f"recorded, seed {seed}")


def _halved(known: Callable[..., Any]) -> Callable[..., Any]:
    """Return a calibration whose noise is half of what it says that it costs."""

    def calibrated(*arguments: Any, **more: Any) -> Any:
        return tuple(
            replace(m, noises=tuple(replace(n, scale=n.scale // 2) for n in m.noises))
            for m in known(*arguments, **more)
        )

    return calibrated


BROKEN: dict[str, tuple[str, str, tuple[Any, str, Any]]] = {
    "what a clamp gives isn't used": (
        "visits", "SELECT COUNT(*) FROM visits",
        (lower_relation, "_bound", lambda _, value, *__: f"CAST({value} AS HUGEINT)"),
    ),
    "half the noise": (
        "people", "SELECT COUNT(*), SUM(age) FROM people",
        (stages, "calibrate_sets", _halved(stages.calibrate_sets)),
    ),
    "choices at four times their rate": (
        "people", "SELECT MAX(age) FROM people",
        (chooser, "rate_below", lambda limit: rate_below(4 * limit)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_release_is_found(
    name: str,
    shops: dict[str, list[dp_sql.Connection]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema, sql, patch = BROKEN[name]
    monkeypatch.setattr(*patch)
    with pytest.raises(AssertionError):
        examine(shops[schema], sql, caplog)
    FOUND.clear()
