"""A release by several sets of keys: one plan for each set, made so that they are one joint release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from fractions import Fraction

from dp_sql.errors import UnsupportedSQLError
from dp_sql.plan import functions
from dp_sql.plan.expression import Column, Expression, Literal, LiteralValue, columns_of
from dp_sql.plan.public import PublicFacts
from dp_sql.plan.release import PlannedRelease, Release
from dp_sql.plan.rows import Filter
from dp_sql.planner.keys import KeyPlan, plan_keys
from dp_sql.planner.lineage import expand, scan_column
from dp_sql.planner.plan import Beside, counts_are_free, group_limit, limits_of, plan_release
from dp_sql.planner.row_grids import with_grids
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import Catalog


def plan_sets(
    release: Release, catalog: Catalog, public: PublicFacts, epsilon: Fraction
) -> tuple[PlannedRelease, ...]:
    """Return one plan for each distinct set of keys of a release, which may spend `epsilon` in all.

    A vector of one plan has the same measure, on the same grid, in every other one.

    Claim:   the plans' facts hold side by side, and a unit may change all of them: what the release
             costs is the sum over the sets, Δ1 and Δ2^2 alike.
    Why:     each plan bounds a unit's rows and groups for its own set, from the same private rows.
    Assumes: the noise is calibrated for all of them together (`mechanisms.measurement`).
    Source:  [Dwork2006b]

    Raises NotPrivateError for an unbounded argument, UnsupportedSQLError for too many groups.
    """
    if release.sets and release.options.sample_rate is not None:
        raise UnsupportedSQLError(
            "several sets of keys aren't answered over a sample.",
            hint="leave sample_rate out, or GROUP BY one set of keys",
        )
    if not release.sets:
        return (plan_release(release, catalog, public, epsilon),)
    limits = limits_of(release, catalog)
    most = limits.max_rows_per_group
    release = replace(release, source=with_grids(release.source, catalog, most))
    parts = [_part(release, one) for one in dict.fromkeys(release.sets)]
    plans = [plan_keys(part, catalog, public, most) for part in parts]
    if catalog.consistent:
        inside = list(_conditions(list(zip(parts, plans, strict=True))))
        for condition in inside:
            parts = [replace(p, source=Filter(p.source, condition)) for p in parts]
    beside = Beside(
        sum(group_limit(part, catalog, public) for part in parts),
        selects=any(plan.private for plan in plans),
        free_rows=all(counts_are_free(part, catalog) for part in parts),
    )
    return tuple(plan_release(part, catalog, public, epsilon, beside) for part in parts)


def _part(release: Release, places: tuple[int, ...]) -> Release:
    """Return the release by one of its sets. A set without keys has one group, whatever its size."""
    options = release.options if places else replace(release.options, min_units=None)
    keys = tuple(release.keys[i] for i in places)
    return replace(release, keys=keys, sets=(), options=options)


def _conditions(plans: list[tuple[Release, KeyPlan]]) -> Iterator[Expression]:
    """Yield the conditions that every public key of any set is in its domain.

    So a row that one set keeps out, for a key outside its public values, stands in no set, and
    totals are the sum of their parts before noise as well. A public table's columns are always in
    their domain.
    """
    seen: set[Expression] = set()
    for release, plan in plans:
        for space in plan.public:
            for index, position in enumerate(space.positions):
                key = release.keys[position].expression
                read = columns_of(expand(release.source, key))
                if key in seen or not any(_protected(release, column) for column in read):
                    continue
                seen.add(key)
                values = list(dict.fromkeys(row[index] for row in space.values))
                yield _among(key, values)


def _protected(release: Release, column: Column) -> bool:
    origin = scan_column(release.source, column)
    return origin is None or not origin[0].public


def _among(key: Expression, values: list[object]) -> Expression:
    """Return the condition that a key has one of these values, None standing for NULL."""
    known = [Literal(_value(v), key.type) for v in values if v is not None]
    tests: list[Expression] = []
    ends = _run([k.value for k in known])
    if ends is not None:
        tests.append(functions.call("between", (key, *(Literal(e, key.type) for e in ends))))
    elif known:
        tests.append(functions.call("in", (key, *known)))
    if len(known) < len(values):
        tests.append(functions.call("is_null", (key,)))
    if not tests:
        return Literal(value=False, type=sqltype.BOOLEAN)
    return tests[0] if len(tests) == 1 else functions.call("or", tuple(tests))


def _value(value: object) -> LiteralValue:
    if not isinstance(value, LiteralValue):
        raise TypeError("a public value is a constant")
    return value


def _run(values: list[LiteralValue]) -> tuple[LiteralValue, LiteralValue] | None:
    """Return the ends of integers or days without a gap, or None."""
    numbers = [v.toordinal() if type(v) is date else v if type(v) is int else None for v in values]
    whole = [n for n in numbers if n is not None]
    if len(whole) < 2 or len(whole) < len(numbers) or max(whole) - min(whole) != len(whole) - 1:
        return None
    return values[whole.index(min(whole))], values[whole.index(max(whole))]
