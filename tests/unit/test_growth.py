"""A short text can't mean a plan without end: parts, uses of CTEs and levels are counted while it grows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import dp_sql
from dp_sql.connection import Connection
from dp_sql.errors import QueryError
from dp_sql.parser import growth
from dp_sql.parser.growth import MAX_COPIES, MAX_LEVELS, MAX_PARTS, balance
from dp_sql.parser.links import conjunction
from dp_sql.parser.scope import Statement
from dp_sql.parser.text import parse_text
from dp_sql.plan import functions, intervals
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Expression, Literal
from dp_sql.schema import sqltype
from dp_sql.sensitivity.ownership import conjuncts

_Query = Callable[[int], str]


@pytest.fixture(scope="module")
def cdnow() -> Iterator[Connection]:
    """Return a connection that plans, and answers at no cost that matters."""
    schema = Path(dp_sql.__file__).parent / "demo" / "cdnow.yaml"
    with dp_sql.connect(schema, ledger=":memory:", in_process=True) as connection:
        yield connection


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Statement]:
    """Return the statements that are parsed in a test, in their order."""
    found: list[Statement] = []
    begin = Statement.__post_init__

    def noted(statement: Statement) -> None:
        begin(statement)
        found.append(statement)

    monkeypatch.setattr(Statement, "__post_init__", noted)
    return found


def _chain(first: str, step: str, last: str) -> _Query:
    """Return a query of CTEs, each over the one before it: {0} of them, {1} the one before."""

    def query(count: int) -> str:
        ctes = [f"c{i} AS ({step.format(i, i - 1)})" for i in range(1, count + 1)]
        return f"WITH c0 AS ({first}), {', '.join(ctes)} {last.format(count)}"

    return query


_CTES = {
    "union": _chain(
        "SELECT * FROM purchases",
        "SELECT * FROM c{1} UNION ALL SELECT * FROM c{1}",
        "SELECT COUNT(*) FROM c{0}",
    ),
    "join": _chain(
        "SELECT customer_id u, cds FROM purchases",
        "SELECT a.u, a.cds FROM c{1} a JOIN c{1} b USING (u)",
        "SELECT COUNT(*) FROM c{0}",
    ),
    "in": _chain(
        "SELECT customer_id u FROM purchases",
        "SELECT * FROM c{1} WHERE u IN (SELECT u FROM c{1})",
        "SELECT COUNT(*) FROM c{0}",
    ),
    "columns": _chain(
        "SELECT * FROM purchases",
        "SELECT *, cds + {0} AS d{0} FROM c{1}",
        "SELECT COUNT(*) FROM c{0}",
    ),
}


def _aliases(start: str, rest: str) -> _Query:
    """Return a query whose aliases each name the one before it twice; {0} is the last."""

    def query(count: int) -> str:
        items = [f"{start} AS a0", *(f"a{i - 1} + a{i - 1} AS a{i}" for i in range(1, count + 1))]
        return rest.format(", ".join(items), count)

    return query


_ALIASES = {
    "rows": _aliases("cds", "SELECT COUNT(*) FROM (SELECT {0} FROM purchases) WHERE a{1} > 1"),
    "releases": _aliases("COUNT(*)", "SELECT {0} FROM purchases"),
    "person": _aliases(
        "COUNT(*)",
        "SELECT AVG(CLAMP(a{1}, 0, 5)) FROM (SELECT customer_id, {0} FROM purchases GROUP BY 1)",
    ),
    "window": _aliases(
        "cds",
        "SELECT AVG(CLAMP(z, 0, 5)) FROM (SELECT {0}, SUM(a{1}) OVER (PARTITION BY customer_id) AS z "
        "FROM purchases)",
    ),
}


@pytest.mark.parametrize("form", _CTES)
def test_a_cte_counts_once_for_each_use(
    cdnow: Connection, counted: list[Statement], form: str
) -> None:
    with pytest.raises(
        QueryError, match=r"the CTE 'c[0-9]+' is written out at each use"
    ) as refused:
        cdnow.explain(_CTES[form](80))
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("read c")
    assert refused.value.position is not None
    assert counted[0].growth.copies < 3 * MAX_COPIES  # it stopped there
    cdnow.explain(_CTES[form](4))
    assert 0 < counted[-1].growth.copies < MAX_COPIES


@pytest.mark.parametrize("form", _ALIASES)
def test_an_alias_counts_once_for_each_use(
    cdnow: Connection, counted: list[Statement], form: str
) -> None:
    with pytest.raises(QueryError, match=r"the alias 'a[0-9]+' is written out at each use"):
        cdnow.explain(_ALIASES[form](60))
    assert counted[0].growth.parts < MAX_PARTS + 3 * MAX_LEVELS
    cdnow.explain(_ALIASES[form](4))


_DEEP: dict[str, _Query] = {
    "sum": lambda n: f"SELECT SUM(CLAMP(cds{'+cds' * n}, 0, 10)) FROM purchases",
    "product": lambda n: f"SELECT COUNT(*) FROM purchases WHERE cds{'*cds' * n} > 1",
    "concat": lambda n: f"SELECT COUNT(*) FROM purchases WHERE 'a'{'||CAST(cds AS VARCHAR)' * n} = 'a'",
    "unequal": lambda n: f"SELECT COUNT(*) FROM purchases WHERE (cds>1){'<>(cds>1)' * n}",
    "key": lambda n: f"SELECT cds{'+cds' * n} AS k, COUNT(*) FROM purchases GROUP BY 1",
    "days": lambda n: (
        f"SELECT COUNT(*) FROM purchases WHERE day{' + INTERVAL 1 DAY' * n} > DATE '2000-01-01'"
    ),
    "person": lambda n: (
        "SELECT AVG(CLAMP(n, 0, 5)) FROM (SELECT customer_id, COUNT(*)"
        f"{'+COUNT(*) FILTER (WHERE cds>1)' * n} AS n FROM purchases GROUP BY customer_id)"
    ),
    "releases": lambda n: f"SELECT COUNT(*){'+COUNT(*)' * n} FROM purchases",
    "subqueries": lambda n: f"SELECT 1{'+(SELECT COUNT(*) FROM purchases)' * n}",
    "dots": lambda n: f"SELECT a{'.b' * n} FROM purchases",
    "unions": lambda n: "SELECT COUNT(*) FROM purchases" + " UNION ALL SELECT COUNT(*) FROM purchases" * n,
    "casts": lambda n: f"SELECT COUNT(*) FROM purchases WHERE cds{'::INTEGER::BIGINT' * (n // 2)} > 1",
    "aliases": lambda n: (
        "SELECT cds AS a0, "
        + ", ".join(f"a{i} + 1 AS a{i + 1}" for i in range(n))
        + f", SUM(CLAMP(a{n}, 0, 1)) AS s FROM purchases GROUP BY cds"
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", _DEEP)
def test_too_many_levels_are_refused_in_words(cdnow: Connection, form: str) -> None:
    for count in (MAX_LEVELS + 5, 600):
        with pytest.raises(QueryError, match="the statement is nested too deeply") as refused:
            cdnow.explain(_DEEP[form](count))
        assert refused.value.hint is not None


@pytest.mark.parametrize("form", [f for f in _DEEP if f not in ("dots", "unions", "key")])
def test_below_the_limit_is_planned(cdnow: Connection, form: str) -> None:
    cdnow.explain(_DEEP[form](MAX_LEVELS - 25 if form != "aliases" else MAX_LEVELS // 2 - 10))


def test_long_chains_of_conditions_are_answered(cdnow: Connection) -> None:
    chosen = [f"(cds = {i} AND dollars >= 0)" for i in range(300)]
    exact = cdnow.sql("SELECT COUNT(*) FROM purchases WHERE cds < 300", epsilon=0.001).cost
    query = f"SELECT COUNT(*) FROM purchases WHERE {' OR '.join(chosen)}"
    assert cdnow.sql(query, epsilon=0.001).cost == exact
    having = " AND ".join(f"COUNT(*) > {i}" for i in range(600))
    cdnow.explain(f"SELECT cds, COUNT(*) FROM purchases GROUP BY cds HAVING {having}")
    where = " AND ".join(f"cds <> {i}" for i in range(600))
    cdnow.explain(f"SELECT COUNT(*) FROM purchases WHERE {where}")


@pytest.mark.parametrize("count", [1, 2, 16, 17, 300, 3000])
def test_an_and_of_many_conditions_has_all_of_them_in_order(count: int) -> None:
    parts: list[Expression] = [
        functions.call("=", (Literal(i, sqltype.BIGINT), Literal(0, sqltype.BIGINT)))
        for i in range(count)
    ]
    assert conjuncts(conjunction(parts)) == parts
    chain = parts[0]
    for part in parts[1:]:
        chain = functions.call("and", (chain, part))
    assert conjuncts(chain) == parts


@pytest.mark.parametrize("count", [2, 8, 9, 50, 301])
def test_a_bush_has_the_terms_of_its_chain_in_their_order(count: int) -> None:
    terms = [f"a = {i} AND b" if i % 3 == 0 else f"(a = {i} OR b OR c)" for i in range(count)]
    tree = parse_text(f"SELECT 1 FROM t WHERE {' OR '.join(terms)}").tree
    before = tree.sql()
    balance(tree)
    assert tree.sql() == before
    where = tree.args["where"].this
    depth, row = 0, [where]
    while row := [child for node in row for child in node.iter_expressions()]:
        depth += 1
    assert depth <= count.bit_length() + 12
    for node in tree.walk():
        assert all(child.parent is node for child in node.iter_expressions())


def test_a_caller_deep_in_its_own_calls_gets_a_query_error(cdnow: Connection) -> None:
    def called(levels: int) -> object:
        return called(levels - 1) if levels else cdnow.explain(_DEEP["sum"](60))

    frames = 0
    frame = sys._getframe()
    while frame.f_back is not None:
        frame, frames = frame.f_back, frames + 1
    with pytest.raises(QueryError, match="nested too deeply"):
        called(sys.getrecursionlimit() - frames - 150)


@pytest.mark.parametrize("number", ["9" * 9000, "-" + "9" * 401, "0." + "9" * 500])
def test_numbers_that_no_type_holds_are_refused(cdnow: Connection, number: str) -> None:
    for query in (
        "SELECT COUNT(*) FROM purchases WHERE cds > {}",
        "SELECT cds, COUNT(*) FROM purchases GROUP BY cds ORDER BY {}",
        "SELECT cds, COUNT(*) FROM purchases GROUP BY {}",
        "SELECT cds, COUNT(*) FROM purchases GROUP BY cds LIMIT {}",
    ):
        with pytest.raises(QueryError, match="a number has at most 400 characters"):
            cdnow.explain(query.format(number))


@pytest.mark.parametrize("number", ["9" * 310, "1" + "0" * 399, "1e309"])
def test_numbers_beyond_a_double_are_refused(cdnow: Connection, number: str) -> None:
    with pytest.raises(QueryError, match="too large"):
        cdnow.explain(f"SELECT COUNT(*) FROM purchases WHERE dollars > {number}")
    cdnow.explain("SELECT COUNT(*) FROM purchases WHERE dollars > " + "9" * 308)


def test_the_ends_of_a_product_of_products_stay_short(cdnow: Connection) -> None:
    square = Domain(Fraction(-3, 7), Fraction(10**12 + 1, 10**12), Fraction(1, 7))
    for _ in range(80):
        wider = intervals.short(intervals.multiply(square, square))
        exact = intervals.multiply(square, square)
        assert wider.low is None or (exact.low is not None and wider.low <= exact.low)
        assert wider.high is None or (exact.high is not None and wider.high >= exact.high)
        square = wider
        ends = [n for n in (square.low, square.high, square.step) if n is not None]
        assert all(n.denominator.bit_length() + n.numerator.bit_length() < 4096 for n in ends)
    assert not square.bounded
    cdnow.explain(
        _chain(
            "SELECT customer_id u, cds x FROM purchases",
            "SELECT u, x * x AS x FROM c{1}",
            "SELECT SUM(CLAMP(x, 0, 10)) FROM c{0}",
        )(45)
    )


def test_what_is_counted_is_every_node() -> None:
    value = Domain(Fraction(1), Fraction(2))
    assert growth.size((value, (value, 3, "a"), None)) == 2


def test_a_long_chain_of_dots_is_refused_before_it_is_read(cdnow: Connection) -> None:
    for chain in ("cds" + ".abs()" * 2000, "a" + ".b" * 5000 + ".lower()"):
        with pytest.raises(QueryError, match="nested too deeply"):
            cdnow.explain(f"SELECT COUNT(*) FROM purchases WHERE {chain} = 1")
    cdnow.explain(f"SELECT COUNT(*) FROM purchases WHERE cds{'.abs()' * 20} = 1", epsilon=1)


def test_a_call_behind_a_dot_that_no_builder_reads_is_a_query_error(cdnow: Connection) -> None:
    with pytest.raises(QueryError):
        cdnow.explain("SELECT SUM(cds.VAR_MAP()) FROM purchases", epsilon=1)
