"""Keys whose values are few whatever the rows hold are public, with exactly these values."""

from __future__ import annotations

import pytest
from small_catalog import CATALOG

from dp_sql.parser.statement import parse
from dp_sql.plan.public import Image
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
    return plan_keys(release, CATALOG, _NoFacts())


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
        "CASE WHEN day IS NULL THEN 'none' ELSE category END",
        "coalesce(dayname(day), category)",
        "list_extract(['a', 'b'], 1) || category",
        "md5(category)",
        "levenshtein(category, 'a')",
        "unicode(category)",
        "CASE WHEN day IS NULL THEN 0.5 ELSE quarter(day) END",
    ],
)
def test_private_keys(key: str) -> None:
    assert planned(key).private == (0,)
