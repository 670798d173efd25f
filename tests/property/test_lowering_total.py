"""Every function of the table, over extreme values of every type: total, canonical, DuckDB's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pytest
import trials_basic
import trials_more
import trials_pieces
from trials import DATED, MONEY, NUMBERS, UTINYINT, WIDE, Argument, Trial, check, rows_of, together

from dp_sql.executor.lower_expression import lower
from dp_sql.plan import functions
from dp_sql.plan.expression import Column, Ref
from dp_sql.plan.functions_calendar import MOVES
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import SqlType

Group = Callable[[], Iterator[Trial]]
GROUPS: tuple[Group, ...] = (*trials_basic.GROUPS, *trials_more.GROUPS, *trials_pieces.GROUPS)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect()
    for setting in ("error_on_division_by_zero = false", "ieee_floating_point_ops = true"):
        con.execute(f"SET {setting}")
    yield con
    con.close()


def _frequent(args: tuple[Argument, ...]) -> bool:
    """Return True for what runs every time: all but two thirds of the pairs of types of numbers."""
    if len(args) != 2 or not all(arg in NUMBERS for arg in args):
        return True
    first, second = (NUMBERS.index(arg) for arg in args)
    return first == second or (first + 2 * second) % 5 == 0


def _run(con: duckdb.DuckDBPyConnection, group: Group, *, frequent: bool) -> None:
    for args, trials in together(group()).items():
        if _frequent(args) == frequent:
            check(con, args, trials)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_total_and_equal_to_plain_duckdb(
    connection: duckdb.DuckDBPyConnection, group: Group
) -> None:
    _run(connection, group, frequent=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "group", [trials_basic.arithmetic, trials_basic.logic], ids=lambda group: group.__name__
)
def test_total_and_equal_for_the_other_types(
    connection: duckdb.DuckDBPyConnection, group: Group
) -> None:
    _run(connection, group, frequent=False)


@pytest.mark.parametrize("operator", "+-")
@pytest.mark.parametrize("type_", DATED, ids=str)
def test_what_a_column_of_units_moves_stays_in_duckdbs_calendar(
    connection: duckdb.DuckDBPyConnection, type_: SqlType, operator: str
) -> None:
    columns = [Ref(Column(i, f"c{i}", t)) for i, t in enumerate((type_, sqltype.BIGINT))]
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE rows_ AS SELECT CAST(v AS {type_}) AS c0, u * w AS c1 FROM"
        " (VALUES ('0001-01-01'), ('9999-12-31 23:59:59'), ('infinity'), (NULL)) AS a(v),"
        f" (VALUES ({'), ('.join(map(str, MOVES.values()))}), (1), (NULL)) AS b(u),"
        " (VALUES (-1), (1), (9), (1000)) AS c(w)"
    )
    for name, most in MOVES.items():
        moved = functions.call(operator, (columns[0], functions.call(name, (columns[1],))))
        text = lower(moved, lambda column: f"c{column.number}")
        ours = f"SELECT CAST({text} AS VARCHAR) FROM rows_"
        inside = "c0 < TIMESTAMP 'infinity'" if type_ == sqltype.TIMESTAMP else "isfinite(c0)"
        plain = f"CASE WHEN {inside} AND abs(c1) <= {most} THEN c0 {operator} {name}(c1) END"
        theirs = f"SELECT CAST({plain} AS VARCHAR) FROM rows_"
        assert connection.execute(ours).fetchall() == connection.execute(theirs).fetchall()


def test_every_function_is_tried() -> None:
    tried = {trial.name for group in GROUPS for trial in group()}
    assert tried >= set(functions.FUNCTIONS)


# Signatures that raise on some row in plain DuckDB, as measured on 2.0.1: why the guards are there.
RAISING = (
    ("({0} + {1})", (sqltype.BIGINT, sqltype.BIGINT)),
    ("({0} - {1})", (sqltype.HUGEINT, sqltype.HUGEINT)),
    ("({0} * {1})", (sqltype.INTEGER, sqltype.INTEGER)),
    ("({0} * {1})", (MONEY, MONEY)),
    ("({0} + {1})", (WIDE, WIDE)),
    ("({0} // {1})", (sqltype.BIGINT, sqltype.BIGINT)),
    ("(-{0})", (sqltype.BIGINT,)),
    ("(-{0})", (UTINYINT,)),
    ("abs({0})", (sqltype.INTEGER,)),
    ("round({0}, -1)", (sqltype.BIGINT,)),
    ("({0} = {1})", (sqltype.DATE, sqltype.TIMESTAMP)),
    ("({0} = {1})", (sqltype.VARCHAR, sqltype.INTEGER)),
    ("date_trunc('month', {0})", (sqltype.DATE,)),
    ("date_diff('microsecond', {0}, {1})", (sqltype.DATE, sqltype.DATE)),
    ("last_day({0})", (sqltype.DATE,)),
    ("({0} + {1})", (sqltype.DATE, sqltype.INTEGER)),
    ("({0} + INTERVAL 1 MONTH)", (sqltype.DATE,)),
    ("({0} - {1})", (sqltype.TIMESTAMP, sqltype.TIMESTAMP)),
    ("CAST({0} AS INTEGER)", (sqltype.DOUBLE,)),
    ("CAST({0} AS TIMESTAMP)", (sqltype.DATE,)),
    ("CAST({0} AS DATE)", (sqltype.VARCHAR,)),
)


@pytest.mark.parametrize(("plain", "types"), RAISING, ids=str)
def test_plain_duckdb_still_raises(
    connection: duckdb.DuckDBPyConnection, plain: str, types: tuple[SqlType, ...]
) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP TABLE rows_ AS {rows_of(types)}")
    text = plain.format(*(f"c{i}" for i in range(len(types))))
    with pytest.raises(duckdb.Error):
        connection.execute(f"SELECT {text} FROM rows_").fetchall()
