"""Keys whose values are few whatever the rows hold are public, with exactly these values."""

from __future__ import annotations

import duckdb
import pytest
from small_catalog import CATALOG

from dp_sql.errors import UnsupportedSQLError
from dp_sql.parser.statement import parse
from dp_sql.plan.expression import columns_of
from dp_sql.plan.public import Image, ValueList
from dp_sql.planner.keys import KeyPlan, plan_keys


class _NoFacts:
    """Public facts of a world in which nobody asks."""

    def image(self, image: Image, limit: int) -> tuple[tuple[object, ...], ...] | None:
        raise AssertionError((image, limit))

    def is_unique(self, table: str, columns: tuple[str, ...]) -> bool:
        raise AssertionError((table, columns))


def planned(key: str) -> KeyPlan:
    sql = f"SELECT {key} AS k, COUNT(*) FROM visits GROUP BY k"
    (release,) = parse(sql, CATALOG).releases
    return plan_keys(release, CATALOG, _NoFacts(), 5)


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("dayname(day)", (*DAYS, None)),
        ("quarter(day)", (1, 2, 3, 4, None)),
        ("era(day)", (0, 1, None)),
        ("days_in_month(day)", (28, 29, 30, 31, None)),
        ("starts_with(category, 'a')", (False, True, None)),
        ("category ~ '^a'", (False, True, None)),
        ("list_position(['a', 'b'], category)", (1, 2, None)),
        ("list_extract(['low', NULL, 'high', 'low'], length(category))", ("low", None, "high")),
        ("length(category) & 3", (0, 1, 2, 3, None)),
        ("coalesce(dayname(day), 'never')", (*DAYS, "never")),
        ("if(length(category) > 3, 'long', NULL)", ("long", None)),
        (
            "CASE WHEN isodow(day) > 5 THEN 'weekend' WHEN length(category) > 1 THEN dayname(day) END",
            ("weekend", *DAYS, None),
        ),
    ],
)
def test_public_values(key: str, values: tuple[object, ...]) -> None:
    plan = planned(key)
    assert plan.private == ()
    (space,) = plan.public
    assert space.values == tuple((value,) for value in values)


@pytest.mark.parametrize(
    "key",
    [
        "category",
        "upper(category)",
        "monthname(day) || category",
        "hour(CAST(category AS TIMESTAMP)) + length(category)",
        "CASE WHEN day IS NULL THEN 'none' ELSE category END",
        "coalesce(dayname(day), category)",
        "list_extract(['a', 'b'], 1) || category",
        "md5(category)",
        "levenshtein(category, 'a')",
        "unicode(category)",
        "CASE WHEN day IS NULL THEN 0.5 ELSE length(category) END",
    ],
)
def test_private_keys(key: str) -> None:
    assert planned(key).private == (0,)


class _Asked:
    """Public facts that remember the images that they are asked for."""

    def __init__(self) -> None:
        self.images: list[Image] = []

    def image(self, image: Image, limit: int) -> tuple[tuple[object, ...], ...] | None:
        assert limit > 0
        self.images.append(image)
        return (("a",), ("b",))

    def is_unique(self, table: str, columns: tuple[str, ...]) -> bool:
        raise AssertionError((table, columns))


def asked(*keys: str) -> tuple[KeyPlan, list[Image]]:
    names = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
    sql = f"SELECT {names}, COUNT(*) FROM visits GROUP BY ALL"
    (release,) = parse(sql, CATALOG).releases
    facts = _Asked()
    return plan_keys(release, CATALOG, facts, 5), facts.images


def test_a_function_of_few_values_is_asked_of_these_values() -> None:
    plan, (image,) = asked("left(dayname(day), 3)")
    (source,) = image.sources
    assert isinstance(source, ValueList)
    assert source.values == (*DAYS, None)
    (expression,) = image.expressions
    assert columns_of(expression) == (source.column,)
    assert plan.private == ()
    assert plan.public[0].values == (("a",), ("b",))


def test_parts_and_columns_that_have_an_end_go_together() -> None:
    _, (image,) = asked("region || '-' || quarter(day) || '-' || (category = 'x')")
    assert [len(s.values) for s in image.sources if isinstance(s, ValueList)] == [4, 5, 3]


def test_keys_of_one_part_are_enumerated_together() -> None:
    """left(m, 3) and upper(m) of the same month never disagree."""
    plan, images = asked("left(monthname(day), 3)", "upper(monthname(day))")
    assert [space.positions for space in plan.public] == [(0, 1)]
    assert len(images) == 1
    assert len(images[0].sources) == 1


@pytest.mark.parametrize(
    "key",
    ["round(x, 1)", "round(x, 2)", "round(x * 3, -1)", "round(x)", "floor(x * 2)", "ceil(x)", "trunc(x, 1)",
     "trunc(x * 7)", "ceiling(-x)", "round(x / 7, 3)"],
)  # fmt: skip
def test_rounded_floats_are_those_of_duckdb(key: str) -> None:
    plan = planned(key.replace("x", "amount"))
    (space,) = plan.public
    known = {value for (value,) in space.values}
    assert None in known
    with duckdb.connect() as con:
        x = "CASE i WHEN 0 THEN 0.0 WHEN 1 THEN 200.0 WHEN 2 THEN -0.0 ELSE hash(i) % 200000000001 / 1e9 END"
        rows = con.execute(
            f"SELECT DISTINCT {key} + 0.0 FROM (SELECT {x} AS x FROM range(50000) r(i))"
        ).fetchall()
    assert {value for (value,) in rows} <= known


def test_rounded_floats_are_private_where_they_would_be_too_many() -> None:
    sql = "SELECT {} AS a, {} AS b, region, COUNT(*) FROM visits GROUP BY ALL"
    cells = "round(amount, 2)", "round(amount / 3, 2)"
    (release,) = parse(sql.format(*cells), CATALOG).releases
    plan = plan_keys(release, CATALOG, _NoFacts(), 5)
    assert plan.private == (0, 1)  # 20,002 times 6,669 of them
    assert [space.positions for space in plan.public] == [(2,)]
    assert planned(cells[0]).private == ()
    assert planned("round(amount, 3)").private == (0,)  # alone too many
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS)"
    (release,) = parse(sql.format(*cells).replace("SELECT", clause), CATALOG).releases
    with pytest.raises(UnsupportedSQLError, match="combinations"):
        plan_keys(release, CATALOG, _NoFacts(), 5)


def test_functions_of_rounded_floats_are_asked_of_their_values() -> None:
    plan, (image,) = asked("floor(amount / 50) * 50 + 0.5")
    (source,) = image.sources
    assert isinstance(source, ValueList)
    assert source.values == (0.0, 1.0, 2.0, 3.0, 4.0, None)
    assert plan.private == ()


def test_too_many_parts_are_no_public_key() -> None:
    plan, images = asked("length(category) % 5000 || '-' || length(category) % 4001")
    assert plan.private == (0,)
    assert images == []
