"""`dpsql tune`: proposals near the truth where noise is small, and a debit of what was stated."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dp_sql
from dp_sql.cli.tuning import read_bounds, tuning_text
from dp_sql.errors import BudgetExceededError, DPSQLError, ParameterError, QueryError
from dp_sql.tune import Setting, Tuning

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = 'version: 1\ndatabase: "duckdb://"\nprivacy: {privacy}\ntables:\n'
ORDERS = """
  orders:
    source: orders.csv
    {owner}
    budget: {{epsilon: {budget}, delta: 0.1, accountant: sequential}}
    columns:
      order_id: {{type: integer}}
      person: {{type: integer}}
      shop: {{type: varchar}}
      paid: {{type: double, bounds: [0, 100000], nullable: false}}
      items: {{type: integer, bounds: [0, 500]}}
      note: {{type: double}}
"""
LINES = """
  lines:
    source: lines.csv
    owner: {through: orders, on: order_id}
    budget: {epsilon: 1e6, delta: 0.1, accountant: sequential}
    columns:
      order_id: {type: integer}
      price: {type: double, bounds: [0, 5000]}
"""
USER = "{level: user, unit: person, defaults: {epsilon: 0.5, delta: 1e-6}}"
EVENT = "{level: event, unit: order, defaults: {epsilon: 0.5}}"


def connected(
    folder: Path, privacy: str, owner: str = "", *, budget: str = "1e6"
) -> dp_sql.Connection:
    """Person i has 1 + i % 10 orders, in 1 + i % 3 shops."""
    orders, lines = ["order_id,person,shop,paid,items,note"], ["order_id,price"]
    for person in range(2000):
        for number in range(1 + person % 10):
            place = len(orders)
            shop = f"s{number % (1 + person % 3)}"
            orders.append(f"{place},{person},{shop},{place % 400},{place % 20},0")
            lines.append(f"{place},{place % 100}")
    (folder / "orders.csv").write_text("\n".join(orders), encoding="utf-8")
    (folder / "lines.csv").write_text("\n".join(lines), encoding="utf-8")
    unique = ORDERS.replace(
        "order_id: {{type: integer}}", "order_id: {{type: integer, unique: true}}"
    )
    text = HEAD.replace("{privacy}", privacy) + unique.format(owner=owner, budget=budget)
    if owner:
        text += LINES
    (folder / "shop.yaml").write_text(text, encoding="utf-8")
    return dp_sql.connect(folder / "shop.yaml", ledger=":memory:")


OWNER = "owner: person\n    limits: {max_groups: 2, max_rows_per_group: 3, min_units_per_group: 2}"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Connection]:
    with connected(tmp_path_factory.mktemp("people"), USER, OWNER) as connection:
        yield connection


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Connection]:
    with connected(tmp_path_factory.mktemp("rows"), EVENT) as connection:
        yield connection


def setting(tuning: Tuning, name: str) -> Setting:
    (found,) = [s for s in tuning.settings if s.name == name]
    return found


def proposed(tuning: Tuning, name: str) -> str:
    (found,) = [c for c in setting(tuning, name).candidates if c.proposed]
    return found.value


@pytest.mark.parametrize("epsilon", ["0.7", "0.1", 3])
@pytest.mark.parametrize("by", [(), ("shop",)])
def test_the_ledger_is_debited_by_exactly_what_was_stated(
    people: dp_sql.Connection, epsilon: str | int, by: tuple[str, ...]
) -> None:
    before = people.budget()["orders"]
    tuning = people.tune("orders", epsilon=epsilon, by=by)
    after = people.budget()["orders"]
    assert tuning.result.cost["orders"].epsilon == Fraction(epsilon)
    assert tuning.result.cost["orders"].delta == 0
    assert after.statements == before.statements + 1
    spent = [Fraction(share.spent or 0) for state in (before, after) for share in state.shares[:1]]
    assert spent[1] - spent[0] == Fraction(epsilon)


def test_limits_beyond_those_of_the_schema_are_found(people: dp_sql.Connection) -> None:
    tuning = people.tune("orders", epsilon=500)
    values = [int(c.value) for c in setting(tuning, "max_rows_per_group").candidates]
    assert values[0] in (5, 6)
    assert all(9 <= value <= 11 for value in values[1:])
    # ranks of persons: a tenth has 10 orders
    assert proposed(tuning, "max_rows_per_group") in ("10", "11")
    assert setting(tuning, "max_rows_per_group").error < 5


def test_groups_of_a_key(people: dp_sql.Connection) -> None:
    tuning = people.tune("orders", epsilon=500, by=["Shop"], bounds={"items": None})
    assert proposed(tuning, "max_groups") in ("3", "4")
    # the fullest shop of a person with 10 orders in one shop
    assert proposed(tuning, "max_rows_per_group") in ("9", "10", "11")
    assert [s.name for s in tuning.settings] == ["max_groups", "max_rows_per_group", "items"]


def test_nobody_has_more_groups_than_are_public(tmp_path: Path) -> None:
    with connected(tmp_path, USER, OWNER):
        path = tmp_path / "shop.yaml"
    listed = "shop: {type: varchar, values: [s0, s1], nullable: false}"
    path.write_text(path.read_text().replace("shop: {type: varchar}", listed))
    with dp_sql.connect(path, ledger=":memory:") as connection:
        tuning = connection.tune("orders", epsilon=500, by=["shop"])
    limits = [int(c.value) for c in setting(tuning, "max_groups").candidates]
    assert max(limits) == 2
    assert proposed(tuning, "max_groups") == "2"
    assert "limits: {max_groups: 2," in tuning.yaml[0]


def test_bounds_between_wide_ones(rows: dp_sql.Connection) -> None:
    tuning = rows.tune("orders", epsilon=500, bounds={"paid": ("-1e4", "1e6"), "ITEMS": None})
    narrow, kept, wide = setting(tuning, "paid").candidates
    assert narrow.value in ("[10, 380]", "[10, 390]", "[20, 380]", "[20, 390]")
    assert narrow.cut == Fraction(1, 10)
    assert kept.value in ("[0, 400]", "[0, 410]")
    assert (kept.cut, kept.proposed) == (Fraction(1, 50), True)
    assert (wide.value, wide.cut) == ("[-10000, 1000000]", 0)
    assert proposed(tuning, "items") == "[0, 19]"
    assert [s.counted for s in tuning.settings] == ["rows", "rows"]


def test_bounds_are_looked_for_beyond_the_declared_ones(tmp_path: Path) -> None:
    with connected(tmp_path, EVENT) as connection:
        schema = (tmp_path / "shop.yaml").read_text(encoding="utf-8")
    narrow = schema.replace("[0, 100000]", "[0, 50]").replace("[0, 500]", "[5, 8]")
    (tmp_path / "narrow.yaml").write_text(narrow, encoding="utf-8")
    with dp_sql.connect(tmp_path / "narrow.yaml", ledger=":memory:") as connection:
        tuning = connection.tune(
            "orders", epsilon=500, bounds={"paid": (0, 1000), "items": (-5, 100)}
        )
    assert proposed(tuning, "paid") in ("[0, 390]", "[0, 400]")
    assert proposed(tuning, "items") == "[0, 19]"


def test_noise_is_that_of_statements_under_the_proposal(rows: dp_sql.Connection) -> None:
    tuning = rows.tune("orders", epsilon=5, bounds={"items": None})
    (*_, wide) = setting(tuning, "items").candidates
    assert wide.value == "[0, 500]"
    assert wide.deviation == pytest.approx(2**0.5 * 500 / 0.5, rel=0.01)
    assert tuning.epsilon == Fraction(1, 2)


def test_noise_of_limits(people: dp_sql.Connection) -> None:
    for candidate in setting(people.tune("orders", epsilon=9), "max_rows_per_group").candidates:
        assert candidate.deviation == pytest.approx(2**0.5 * int(candidate.value) / 0.5, rel=0.01)
    tuning = people.tune("orders", epsilon=500, by=["shop"])
    rows = int(proposed(tuning, "max_rows_per_group"))
    for candidate in setting(tuning, "max_groups").candidates:
        laplace = 2**0.5 * int(candidate.value) * rows / 0.5
        assert candidate.deviation is not None
        assert candidate.deviation > 0.99 * laplace  # a part of epsilon chooses the keys
    deviations = [c.deviation or 0 for c in setting(tuning, "max_groups").candidates]
    assert deviations == sorted(deviations)


def test_rows_below_an_owners_table(people: dp_sql.Connection) -> None:
    tuning = people.tune("lines", epsilon=500)
    assert proposed(tuning, "max_rows_per_group") in ("10", "11")
    assert tuning.result.cost["lines"].epsilon == 500
    assert tuning.yaml[-1].startswith("  price: {type: double, bounds: [0, ")


def test_the_lines_to_paste_are_a_schema(people: dp_sql.Connection, tmp_path: Path) -> None:
    tuning = people.tune("orders", epsilon=50, by=["shop"], bounds={"paid": None})
    limits, columns, paid = tuning.yaml
    assert limits.startswith("limits: {max_groups: ")
    assert limits.endswith(", min_units_per_group: 2}")
    assert columns == "columns:"
    text = people.catalog.path.read_text(encoding="utf-8")
    old = "limits: {max_groups: 2, max_rows_per_group: 3, min_units_per_group: 2}"
    text = text.replace(old, limits).replace(
        "paid: {type: double, bounds: [0, 100000], nullable: false}", paid.strip()
    )
    assert "nullable: false" in paid
    for name in ("orders.csv", "lines.csv"):
        (tmp_path / name).write_bytes((people.catalog.path.parent / name).read_bytes())
    (tmp_path / "new.yaml").write_text(text, encoding="utf-8")
    with dp_sql.connect(tmp_path / "new.yaml", ledger=":memory:") as connection:
        assert connection.catalog.tables["orders"].limits != people.catalog.tables["orders"].limits


def test_what_is_public_is_free(tmp_path: Path) -> None:
    privacy = USER.replace("{level: user", "{level: user, adjacency: zero_out")
    with connected(tmp_path, privacy, OWNER) as connection:
        tuning = connection.tune("orders", epsilon=1)
        assert tuning.result.cost["orders"].epsilon <= 1
        assert proposed(tuning, "max_rows_per_group").isdigit()


@pytest.mark.parametrize(
    ("table", "asked", "kind", "words"),
    [
        ("order", {}, QueryError, "there is no table"),
        ("orders", {"by": ["shops"]}, QueryError, "no column 'shops'"),
        ("orders", {"by": ["person"]}, QueryError, "one group for each"),
        ("orders", {"bounds": {"shop": None}}, QueryError, "no bounds to tune"),
        ("orders", {"bounds": {"person": ("0", "9")}}, QueryError, "no bounds to tune"),
        ("orders", {"bounds": {"order_id": ("0", "9")}}, QueryError, "no bounds to tune"),
        ("orders", {"bounds": {"note": None}}, QueryError, "no declared bounds"),
        ("orders", {"bounds": {"paid": ("9", "9")}}, ParameterError, "don't rise"),
        ("orders", {"bounds": {"paid": ("a", "9")}}, ParameterError, "a finite decimal"),
        ("orders", {"bounds": {"paid": ("nan", "9")}}, ParameterError, "a finite decimal"),
        ("orders", {"epsilon": 0}, ParameterError, "above zero"),
        ("orders", {"epsilon": "much"}, ParameterError, "finite decimal"),
    ],
)
def test_what_cant_be_tuned_is_refused_and_free(
    people: dp_sql.Connection,
    table: str,
    asked: dict[str, object],
    kind: type[DPSQLError],
    words: str,
) -> None:
    before = people.budget()["orders"].statements
    with pytest.raises(kind, match=words):
        people.tune(table, **{"epsilon": 1, **asked})  # type: ignore[arg-type]
    assert people.budget()["orders"].statements == before


def test_rows_have_no_limits(rows: dp_sql.Connection) -> None:
    with pytest.raises(QueryError, match="protects single rows"):
        rows.tune("orders", epsilon=1, by=["shop"])
    assert [s.counted for s in rows.tune("orders", epsilon=1).settings] == ["rows", "rows"]


def test_a_budget_without_room_is_not_touched(tmp_path: Path) -> None:
    with connected(tmp_path, EVENT, budget="0.5") as connection:
        with pytest.raises(BudgetExceededError):
            connection.tune("orders", epsilon=1)
        assert connection.budget()["orders"].statements == 0


def test_the_tables_of_the_command(people: dp_sql.Connection) -> None:
    tuning = people.tune("orders", epsilon=50, by=["shop"], bounds={"paid": None})
    text = tuning_text(tuning, "orders")
    for words in ("max_groups", "persons cut", "deviation of SUM(paid)", "To paste below orders"):
        assert words in text
    assert text.count("proposed") == 3
    assert text.endswith(f"    {tuning.yaml[-1]}\n")


def test_bounds_of_the_command_line() -> None:
    assert read_bounds(["a=0:5", "b", " c = -1 : 1e3 "]) == {
        "a": ("0", "5"),
        "b": None,
        "c": ("-1", "1e3"),
    }
    for wrong in ("=1:2", "a=", "a=1", "a=:2", "a=1:"):
        with pytest.raises(ParameterError, match="isn't column=low:high"):
            read_bounds([wrong])
