"""What all sets of keys of one release cost together covers what one unit changes in all of them.

The change of every vector of every set is measured on neighbours, and priced by the noise that was
calibrated for the whole release: the sum is at most the epsilon that is charged, and reaches it.
(Attack C37: one row feeds a cell of every set.)
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache
from random import Random

import pytest
from oracle.judge import released, shifts
from oracle.neighbours import database, neighbours, rows_of
from oracle.small_engine import SmallEngine, Sums
from oracle.small_schema import PUBLIC, small_catalog
from oracle.statements import pick
from test_oracle_witnesses import r as row

from dp_sql.errors import InternalError
from dp_sql.mechanisms.calibrate_gaussian import sigma1
from dp_sql.mechanisms.measurement import Measurement, calibrate_sets
from dp_sql.mechanisms.noise import NoiseKind
from dp_sql.mechanisms.selection import Coins
from dp_sql.parser.statement import parse
from dp_sql.plan.release import PlannedRelease
from dp_sql.planner.plan import plan_release
from dp_sql.planner.sets import plan_sets
from dp_sql.privacy.unit import Adjacency, Level
from dp_sql.schema.catalog import Catalog
from dp_sql.sensitivity.contribution import derive

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
GROUPS = ("ROLLUP (s, b)", "CUBE (s, n)", "GROUPING SETS ((s), (b), ())", "ROLLUP (t, s)", "s, CUBE (t, b)",
          "GROUPING SETS ((s), (s), (t))", "CUBE (x // 2, s)")  # fmt: skip
ITEMS = ("COUNT(*)", "SUM(x)", "COUNT(*), SUM(p)", "AVG(n)", "COUNT(*), COUNT(DISTINCT uid)")


@cache
def engine() -> SmallEngine:
    return SmallEngine(small_catalog(), {name: rows for name, (_, rows) in PUBLIC.items()})


def planned(
    sql: str, catalog: Catalog, *, gaussian: bool, delta: Fraction = DELTA
) -> list[tuple[PlannedRelease, Measurement]]:
    (release,) = parse(sql, catalog).releases
    plans = plan_sets(release, catalog, engine(), EPSILON)
    parts = [(plan, derive(plan, catalog.unit, engine())) for plan in plans]
    found = calibrate_sets(
        parts, epsilon=EPSILON, delta=delta, gaussian_allowed=gaussian, min_units=1
    )
    return list(zip(plans, found, strict=True))


def sums(plan: PlannedRelease) -> Sums:
    return released(plan, engine().totals(plan)), engine().chosen(plan)


def price(
    plan: PlannedRelease,
    measurement: Measurement,
    before: Sums,
    after: Sums,
) -> tuple[Fraction, Fraction]:
    """Return the pure cost of a change under its Laplace noise, and its Gaussian (distance/sigma)^2."""
    pure = squared = Fraction(0)
    first = 0
    for index, (vector, noise) in enumerate(zip(plan.vectors, measurement.noises, strict=True)):
        count = len(vector.columns)
        if plan.selection_relation is not None and index in plan.selections:
            place = plan.selections.index(index)
            moved = shifts(before[1][place], after[1][place], 0, count)
        else:
            moved = shifts(before[0], after[0], first, count)
            first += count
        chosen = measurement.selection
        if isinstance(chosen, Coins) and chosen.vector == index:
            pure += chosen.rule.epsilon * sum(moved)
        elif noise.kind is NoiseKind.NONE:
            assert not any(moved)
        elif noise.kind is NoiseKind.LAPLACE:
            pure += Fraction(noise.lattice * sum(moved), noise.scale)
        else:
            length = noise.lattice**2 * sum(s * s for s in moved)
            squared += Fraction(length, noise.scale**2)
    return pure, squared


def test_no_neighbour_costs_more_over_all_sets_than_is_charged() -> None:
    seen: Counter[str] = Counter()
    for index in range(34):
        r = Random(f"sets-{index}")
        user = pick(r, (True, True, False))
        catalog = small_catalog(
            Level.USER if user else Level.EVENT,
            pick(r, (Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION)),
            max_groups=pick(r, (1, 2, 3)),
            max_rows=pick(r, (1, 2, 3)),
        )
        items = pick(r, ITEMS if user else ITEMS[:-1])
        sql = f"SELECT {items} FROM visits GROUP BY {pick(r, GROUPS)}"
        parts = planned(sql, catalog, gaussian=r.random() < 0.7)
        charged = sum((m.cost.epsilon for _, m in parts), Fraction(0))
        delta = sum((m.cost.delta for _, m in parts), Fraction(0))
        assert charged <= EPSILON, sql
        assert delta <= DELTA, sql
        kinds = {n.kind for _, m in parts for n in m.noises}
        data = database(r, user=user)
        swap = catalog.unit.adjacency is Adjacency.SUBSTITUTION
        near = list(neighbours(r, data, user=user, substitution=swap, group_size=1))
        engine().stage("visits", [rows_of(d) for d in (data, *near)])
        engine().use("visits", 0)
        old = [sums(plan) for plan, _ in parts]
        for part in range(1, len(near) + 1):
            engine().use("visits", part)
            pure = squared = Fraction(0)
            for (plan, measurement), before in zip(parts, old, strict=True):
                p, s = price(plan, measurement, before, sums(plan))
                pure, squared = pure + p, squared + s
            seen["neighbours"] += 1
            seen["moved"] += pure + squared > 0
            if kinds == {NoiseKind.LAPLACE}:
                assert pure <= charged, sql
                seen["laplace"] += 1
            elif kinds == {NoiseKind.GAUSSIAN}:
                selects = any(m.selection is not None for _, m in parts)
                unit = sigma1(EPSILON, DELTA / 2 if selects else DELTA)
                assert unit is not None
                assert squared <= 1 / Fraction(unit) ** 2, sql
                seen["gaussian"] += 1
    assert seen["moved"] > 50
    assert min(seen["laplace"], seen["gaussian"]) > 15


@pytest.mark.parametrize("gaussian", [False, True])
def test_one_person_reaches_what_all_sets_cost_together(gaussian: bool) -> None:  # noqa: FBT001
    """Two groups of (n), two of (b), one of (): 2 + 2 + 1 groups of 3 rows each, by hand."""
    catalog = small_catalog(max_groups=2, max_rows=3)
    sql = "SELECT COUNT(*) FROM visits GROUP BY GROUPING SETS ((n), (b), ())"
    delta = Fraction(1, 10)  # so large that Gaussian noise is chosen where it may be
    parts = planned(sql, catalog, gaussian=gaussian, delta=delta)
    engine().load("visits", row(1, 3, n=0, b=True) + row(1, 3, n=1, b=False))
    full = [sums(plan) for plan, _ in parts]
    engine().load("visits", [])
    found = [
        price(plan, m, before, sums(plan)) for (plan, m), before in zip(parts, full, strict=True)
    ]
    if gaussian:
        unit = sigma1(EPSILON, delta)
        assert unit is not None
        assert float(sum(s for _, s in found)) == pytest.approx(1 / float(unit) ** 2, rel=1e-2)
        assert sum(s for _, s in found) <= 1 / Fraction(unit) ** 2
    else:
        scales = {Fraction(m.noises[0].scale, m.noises[0].lattice) for _, m in parts}
        assert scales == {Fraction(15)}
        assert sum(p for p, _ in found) == sum(m.cost.epsilon for _, m in parts) == EPSILON


def test_gaussian_noise_of_many_sets_grows_with_the_root_of_their_number() -> None:
    catalog = small_catalog(Level.EVENT)
    one = planned("SELECT s, COUNT(*) FROM visits GROUP BY s", catalog, gaussian=True)
    keys = "s, b, n, p, x"
    many = planned(f"SELECT COUNT(*) FROM visits GROUP BY CUBE ({keys})", catalog, gaussian=True)
    assert len(many) == 32
    kinds = {n.kind for _, m in many for n in m.noises}
    assert kinds == {NoiseKind.GAUSSIAN}
    unit = sigma1(EPSILON, DELTA)
    assert unit is not None
    noise = many[0][1].noises[0]
    assert noise.scale / noise.lattice == pytest.approx(float(unit) * math.sqrt(32), rel=1e-2)
    assert one[0][1].noises[0].kind is NoiseKind.LAPLACE


def test_several_sets_are_not_planned_as_one() -> None:
    catalog = small_catalog()
    (release,) = parse("SELECT COUNT(*) FROM visits GROUP BY ROLLUP (s, b)", catalog).releases
    with pytest.raises(InternalError):
        plan_release(release, catalog, engine(), EPSILON)
