"""Budgets by block, through SQL: what a statement debits, what is left, what is refused and said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.budget.accountant import EPSILON_UNITS
from dp_sql.cli.budgets import budgets_text
from dp_sql.cli.ledgers import Where
from dp_sql.errors import BudgetExceededError, LedgerError, ParameterError

SCHEMA = """\
version: 1
database: duckdb:///shop.duckdb
privacy: {{level: {level}}}
tables:
  sales:
    budget: {{epsilon: 1, {budget}}}
    columns:
      day: {{type: {day}}}
      shop: {{type: integer, values: [1, 2, 3]}}
      price: {{type: double, bounds: [0, 10]}}
"""
USERS = """\
version: 1
database: duckdb:///users.duckdb
privacy: {level: user}
tables:
  people:
    owner: id
    budget: {epsilon: 1, accountant: pure, blocks: cohort}
    columns: {id: {type: bigint, unique: true}, cohort: {type: integer, immutable: true}}
  visits:
    owner: id
    budget: {epsilon: 1, accountant: pure, blocks: id}
    columns: {id: {type: bigint}}
"""
DAY = "SELECT COUNT(*) FROM sales WHERE day = '2026-01-{:02}'"
MONTH = "SELECT AVG(price) FROM sales WHERE day BETWEEN '2026-01-01' AND '2026-01-30'"
ALL = "SELECT COUNT(*) FROM sales"


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shop")
    connection = duckdb.connect(str(place / "shop.duckdb"))
    connection.execute(
        "CREATE TABLE sales AS SELECT DATE '2026-01-01' + CAST(i % 40 AS INTEGER) AS day, "
        "CAST(1 + i % 3 AS INTEGER) AS shop, CAST(i % 10 AS DOUBLE) AS price FROM range(4000) AS t(i)"
    )
    connection.close()
    return place


@contextmanager
def opened(
    folder: Path,
    budget: str = "blocks: day, accountant: pure",
    level: str = "event",
    *,
    day: str = "date",
    ledger: str | Path = ":memory:",
) -> Iterator[dp_sql.Connection]:
    file = folder / "shop.yaml"
    file.write_text(SCHEMA.format(level=level, budget=budget, day=day))
    with dp_sql.connect(file, ledger=ledger, reuse=False) as connection:
        yield connection


def spent(connection: dp_sql.Connection, *blocks: str, table: str = "sales") -> list[float]:
    """Return the epsilon of all that has been debited to blocks, to two digits."""
    identity = connection._identities[table]
    states = [connection._ledger.state(identity, None, frozenset({b})) for b in blocks]
    return [round(state.spent.epsilon / EPSILON_UNITS, 2) for state in states]


def test_a_statement_debits_the_blocks_that_its_where_names(folder: Path) -> None:
    with opened(folder) as connection:
        count = connection.sql(DAY.format(3), epsilon="0.4").fetchall()[0][0]
        assert abs(count - 100) < 100
        connection.sql(MONTH, epsilon="0.3")
        connection.sql(ALL, epsilon="0.1")
        found = spent(connection, "2026-01-02", "2026-01-03", "2026-01-31", "2030-12-31")
        assert found == [0.4, 0.8, 0.1, 0.1]


def test_a_full_block_refuses_what_reads_it_and_nothing_else(folder: Path) -> None:
    with opened(folder) as connection:
        connection.sql(DAY.format(3), epsilon="0.9")
        for sql in (DAY.format(3), MONTH, ALL):
            with pytest.raises(BudgetExceededError, match=r"block 2026-01-03 of `sales`") as caught:
                connection.sql(sql, epsilon="0.2")
            assert caught.value.hint == "epsilon = 0.1 would fit"
        connection.sql(DAY.format(4), epsilon=1)
        assert spent(connection, "2026-01-03", "2026-01-05") == [0.9, 0]


def test_what_no_row_can_change_costs_nothing(folder: Path) -> None:
    with opened(folder) as connection:
        sql = f"{DAY.format(3)} AND day = '2026-01-04'"
        assert connection.sql(sql, epsilon="0.5").cost == {}
        both = f"SELECT ({sql}) + ({DAY.format(5)})"
        assert connection.sql(both, epsilon="0.5").cost["sales"].epsilon == Fraction(1, 4)
        assert spent(connection, "2026-01-03", "2026-01-05") == [0, 0.25]


def test_a_statement_of_several_releases_debits_the_blocks_of_all(folder: Path) -> None:
    with opened(folder) as connection:
        connection.sql(f"SELECT ({DAY.format(3)}) - ({DAY.format(5)})", epsilon="0.5")
        assert spent(connection, "2026-01-03", "2026-01-04", "2026-01-05") == [0.5, 0, 0.5]


@pytest.mark.parametrize("accountant", ["pure", "zcdp", "sequential"])
def test_where_rows_move_between_blocks_each_is_debited_twice(
    folder: Path, accountant: str
) -> None:
    budget = f"delta: 1e-6, blocks: day, accountant: {accountant}"
    with opened(folder, budget, "event, adjacency: substitution") as connection:
        cost = connection.sql(DAY.format(3), epsilon="0.1", delta=0).cost["sales"]
        assert cost.epsilon == Fraction(1, 10)  # of the statement; the blocks have twice of it
        connection.sql(ALL + " WHERE price > 3", epsilon="0.05", delta=0)
        assert spent(connection, "2026-01-03", "2026-01-04") == [0.25, 0.05]
        text = connection.explain(DAY.format(3), epsilon="0.2", delta=0)
        assert "each of them 2 times, as neighbours may differ in 2 blocks" in text
        with pytest.raises(BudgetExceededError, match="debited 2 times") as caught:
            connection.sql(DAY.format(3), epsilon=90, delta=0)
        fitting = caught.value.fitting
        assert fitting is not None
        with pytest.raises(BudgetExceededError):
            connection.sql(DAY.format(3), epsilon=fitting * Fraction(21, 20), delta=0)
        connection.sql(DAY.format(3), epsilon=fitting, delta=0)


def test_a_restricted_count_moves_by_one_where_rows_are_replaced(folder: Path) -> None:
    with opened(folder, "blocks: day, accountant: pure", "event, adjacency: substitution") as c:
        assert c.sql(ALL, epsilon=1).cost == {}  # how many rows there are is public
        assert c.sql(DAY.format(3), epsilon="0.1").cost["sales"].epsilon == Fraction(1, 10)


def test_a_group_of_three_debits_each_block_three_times(folder: Path) -> None:
    with opened(folder, "blocks: day, accountant: pure", "event, group_size: 3") as connection:
        connection.sql(DAY.format(3), epsilon="0.3")
        assert spent(connection, "2026-01-03") == [0.9]


def test_users_in_blocks_of_what_never_changes(tmp_path: Path) -> None:
    connection = duckdb.connect(str(tmp_path / "users.duckdb"))
    connection.execute("CREATE TABLE people (id BIGINT PRIMARY KEY, cohort INTEGER)")
    connection.execute("INSERT INTO people SELECT i, i % 5 FROM range(500) AS t(i)")
    connection.execute("CREATE TABLE visits AS SELECT i % 500 AS id FROM range(3000) AS t(i)")
    connection.close()
    (tmp_path / "users.yaml").write_text(USERS)
    joined = "SELECT COUNT(*) FROM people p JOIN visits v ON p.id = v.id WHERE p.cohort = 3"
    with dp_sql.connect(tmp_path / "users.yaml", ledger=":memory:") as connection:
        connection.sql("SELECT COUNT(*) FROM people WHERE cohort IN (1, 2)", epsilon="0.5")
        connection.sql(joined, epsilon="0.25")
        assert spent(connection, "1", "3", "4", table="people") == [0.5, 0.25, 0]
        assert spent(connection, "7", table="visits") == [0.25]  # no condition names its owners
        connection.sql("SELECT COUNT(*) FROM visits WHERE id = 7", epsilon="0.5")
        assert spent(connection, "7", "8", table="visits") == [0.75, 0.25]


def test_explain_says_which_blocks_and_why_all(folder: Path) -> None:
    with opened(folder) as connection:
        assert "debits 1 block of day: 2026-01-03" in connection.explain(DAY.format(3), epsilon=1)
        month = connection.explain(MONTH, epsilon=1)
        assert "debits 30 blocks of day: 2026-01-01, 2026-01-02, … 2026-01-30" in month
        later = connection.explain(ALL + " WHERE day > '2026-01-03'", epsilon=1)
        assert "debits every block of day: its condition on day has no upper end" in later
        connection.sql(DAY.format(3), epsilon="0.5")
        assert "1 like it fits" in connection.explain(DAY.format(3), epsilon="0.5")
        assert "2 like it fit" in connection.explain(DAY.format(4), epsilon="0.5")


def test_a_batch_debits_each_statement_its_own_blocks(folder: Path) -> None:
    with opened(folder) as connection:
        connection.batch([DAY.format(1), DAY.format(2)], epsilon="0.8")
        assert spent(connection, "2026-01-01", "2026-01-02") == [0.4, 0.4]


@pytest.mark.parametrize(
    ("budget", "day"),
    [("accountant: pure", "date"), ("blocks: shop, accountant: pure", "date"),
     ("blocks: day, accountant: pure", "varchar")],
)  # fmt: skip
def test_other_blocks_are_another_budget(
    folder: Path, tmp_path: Path, budget: str, day: str
) -> None:
    with opened(folder, ledger=tmp_path / "l") as connection:
        connection.sql(DAY.format(3), epsilon=1)
    with (
        pytest.raises(LedgerError, match="blocks day DATE"),
        opened(folder, budget, day=day, ledger=tmp_path / "l"),
    ):
        pass


def test_the_owner_sees_how_many_blocks_there_are_and_one_of_them(
    folder: Path, tmp_path: Path
) -> None:
    ledger = tmp_path / "l"
    with opened(folder, ledger=ledger) as connection:
        connection.sql(MONTH, epsilon="0.3")
        connection.sql(DAY.format(7), epsilon="0.5")
    where = Where(folder / "shop.yaml", None, None, ledger)
    text = budgets_text(where, None)
    assert "blocks of day: 30 debited by name; the fullest, 2026-01-07: 80 % used" in text
    assert "block 2026" not in text
    one = budgets_text(where, None, "2026-01-08")
    assert "block 2026-01-08\n    epsilon: 30 % used, 0.7 left" in one
    assert "block 2027-01-01, never debited by name\n    epsilon: 0 % used" in budgets_text(
        where, None, "2027-01-01"
    )
    with opened(folder, "accountant: pure"), pytest.raises(ParameterError, match="has blocks"):
        budgets_text(Where(folder / "shop.yaml", None, None, tmp_path / "m"), None, "x")
