"""Random nested expressions: total, canonical, inside their derived domains, wherever they stand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import duckdb
import pytest
from extremes import extreme_values

from dp_sql.executor.lower_expression import canonical, literal, lower
from dp_sql.plan import functions
from dp_sql.plan.conversion import days_of, microseconds_of
from dp_sql.plan.domain import BOOLEANS, Domain
from dp_sql.plan.domains import domain_of, narrow
from dp_sql.plan.expression import Column, Expression, IntervalValue, Literal, Ref
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

TYPES = [
    sqltype.DOUBLE,
    SqlType(Kind.FLOAT),
    sqltype.INTEGER,
    sqltype.BIGINT,
    SqlType(Kind.UTINYINT),
    SqlType(Kind.DECIMAL, 9, 2),
    SqlType(Kind.DECIMAL, 38, 10),
    sqltype.VARCHAR,
    sqltype.DATE,
    sqltype.TIMESTAMP,
    sqltype.BOOLEAN,
    sqltype.HUGEINT,
]
COLUMNS = [Column(i, f"c{i}", type_) for i, type_ in enumerate(TYPES)]
ROWS = 300
FIRST, LAST = datetime(2019, 11, 30), datetime(2021, 3, 1, 12)  # noqa: DTZ001

# the ends of each column in the test of domains, in the numbers of domains
ENDS: list[tuple[Fraction, Fraction] | None] = [
    (Fraction(-5, 2), Fraction(29, 4)),
    (Fraction(0), Fraction(1)),
    (Fraction(0), Fraction(20)),
    (Fraction(-5), Fraction(5)),
    (Fraction(0), Fraction(10)),
    (Fraction(-3, 2), Fraction(13, 4)),
    (Fraction(1), Fraction(2)),
    None,
    (Fraction(days_of(FIRST.date())), Fraction(days_of(LAST.date()))),
    (Fraction(microseconds_of(FIRST)), Fraction(microseconds_of(LAST))),
    (Fraction(0), Fraction(1)),
    (Fraction(1), Fraction(100)),
]
LONGEST = 5


def name(column: Column) -> str:
    return f"c{column.number}"


def atoms(rng: random.Random) -> Expression:
    constants: list[Expression] = [
        Literal(rng.choice([0, 1, 2, -3, 7, 100]), sqltype.INTEGER),
        Literal(rng.choice([0.5, -1.5, 1e300]), sqltype.DOUBLE),
        Literal(Decimal("0.25"), SqlType(Kind.DECIMAL, 3, 2)),
        Literal(rng.choice(["", "a", "É", "2020-02-29", "3"]), sqltype.VARCHAR),
        Literal(IntervalValue(rng.choice([0, 1, -14]), 3, 5), sqltype.INTERVAL),
        Literal(None, sqltype.NULL),
    ]
    return Ref(rng.choice(COLUMNS)) if rng.random() < 0.7 else rng.choice(constants)


def _text(rng: random.Random, *values: str) -> Literal:
    return Literal(rng.choice(values), sqltype.VARCHAR)


def _integer(rng: random.Random, *values: int) -> Literal:
    return Literal(rng.choice(values), sqltype.INTEGER)


UNITS = ("hour", "day", "week", "month", "quarter", "year", "decade", "century", "second")
PARTS = ("year", "month", "dow", "doy", "isoyear", "epoch", "week", "minute", "decade", "yearweek")
Sub = Callable[[], Expression]


def arguments(rng: random.Random, function: str, sub: Sub) -> tuple[Expression, ...]:
    """Return arguments of about the right form; their types may not fit."""
    match function:
        case "date_part":
            return (_text(rng, *PARTS), sub())
        case "date_trunc":
            return (_text(rng, *UNITS), sub())
        case "date_diff" | "date_sub":
            return (_text(rng, *UNITS), sub(), sub())
        case "strftime":
            return (sub(), _text(rng, "%Y-%m", "%H"))
        case "like" | "ilike" | "glob":
            return (sub(), _text(rng, "%a%", "É_", "*a*"))
        case "like_escape" | "ilike_escape":
            return (sub(), _text(rng, "%!%%", "É_"), _text(rng, "!"))
        case "regexp_matches" | "regexp_full_match" | "regexp_extract":
            return (sub(), _text(rng, "a|É", "[0-9]*", "(1)?"))
        case "regexp_replace":
            return (
                sub(),
                _text(rng, "a|É", "1*"),
                _text(rng, "", "bcd", "\\0\\0"),
                _text(rng, "g"),
            )
        case "strptime" | "try_strptime":
            return (sub(), _text(rng, "%Y-%m-%d", "%H"))
        case "time_bucket":
            moved = rng.choice([IntervalValue(days=7), IntervalValue(2), IntervalValue(0, 0, 77)])
            return (Literal(moved, sqltype.INTERVAL), sub())
        case "make_date":
            return (sub(), sub(), sub())
        case "make_timestamp":
            return tuple(sub() for _ in range(rng.choice([1, 6])))
        case "pi":
            return ()
        case "lpad" | "rpad":
            return (sub(), _integer(rng, 0, 2, 7), _text(rng, "É", "ab"))
        case "repeat":
            return (sub(), _integer(rng, 0, 2, 3))
        case "split_part":
            return (sub(), _text(rng, "a", " "), _integer(rng, 1, -1, 2))
        case "translate":
            return (sub(), _text(rng, "aÉ"), _text(rng, "", "1", "xyz"))
        case "concat_ws":
            return (_text(rng, "", "-é"), sub(), sub())
        case "list_contains" | "list_position" | "list_extract":
            return (sub(), _integer(rng, 1, 2), _integer(rng, 3, 5))
        case name if name.startswith("json_") and name != "json_valid":
            return (sub(), _text(rng, "a", "$[0]", "$"))
        case "trunc":
            return (sub(), _integer(rng, -1, 0, 1, 2))
        case "log":
            return (Literal(rng.choice([2.0, 0.5]), sqltype.DOUBLE), sub())
        case "substring" | "substr":
            return (sub(), _integer(rng, -2, 1, 2), _integer(rng, 0, 2))
        case "left" | "right":
            return (sub(), _integer(rng, -1, 2))
        case "replace":
            return (sub(), _text(rng, "a", "É"), _text(rng, "", "bcd"))
        case "round":
            return (sub(), _integer(rng, -1, 0, 1, 2))
        case "clamp":
            return (sub(), _integer(rng, -4, 0), _integer(rng, 1, 9))
        case "in":
            return (sub(), _integer(rng, 1), _integer(rng, 3))
        case "between" | "if":
            return (sub(), sub(), sub())
        case _:
            return tuple(sub() for _ in range(rng.choice([1, 2, 2])))


def grown(rng: random.Random, depth: int) -> Expression:
    """Return a random typed expression of at most that depth."""
    if depth == 0:
        return atoms(rng)
    names = [*functions.FUNCTIONS, "case", "case", "cast", "cast", *"+-*/"]
    while True:
        function = rng.choice(names)
        try:
            if function == "case":
                condition = grown(rng, depth - 1)
                return functions.case(((condition, grown(rng, depth - 1)),), grown(rng, depth - 1))
            if function == "cast":
                return functions.cast(grown(rng, depth - 1), rng.choice(TYPES))
            args = arguments(rng, function, lambda: grown(rng, depth - 1))
            return functions.call(function, args)
        except functions.TypeProblem:
            continue


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect()
    con.execute("SET error_on_division_by_zero = false")
    con.execute("SET ieee_floating_point_ops = true")
    rng = random.Random(1)
    extremes = [[*extreme_values(t), None] for t in TYPES]
    _fill(con, "extremes", [[rng.choice(e) for e in extremes] for _ in range(ROWS)])
    _fill(con, "inside", [[_inside(rng, i) for i in range(len(TYPES))] for _ in range(ROWS)])
    yield con
    con.close()


def _fill(con: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[object]]) -> None:
    con.execute(f"CREATE TABLE raw_{table} ({', '.join(f'{name(c)} VARCHAR' for c in COLUMNS)})")
    con.executemany(f"INSERT INTO raw_{table} VALUES ({', '.join('?' * len(COLUMNS))})", rows)
    items = (f"{canonical(f'CAST({name(c)} AS {c.type})', c.type)} AS {name(c)}" for c in COLUMNS)
    con.execute(f"CREATE TABLE {table} AS SELECT {', '.join(items)} FROM raw_{table}")


def _inside(rng: random.Random, index: int) -> str | None:
    ends, type_ = ENDS[index], TYPES[index]
    if rng.random() < 0.1:
        return None
    if ends is None:
        return "".join(rng.choice("aÉ 1-") for _ in range(rng.randrange(LONGEST + 1)))
    low, high = ends
    place = rng.choice([low, high, Fraction(rng.uniform(float(low), float(high)))])
    place = min(max(place, low), high)
    if type_.kind is Kind.DATE:
        return str(date(1970, 1, 1) + timedelta(int(place)))
    if type_.kind is Kind.TIMESTAMP:
        return str(datetime(1970, 1, 1) + timedelta(microseconds=int(place)))  # noqa: DTZ001
    if type_.is_float:
        return repr(float(place))
    if type_.kind is Kind.BOOLEAN:
        return str(place >= Fraction(1, 2)).lower()
    return str(round(float(place), 2)) if type_.kind is Kind.DECIMAL else str(int(place))


def _expressions(seed: int, count: int, depth: int) -> list[Expression]:
    rng = random.Random(seed)
    return [grown(rng, rng.randint(1, depth)) for _ in range(count)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2, 3))])
def test_nested_expressions_are_total_and_canonical(
    connection: duckdb.DuckDBPyConnection, seed: int
) -> None:
    for expression in _expressions(seed, 60, 4):
        text = lower(expression, name)
        shown = f"CAST({text} AS VARCHAR)" if not expression.type.is_float else text
        rows = connection.execute(f"SELECT {shown}, typeof({text}) FROM extremes").fetchall()
        for value, type_ in rows:
            assert type_.strip('"') == str(expression.type), (expression, text)
            if isinstance(value, float):
                assert not math.isnan(value), (expression, text)
                assert value != 0 or math.copysign(1, value) > 0, (expression, text)


@pytest.mark.parametrize("seed", [100, pytest.param(101, marks=pytest.mark.slow)])
def test_nested_expressions_are_total_in_filters_and_sums(
    connection: duckdb.DuckDBPyConnection, seed: int
) -> None:
    expressions = _expressions(seed, 60, 4)
    for first, second in pairwise(expressions):
        one, two = (lower(e, name) for e in (first, second))
        connection.execute(
            f"SELECT count({one}), count(CASE WHEN {two} IS NULL THEN 1 END), c2 % 3 AS k"
            f" FROM extremes WHERE {two} IS NOT NULL OR c2 IS DISTINCT FROM 5 GROUP BY k"
        ).fetchall()


def test_each_row_gives_what_it_gives_alone(connection: duckdb.DuckDBPyConnection) -> None:
    for expression in _expressions(7, 30, 3):
        text = f"CAST({lower(expression, name)} AS VARCHAR)"
        together = connection.execute(f"SELECT {text} FROM extremes ORDER BY rowid").fetchall()
        alone = [
            connection.execute(f"SELECT {text} FROM extremes WHERE rowid = {i}").fetchall()[0]
            for i in range(0, ROWS, 37)
        ]
        assert alone == together[::37], expression


DOMAINS = {
    c.number: Domain(max_length=LONGEST)
    if ends is None
    else Domain(*ends, functions.step_of(c.type))
    for c, ends in zip(COLUMNS, ENDS, strict=True)
}


def _place(value: object) -> Fraction | float | None:
    match value:
        case bool() | int() | Decimal():
            return Fraction(value)
        case float():
            return Fraction(value) if math.isfinite(value) else value
        case datetime():
            return Fraction(microseconds_of(value))
        case date():
            return Fraction(days_of(value))
        case _:
            return None


def holds(domain: Domain, value: object, *, loose: Fraction) -> bool:
    """Return True for NULL and a value inside the domain; floats may be `loose` (relative) off."""
    if isinstance(value, str):
        return domain.max_length is None or len(value) <= domain.max_length
    place = _place(value)
    if place is None:
        return True
    size = max(1, *(abs(end) for end in (domain.low, domain.high) if end is not None), 0)
    slack = loose * size
    top = Fraction(10) ** 308
    low = domain.low is None or domain.low < -top or place >= domain.low - slack
    high = domain.high is None or domain.high > top or place <= domain.high + slack
    on_grid = domain.step is None or isinstance(place, float) or place % domain.step == 0
    return low and high and on_grid


@pytest.mark.parametrize(
    "seed", [200, 201, *(pytest.param(s, marks=pytest.mark.slow) for s in range(202, 206))]
)
def test_values_lie_in_the_derived_domain(connection: duckdb.DuckDBPyConnection, seed: int) -> None:
    bounded = 0
    for expression in _expressions(seed, 60, 3):
        domain = domain_of(expression, DOMAINS)
        bounded += domain.bounded
        loose = Fraction(1, 10**5)  # FLOAT columns round to 24 bits
        text = lower(expression, name)
        for (value,) in connection.execute(f"SELECT DISTINCT {text} FROM inside").fetchall():
            assert holds(domain, value, loose=loose), (expression, value, domain)
    assert bounded > 20


def test_a_filter_narrows_to_what_passes_it(connection: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(3)
    narrower = 0
    comparisons = ["=", "<", "<=", ">", ">=", "<>", "between", "in", "not"]
    for _ in range(200):
        column = rng.choice([c for c in COLUMNS if c.type.is_numeric])
        constants = [Literal(rng.randint(-5, 12), sqltype.INTEGER) for _ in range(2)]
        if rng.random() < 0.3:
            constants[0] = Literal(Decimal("1.25"), SqlType(Kind.DECIMAL, 3, 2))
        function = rng.choice(comparisons)
        args = [Ref(column), *constants]
        if function not in ("between", "in"):
            args = args[:2]
            rng.shuffle(args)
        inner = "<" if function == "not" else function
        predicate = functions.call(inner, tuple(args))
        if function == "not":
            predicate = functions.call("not", (predicate,))
        predicate = functions.call("and", (predicate, functions.call("is_not_null", args[:1])))
        after = narrow(DOMAINS, predicate)
        narrower += after != DOMAINS
        rows = connection.execute(
            f"SELECT {name(column)} FROM inside WHERE {lower(predicate, name)}"
        ).fetchall()
        for (value,) in rows:
            assert holds(after[column.number], value, loose=Fraction(0)), (predicate, value)
    assert narrower > 50


def test_a_boolean_column_is_between_0_and_1_undeclared() -> None:
    assert domain_of(Ref(COLUMNS[10]), {}) == BOOLEANS


def test_literals_come_back_bit_by_bit(connection: duckdb.DuckDBPyConnection) -> None:
    values = [0.1, 5e-324, 1.7976931348623157e308, 1 / 3, 2.0**-1074 * 3, -123456.789e-30]
    for value in values:
        (found,) = connection.execute(f"SELECT {literal(value, sqltype.DOUBLE)}").fetchall()
        assert found == (value,)
