from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import dp_sql
from dp_sql.demo import SCHEMA
from dp_sql.errors import QueryError
from dp_sql.mechanisms.sampler import ExactSampler
from dp_sql.parser.statement import parse
from dp_sql.plan.release import Residual, ShownOrder
from dp_sql.postprocess.embedded import DuckDBPostProcessor
from dp_sql.postprocess.processor import PostProcessor
from dp_sql.postprocess.released import Columns, ReleasedColumn, number_column
from dp_sql.schema.loader import load
from dp_sql.schema.sqltype import BIGINT, DATE, DOUBLE, VARCHAR, Kind, SqlType

EMPTY = "CREATE TABLE purchases (customer_id BIGINT, day DATE, cds BIGINT, dollars DOUBLE)"


@pytest.fixture
def post() -> Iterator[PostProcessor]:
    made = DuckDBPostProcessor(load(SCHEMA), {}, lambda _: {}, ExactSampler())
    yield made
    made.close()


def residual(sql: str) -> Residual:
    return Residual(sql, sql, sql, (), named=True)


def keyed(kind: SqlType, keys: list[object]) -> list[ReleasedColumn]:
    numbers = np.arange(len(keys), dtype=np.float64) / 7
    return [
        ReleasedColumn("k0", kind, keys),
        ReleasedColumn("a0", DOUBLE, numbers),
        number_column(len(keys)),
    ]


@pytest.mark.parametrize("copies", [1, 400])
@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (BIGINT, [3, None, -(2**63)]),
        (VARCHAR, ["it's", "", None, "ü?"]),
        (DOUBLE, [0.1, float("nan"), float("inf"), 5e-324, None]),
        (DATE, [None, "infinity", "1997-01-31"]),
        (BIGINT, []),
    ],
)
def test_released_rows_arrive_as_they_are_few_or_many(
    post: PostProcessor, kind: SqlType, keys: list[object], copies: int
) -> None:
    columns = keyed(kind, keys * copies)
    found = post.run(
        residual('SELECT CAST(k0 AS VARCHAR), a0 FROM released."r0"'), {"r0": columns}, ("k", "a")
    )
    with duckdb.connect() as plain:
        text = f"SELECT CAST(CAST(? AS {kind}) AS VARCHAR)"
        one = [plain.execute(text, [key]).fetchone()[0] for key in keys]  # type: ignore[index]
    assert found.rows == list(zip(one * copies, np.arange(len(one) * copies) / 7, strict=True))


def test_a_statement_sees_its_own_released_rows_alone(post: PostProcessor) -> None:
    count = residual('SELECT count(*), sum(a0) FROM released."r0"')
    for size in (5, 700, 2, 0, 501, 500):
        columns = keyed(BIGINT, list(range(size)))
        shape = [(c.name, c.type) for c in columns]
        assert post.describe(count, {"r0": shape})[1] == ("BIGINT", "DOUBLE")
        ((rows, total),) = post.run(count, {"r0": columns}, ("n", "s")).rows
        assert rows == size
        assert total == pytest.approx(sum(range(size)) / 7) if size else total is None


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT * FROM released."r0"',
        "SELECT NULL AS n, [NULL], 'x', 1.5, {'a': [1], 'b c': ''}, MAP {1: 'x'}, INTERVAL 1 DAY, 1e3",
        'SELECT k0, a0 AS k0, a0 AS K0, sum(k0), -a0, a0::DECIMAL(9, 2) FROM released."r0" GROUP BY ALL',
        'WITH t AS (SELECT k0 AS "K" FROM released."r0") (SELECT k FROM t UNION ALL SELECT 1.5) LIMIT 3',
        "SELECT CAST('x' AS INT), random(), (SELECT max(k0) FROM released.\"r0\")",
    ],
)
def test_columns_are_those_that_describe_tells(post: PostProcessor, sql: str) -> None:
    shape = [("k0", BIGINT), ("a0", DOUBLE), ("s", VARCHAR), ("d", DATE)]
    with duckdb.connect() as plain:
        plain.execute("CREATE SCHEMA released")
        columns = ", ".join(f"{name} {kind}" for name, kind in shape)
        plain.execute(f"CREATE TABLE released.r0 ({columns})")
        found = plain.execute(f"DESCRIBE {sql}").fetchall()
    wanted = tuple(row[0] for row in found), tuple(row[1] for row in found)
    assert post.describe(residual(sql), {"r0": shape}) == wanted


def test_columns_are_those_of_the_tables_that_the_statement_releases(post: PostProcessor) -> None:
    item = residual('SELECT k0 AS k FROM released."r0"')
    for kind in (BIGINT, VARCHAR, DATE, BIGINT):
        assert post.describe(item, {"r0": [("k0", kind)]}) == (("k",), (str(kind),))
    with pytest.raises(QueryError, match="can't be run"):
        post.describe(item, {"r0": [("k1", BIGINT)]})
    with pytest.raises(QueryError, match="can't be run"):  # what failed isn't kept as known
        post.describe(item, {"r0": [("k1", BIGINT)]})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS a, SUM(cds) AS A FROM purchases",
        "SELECT COUNT(*) AS a, SUM(cds) AS a FROM purchases",
        "SELECT COUNT(*) AS group_number, 1 AS x FROM purchases",
        'SELECT COUNT(*) AS "Ü b", year(day) AS "select" FROM purchases GROUP BY year(day)',
        "SELECT COUNT(*) AS 'x y' FROM purchases",
        "SELECT n: COUNT(*), m: SUM(cds) FROM purchases",
        "SELECT x AS y FROM (SELECT COUNT(*) AS x FROM purchases) AS t",
        "SELECT COUNT(*) AS n FROM purchases UNION ALL SELECT 2 AS m",
        'WITH t AS (SELECT COUNT(*) AS n FROM purchases) SELECT N AS "N", n FROM t',
        "SELECT COUNT(*), SUM(CDS) / COUNT(*) AS mean FROM purchases",
        "SELECT CDS, COUNT(*) AS n FROM purchases GROUP BY cds",
        "SELECT COUNT(*), COUNT(*) AS n, count(*) FROM purchases WHERE cds > 3",
        "SELECT count(*) -- , what\n, month(DAY) , SUM(cds) AS s FROM purchases AS p GROUP BY ALL",
        "SELECT EXTRACT(year FROM day), CASE cds WHEN 1 THEN 'a, b' END, SUM(1) FROM purchases GROUP BY ALL",
        "SELECT cds > 1 AS b, P.CDS > 2, sum(cds) FILTER (p.CDS < 3) FROM purchases p GROUP BY b, 2",
    ],
)
def test_columns_have_the_names_that_duckdb_gives_them(sql: str, tmp_path: Path) -> None:
    with duckdb.connect() as plain:
        plain.execute(EMPTY)
        wanted = [row[0] for row in plain.execute(f"DESCRIBE {sql}").fetchall()]
    with dp_sql.connect(SCHEMA, ledger=tmp_path / "x.ledger") as con:
        assert con.sql(sql, epsilon=1, delta=1e-9).columns == wanted


def test_names_are_bound_once_whatever_stands_beside_them(
    post: PostProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    bind = post._describe

    def counted(asking: Residual, tables: Any) -> Columns:
        asked.append(asking.sql)
        return bind(asking, tables)

    monkeypatch.setattr(post, "_describe", counted)
    shape = {"r0": [("k0", BIGINT), ("a0", DOUBLE), ("a1", BIGINT)]}
    for number in range(3):
        text = (
            f"SELECT CDS, SUM(dollars) AS s{number}, COUNT(*) FROM purchases "
            f"WHERE dollars > {number} GROUP BY cds ORDER BY COUNT(*)"
        )
        names, types = post.describe(parse(text, load(SCHEMA)).residual, shape)
        assert names == ("cds", f"s{number}", "count_star()")
        assert types == ("BIGINT", "DOUBLE", "BIGINT")
    assert asked == ["SELECT CDS\n, COUNT(*)\nFROM purchases\nGROUP BY ALL"]


KINDS = [SqlType(k) for k in Kind if k not in (Kind.NULL, Kind.DECIMAL)] + [
    SqlType(Kind.DECIMAL, 9, 2),
    SqlType(Kind.DECIMAL, 38, 0),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_shown_columns_have_the_types_that_duckdb_tells(post: PostProcessor, kind: SqlType) -> None:
    asked = residual('SELECT "r0"."k0" AS "x y", "r0"."a0" AS "ü" FROM "released"."r0"')
    shown = replace(asked, shown=(("k0", "x y"), ("a0", "ü")))
    shape = {"r0": [("k0", kind), ("a0", DOUBLE)]}
    assert post.describe(shown, shape) == post.describe(asked, shape)


ORDERS = [  # they leave no two rows alike
    "", "k0 DESC LAST, a0 ASC LAST", "a1 ASC FIRST, a0 ASC LAST", "k1 ASC LAST, a0 DESC LAST",
    "k1 DESC FIRST, k2 ASC FIRST, a0 ASC LAST", "k3 DESC LAST, a1 DESC LAST, a0 ASC LAST",
]  # fmt: skip


def shown_order(text: str) -> tuple[ShownOrder, ...]:
    places = [place.split() for place in text.split(", ") if place]
    return tuple(ShownOrder(c, e == "DESC", n == "FIRST") for c, e, n in places)


def order_sql(order: tuple[ShownOrder, ...]) -> str:
    places = [
        f'"r0".{o.column} {"DESC" if o.descending else "ASC"} '
        f"NULLS {'FIRST' if o.nulls_first else 'LAST'}"
        for o in order
    ]
    return f" ORDER BY {', '.join(places)}" if places else ""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [0, 1, 5, 600])
@pytest.mark.parametrize("shown", ["a0 a1 a0", "k0 a1", "k0", "a2 a0", "a3", "a4", "k1 k2 k3 a1"])
def test_shown_columns_are_those_that_duckdb_would_answer(
    post: PostProcessor, size: int, order: str, shown: str
) -> None:
    items = shown.split()
    text = ", ".join(f'"r0"."{item}"' for item in items)
    asked = replace(
        residual(
            f'SELECT {text}, group_number FROM "released"."r0"{order_sql(shown_order(order))}'
        ),
        row_items=tuple(f'"r0"."{item}"' for item in items),
    )
    known = replace(asked, shown=tuple((item, item) for item in items), order=shown_order(order))
    last = np.nan if size <= 5 else -np.inf  # in an array that DuckDB scans NaN is NULL
    floats = np.resize(np.array([0.1, -0.0, np.inf, 5e-324, last]), size)
    counts = np.arange(size, dtype=np.int64) + np.iinfo(np.int64).min
    columns = [
        ReleasedColumn("k0", DATE, (["1997-01-31", "infinity", None] * size)[:size]),
        ReleasedColumn(
            "k1", VARCHAR, (["b", None, "ü", "a", "", "\U00010000", "\uffff"] * size)[:size]
        ),
        ReleasedColumn("k2", SqlType(Kind.BOOLEAN), ([True, None, False] * size)[:size]),
        ReleasedColumn("k3", DATE, ([date(1997, 1, 31), None, date(12, 1, 1)] * size)[:size]),
        ReleasedColumn("a0", BIGINT, counts),
        ReleasedColumn("a1", DOUBLE, floats),
        ReleasedColumn("a2", SqlType(Kind.INTEGER), np.arange(size) + 0.0),
        ReleasedColumn("a3", SqlType(Kind.DECIMAL, 9, 2), np.arange(size) / 4),
        ReleasedColumn("a4", DATE, np.array([None, *["1997-01-31"] * size], dtype=object)[:size]),
        number_column(size),
    ]
    found = [post.run(r, {"r0": columns}, tuple(items)) for r in (known, asked)]
    assert repr(found[0]) == repr(found[1])


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT COUNT(*) AS n FROM purchases", ((("a0", "n"),), ())),
        (
            "SELECT cds AS c, COUNT(*) AS n FROM purchases GROUP BY 1",
            ((("k0", "c"), ("a0", "n")), ()),
        ),
        (
            "SELECT cds AS c FROM purchases GROUP BY c ORDER BY COUNT(*) DESC",
            ((("k0", "c"),), (ShownOrder("a0", descending=True, nulls_first=False),)),
        ),
        (
            "SELECT cds AS c, COUNT(*) AS n FROM purchases GROUP BY c ORDER BY 2 NULLS FIRST, 1",
            (
                (("k0", "c"), ("a0", "n")),
                (
                    ShownOrder("a0", descending=False, nulls_first=True),
                    ShownOrder("k0", descending=False, nulls_first=False),
                ),
            ),
        ),
        ("SELECT COUNT(*) AS n FROM purchases ORDER BY '1'", ((), ())),
        ("SELECT COUNT(*) + 1 AS n FROM purchases", ((), ())),
        ("SELECT COUNT(*) AS n FROM purchases HAVING n > 3", ((), ())),
        ("SELECT COUNT(*) AS n FROM purchases LIMIT 1", ((), ())),
        ("SELECT cds AS c FROM purchases GROUP BY c ORDER BY c + 1", ((), ())),
        ("SELECT COUNT(*) AS n, SUM(COUNT(*)) OVER () AS s FROM purchases", ((), ())),
        ("SELECT n FROM (SELECT COUNT(*) AS n FROM purchases) AS t", ((), ())),
    ],
)
def test_an_answer_that_only_shows_released_columns_is_known(
    sql: str, wanted: tuple[tuple[tuple[str, str], ...], tuple[ShownOrder, ...]]
) -> None:
    found = parse(sql, load(SCHEMA)).residual
    assert (found.shown, found.order) == wanted
