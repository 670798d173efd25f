from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_catalog import CATALOG

from dp_sql.errors import NotPrivateError, QueryError, UnsupportedSQLError
from dp_sql.executor.lower_sums import holds
from dp_sql.mechanisms.sampler import MAX_SCALE
from dp_sql.parser.statement import parse
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Column, Ref
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import CountMeasure, Measure, MomentMeasure
from dp_sql.plan.release import PlannedRelease
from dp_sql.planner.pairs import Pair, pair_measure
from dp_sql.planner.plan import plan_release
from dp_sql.schema import sqltype

PAIR = Pair(Ref(Column(1, "y", sqltype.DOUBLE)), Ref(Column(2, "x", sqltype.DOUBLE)))


class _Facts:
    def image(self, *_: object) -> None:
        return None

    def frequency(self, *_: object) -> int:
        return 1


def planned(sql: str) -> PlannedRelease:
    (release,) = parse(sql, CATALOG).releases
    return plan_release(release, CATALOG, _Facts(), Fraction(1))


def shape(measure: Measure) -> object:
    match measure:
        case PairMeasure(axes=axes, null_component=null_component):
            return tuple(axis.degree for axis in axes), null_component
        case MomentMeasure(degree=degree, null_component=null_component):
            return degree, null_component
        case _:
            return type(measure)


ONE, TWO = "amount, minutes", "minutes, amount"


@pytest.mark.parametrize(
    ("items", "shapes"),
    [
        (f"COVAR_POP({ONE})", [((1, 1), False)]),
        (f"COVAR_POP({ONE}), COVAR_SAMP({TWO}), REGR_SXY({ONE}), REGR_COUNT({TWO})", [((1, 1), False)]),
        (f"REGR_AVGX({ONE}), REGR_AVGY({ONE})", [((1, 1), False)]),
        (f"REGR_SLOPE({ONE}), REGR_INTERCEPT({ONE})", [((1, 2), False)]),
        (f"REGR_SLOPE({TWO}), REGR_INTERCEPT({TWO})", [((1, 2), False)]),
        (f"COVAR_POP({ONE}), REGR_SLOPE({TWO})", [((2, 1), False)]),
        (f"REGR_SLOPE({ONE}), REGR_SLOPE({TWO})", [((2, 2), False)]),
        (f"CORR({ONE})", [((2, 2), False)]),
        (f"REGR_R2({ONE}), CORR({TWO}), COUNT(*)", [((2, 2), True)]),
        # what reads one argument alone, or none, is of that one
        (f"REGR_COUNT({ONE})", [CountMeasure]),
        (f"REGR_COUNT({ONE}), REGR_AVGX({ONE})", [(1, False)]),
        (f"REGR_AVGY({ONE}), REGR_AVGX({TWO})", [(1, False)]),
        (f"REGR_COUNT({ONE}), REGR_SXX({ONE}), REGR_AVGX({ONE})", [(2, False)]),
        (f"REGR_SXX({ONE}), REGR_SYY({ONE})", [((2, 2), False)]),
        # COUNT(*) is read from one vector; each pair and each filter has its own
        (f"AVG(amount), COVAR_POP({ONE}), COUNT(*)", [(1, True), ((1, 1), False)]),
        (f"SUM(amount), COVAR_POP({ONE}), COUNT(*)", [type(None), ((1, 1), True)]),
        (
            f"CORR({ONE}), CORR({ONE}) FILTER (WHERE minutes > 3)",
            [((2, 2), False), ((2, 2), False)],
        ),
    ],
)  # fmt: skip
def test_what_is_asked_of_a_pair_shares_the_smallest_vector(
    items: str, shapes: list[object]
) -> None:
    plan = planned(f"SELECT {items} FROM visits")
    found = [shape(vector.measure) for vector in plan.vectors]
    assert len(found) == len(shapes)
    for one, wanted in zip(found, shapes, strict=True):
        assert wanted in (type(None), one)


sizes = st.integers(1, 10**6)
steps = st.sampled_from([None, Fraction(1), Fraction(1, 100), Fraction(7)])
domains = st.builds(
    lambda low, width, step: Domain(Fraction(low), Fraction(low + width), step), sizes, sizes, steps
)
degrees = st.integers(1, 2)


@settings(max_examples=300, deadline=None)
@given(
    domains=st.tuples(domains, domains),
    degrees=st.tuples(degrees, degrees),
    rows=st.fractions(Fraction(1, 10**15), Fraction(10**13)),
    max_rows=st.sampled_from([1, 10, 10**6]),
    moved=st.sampled_from([None, Fraction(1, 10**6), Fraction(3)]),
)
def test_noise_can_be_drawn_and_sums_fit(
    domains: tuple[Domain, Domain],
    degrees: tuple[int, int],
    rows: Fraction,
    max_rows: int,
    moved: Fraction | None,
) -> None:
    room = max(1, int(2**48 / rows))
    measure = pair_measure(
        PAIR,
        degrees,
        domains,
        (moved, None),
        rows=rows,
        room=room,
        max_rows=max_rows,
        null_component=True,
    )
    assert holds(measure)
    assert measure.total <= room
    assert measure.total == 1 or measure.total * rows <= MAX_SCALE
    assert measure.total * max_rows <= 2**80
    assert all(axis.cells >= 1 for axis in measure.axes)
    for axis, domain in zip(measure.axes, domains, strict=True):
        assert (axis.low, axis.high) == (domain.low, domain.high)
        assert domain.high is not None
        assert domain.low is not None
        # rounding adds a twelfth of a squared step to a variance: below the noise up to 2^30 rows
        if axis.degree == 2 and Fraction(1, 4) <= rows <= 100 and max_rows == 1:
            natural = domain.step and (domain.high - domain.low) / domain.step == axis.cells
            assert natural or Fraction(2**26, 12 * axis.cells**2) <= rows


@pytest.mark.parametrize(
    ("low", "high", "step", "cells"),
    [(0, 120, 1, 120), (0, 9, 3, 3), (0, 10, 3, 2**15), (0, 1, None, 2**15), (0, 2**20, 1, 2**17)],
)
def test_natural_steps_are_kept_where_they_fit(
    low: int, high: int, step: int | None, cells: int
) -> None:
    domain = Domain(Fraction(low), Fraction(high), None if step is None else Fraction(step))
    other = Domain(Fraction(0), Fraction(100), Fraction(1))
    measure = pair_measure(
        PAIR, (2, 2), (domain, other), (None, None),
        rows=Fraction(1), room=2**48, max_rows=1, null_component=False,
    )  # fmt: skip
    assert [axis.cells for axis in measure.axes] == [cells, 100]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        ("CORR(amount, day)", QueryError, "takes numbers, not DATE"),
        ("CORR(amount > 3, amount)", QueryError, "takes numbers, not BOOLEAN"),
        ("CORR(amount, user_id)", NotPrivateError, "owner's column"),
        ("CORR(user_id, amount)", NotPrivateError, "owner's column"),
        ("REGR_SLOPE(amount)", UnsupportedSQLError, r"REGR_SLOPE\(y, x\)"),
        ("REGR_SLOPE(DISTINCT amount, minutes)", UnsupportedSQLError, "two numbers"),
        ("CORR(amount, minutes ORDER BY day)", UnsupportedSQLError, "two numbers"),
        ("CORR(amount, SUM(minutes))", QueryError, "can't stand in an aggregate"),
        (
            "CORR(amount, minutes, contribution_bounds_per_row => (0, 1))",
            UnsupportedSQLError,
            "CLAMP",
        ),
        ("CORR(amount, minutes * 1e9 * minutes / 0.0)", NotPrivateError, "no bounds"),
        ("CORR(amount, minutes * 1e79)", UnsupportedSQLError, "too large"),
        ("REGR_AVGX(amount, minutes / amount)", NotPrivateError, "no bounds"),
    ],
)
def test_what_is_not_answered_is_refused(call: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        planned(f"SELECT {call} FROM visits")


def test_only_what_is_read_needs_bounds() -> None:
    assert planned("SELECT REGR_AVGY(amount, minutes / amount) FROM visits")
    assert planned("SELECT REGR_COUNT(amount / minutes, minutes / amount) FROM visits")
