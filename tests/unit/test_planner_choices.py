"""What the planner reads of declarations: numbers of values, ends of domains, allowed noise."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction

import pytest
from small_catalog import CATALOG

from dp_sql.errors import UnsupportedSQLError
from dp_sql.parser.statement import parse
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Call, Column, Ref
from dp_sql.plan.rows import RowAggregate, RowAggregateKind
from dp_sql.planner.distincts import caps_of
from dp_sql.planner.lineage import declared, finite_values
from dp_sql.planner.measures import _mean_of_unit, _sum
from dp_sql.planner.row_grids import gridded
from dp_sql.planner.selection import gaussian_allowed
from dp_sql.planner.sets import _among
from dp_sql.schema.catalog import AccountantKind, ColumnSpec
from dp_sql.schema.sqltype import DATE, DOUBLE, INTEGER, Kind, SqlType


def test_a_unit_may_vouch_for_powers_of_two_and_all_its_rows() -> None:
    (aggregate,) = (
        parse("SELECT COUNT(DISTINCT category) FROM visits", CATALOG).releases[0].aggregates
    )
    found = {rows: caps_of(aggregate, rows) for rows in (1, 2, 3, 5, 8)}
    assert found == {1: (1,), 2: (1, 2), 3: (1, 2, 3), 5: (1, 2, 4, 5), 8: (1, 2, 4, 8)}
    for bound, cap in ((Fraction(3), 3), (Fraction(7, 2), 3), (Fraction(1, 2), 1)):
        assert caps_of(replace(aggregate, bounds=(Fraction(0), bound)), 5) == (cap,)


def test_both_ends_of_a_declaration_are_among_its_values() -> None:
    day = ColumnSpec("d", SqlType(Kind.DATE), date(2024, 2, 28), date(2024, 3, 1), nullable=False)
    assert finite_values(day, 3) == (date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1))
    assert finite_values(day, 2) is None
    number = ColumnSpec("n", SqlType(Kind.INTEGER), -1, 1, nullable=False)
    assert finite_values(number, 3) == (-1, 0, 1)
    assert finite_values(number, 2) is None
    assert finite_values(replace(number, high=None), 9) is None
    assert finite_values(replace(number, low=None), 9) is None


def test_a_declared_text_is_as_long_as_the_longest_of_its_values() -> None:
    word = ColumnSpec("w", SqlType(Kind.VARCHAR), values=("a", "long", "of"))
    assert declared(word).max_length == 4


def test_declared_numbers_lie_between_the_least_and_the_largest() -> None:
    found = declared(ColumnSpec("n", SqlType(Kind.INTEGER), values=(5, -2, 9)))
    assert (found.low, found.high) == (-2, 9)


def test_moments_between_two_days_are_no_list_of_days() -> None:
    ends = (datetime(2024, 1, 1), datetime(2024, 1, 3))  # noqa: DTZ001  no zone in a TIMESTAMP
    assert finite_values(ColumnSpec("t", SqlType(Kind.TIMESTAMP), *ends), 100) is None


def test_gaussian_noise_needs_an_accountant_for_it_at_every_table() -> None:
    assert gaussian_allowed(("visits", "users"), CATALOG)
    budget = CATALOG.tables["users"].budget
    assert budget is not None
    pure = replace(CATALOG.tables["users"], budget=replace(budget, accountant=AccountantKind.PURE))
    catalog = replace(CATALOG, tables={**CATALOG.tables, "users": pure})
    assert gaussian_allowed(("visits",), catalog)
    assert not gaussian_allowed(("visits", "users"), catalog)
    assert not gaussian_allowed(("users",), catalog)


@pytest.mark.parametrize(("low", "high"), [(-(10**400), 0), (-1, 10**400), (10**400, 10**400 + 1)])
def test_bounds_past_double_have_no_grid_for_squares(low: int, high: int) -> None:
    x = Ref(Column(1, "x", DOUBLE))
    spread = RowAggregate(RowAggregateKind.STDDEV_SAMP, x, Column(2, "s", DOUBLE))
    with pytest.raises(UnsupportedSQLError, match="too far apart"):
        gridded(spread, {1: Domain(Fraction(low), Fraction(high))})


def test_no_sum_has_more_steps_than_double_holds() -> None:
    x = Ref(Column(1, "x", DOUBLE))
    for low, high in ((0, 2**80), (-(2**80), 1), (-(2**80), 2**70)):
        domain = Domain(Fraction(low), Fraction(high), Fraction(1))
        made = _sum(x, domain, Fraction(1), None)
        assert max(abs(low), abs(high)) / made.step <= 2**52


@pytest.mark.parametrize(
    ("values", "functions"),
    [
        ([1, 2, 3], ["between"]), ([3, 1, 2], ["between"]), ([1, 2, 4], ["in"]), ([5], ["in"]),
        ([1, 2, None], ["or", "between", "is_null"]), ([None], ["is_null"]),
        ([date(2024, 2, 29), date(2024, 3, 1)], ["between"]),
    ],
)  # fmt: skip
def test_a_key_is_kept_among_its_values(values: list[object], functions: list[str]) -> None:
    kind = DATE if isinstance(values[0], date) else INTEGER
    made = _among(Ref(Column(1, "k", kind)), values)
    calls = [made, *(made.args if isinstance(made, Call) else ())]
    assert [c.function for c in calls if isinstance(c, Call)] == functions


def test_means_of_a_unit_reach_over_all_values() -> None:
    x = Ref(Column(1, "x", DOUBLE))
    bounds = (Fraction(2), Fraction(4))
    for low, high in ((0, Fraction(999, 100)), (-7, 3), (2, 4), (3, 4)):
        domain = Domain(Fraction(low), Fraction(high))
        made = _mean_of_unit(x, bounds, domain, Fraction(1), 64, null_component=False)
        first, last = made.rows or (0, made.cells)
        width = (made.high - made.low) / made.cells
        assert made.low + first * width <= min(low, made.low)
        assert made.low + last * width >= max(high, made.high)
        assert (made.rows is None) == (low >= 2 and high <= 4)
    for low, high in ((0, 10**30), (-(10**30), 3)):
        domain = Domain(Fraction(low), Fraction(high))
        with pytest.raises(UnsupportedSQLError, match="far narrower"):
            _mean_of_unit(x, bounds, domain, Fraction(1), 64, null_component=False)
