"""Lowers vectors of bounded length: each row's, and what each unit has in a group, scaled down.

Every step is a SELECT around the one before, so that each entry's text is written a few times, not
once for every other entry. The float arithmetic only says how much is left of a vector that is too
long. What bounds it is the last step, an exact sum of squares of integers.
"""

from __future__ import annotations

from collections.abc import Iterable

from dp_sql.executor.lower_measure import clamped_double
from dp_sql.plan.sql_text import literal
from dp_sql.plan.vector import NormMeasure
from dp_sql.schema.sqltype import BIGINT, DOUBLE, HUGEINT, SqlType

_SLACK = 2**-40  # a unit's vector that is scaled ends up so much shorter: far more than floats err
_HUGE = 2**126
Placed = Iterable[tuple[int, NormMeasure]]
"""Measures with their places among all measures."""


def entries(
    index: int, measure: NormMeasure, arguments: Iterable[tuple[str, SqlType]]
) -> list[str]:
    """Return the items of a vector's entries as DOUBLEs between their ends, NULL for NULL and NaN.

    arguments: the lowered arguments and their types.
    """
    return [
        f"{clamped_double(text, type_, *ends)} AS p{index}_{k}"
        for k, ((text, type_), ends) in enumerate(zip(arguments, measure.ends, strict=True))
    ]


def measured(rows: str, measures: Placed) -> str:
    """Return a SELECT of rows with the integers of their vectors, `g<index>_<entry>`, beside the rest.

    rows: a SELECT that has the `entries`. All integers of a vector are NULL where one entry is, or
    where they are longer than the measure's radius, which no vector is that was scaled down.

    Claim:   the squares of a row's integers add up to radius^2 at most, and no operation raises.
    Why:     the last step tests it in BIGINT. An entry's square is at most n, the rounded sum of
             squares: rounding keeps order. Where n <= limit^2 the entry is at most limit, elsewhere
             it is at most sqrt n and is divided by it: either way at most limit / step in size, up
             to a few units of a DOUBLE's last place, before it is rounded to an integer. So squares
             and their sum are at most 2^62 (`NormMeasure`).
    Assumes: DuckDB's BIGINT arithmetic is exact; IEEE arithmetic up to a few units in the last place,
             whose results for one row don't depend on other rows.
    Source:  [IEEE754], [Dwork2006]
    """
    text = rows
    for index, measure in measures:
        places = range(measure.size)
        ends = literal(float(measure.limit**2), DOUBLE)
        longest = literal(float(measure.limit / measure.step), DOUBLE)
        whole = literal(float(1 / measure.step), DOUBLE)
        text = (
            f"SELECT *, CASE WHEN n{index} <= {ends} THEN {whole} "
            f"ELSE {longest} / sqrt(n{index}) END AS f{index} FROM "
            f"(SELECT *, {_squares(f'p{index}', places)} AS n{index} FROM ({text}) AS rows_) AS long_"
        )
        scaled = _items(places, f"CAST(p{index}_{{k}} * f{index} AS BIGINT) AS w{index}_{{k}}")
        most = literal(measure.radius**2, BIGINT)
        tested = f"{_squares(f'w{index}', places)} <= {most}"
        kept = _items(places, f"CASE WHEN t{index} THEN w{index}_{{k}} END AS g{index}_{{k}}")
        text = (
            f"SELECT *, {kept} FROM (SELECT *, {tested} AS t{index} FROM "
            f"(SELECT *, {scaled} FROM ({text}) AS scaled_) AS steps_) AS tested_"
        )
    return text


def bounded(pairs: str, measures: Placed, names: dict[int, tuple[str, ...]], most: int) -> str:
    """Return a FROM item of (unit, group) pairs with what each adds of its vectors beside the rest.

    pairs: a FROM item, with a WHERE. names: of the sums of a measure's entries, by its place. most:
    rows of a unit that count in a group. The integers are `b<index>_<entry>`, 0 for a vector that is
    longer than `most` times the radius, which none is that was scaled down.

    Claim:   the squares of a unit's integers add up to (most * radius)^2 at most, and no operation
             raises.
    Why:     as for rows. A vector within the limit stays as it is; of a longer one every entry is
             truncated toward zero, after it was scaled to a length that is shorter than the limit by
             2^-40 of it, more than floats err. Either way an entry is at most the limit in size, up to
             a few units of a DOUBLE's last place, which fits a BIGINT; the squares are HUGEINT. The
             factor is at most 1, so the casts hold for any vector, whichever branch is computed.
    Assumes: as `measured`; `fits`.
    Source:  [IEEE754], [Dwork2006]
    """
    text = f"SELECT * FROM {pairs}"
    for index, measure in measures:
        places = range(measure.size)
        limit = float(measure.radius * most) * (1 - _SLACK)
        floats = [f"CAST({name} AS DOUBLE)" for name in names[index]]
        squares = " + ".join(f"{value} * {value}" for value in floats)
        ends, longest = literal(limit**2, DOUBLE), literal(limit, DOUBLE)
        whole = literal(1.0, DOUBLE)
        factor = f"CASE WHEN l{index} <= {ends} THEN {whole} ELSE {longest} / sqrt(l{index}) END"
        scaled = ", ".join(
            f"CAST(CASE WHEN l{index} <= {ends} THEN {name} "
            f"ELSE CAST(trunc({value} * e{index}) AS HUGEINT) END AS BIGINT) AS y{index}_{k}"
            for k, (name, value) in enumerate(zip(names[index], floats, strict=True))
        )
        huge = " + ".join(
            f"CAST(y{index}_{k} AS HUGEINT) * CAST(y{index}_{k} AS HUGEINT)" for k in places
        )
        square = literal((measure.radius * most) ** 2, HUGEINT)
        kept = _items(
            places, f"CASE WHEN z{index} THEN y{index}_{{k}} ELSE 0 END AS b{index}_{{k}}"
        )
        text = (
            f"SELECT *, {kept} FROM (SELECT *, {huge} <= {square} AS z{index} FROM "
            f"(SELECT *, {scaled} FROM (SELECT *, {factor} AS e{index} FROM "
            f"(SELECT *, {squares} AS l{index} FROM ({text}) AS sums_) AS long_) AS scaled_) AS steps_) "
            "AS tested_"
        )
    return f"({text}) AS vectors_"


def fits(measure: NormMeasure, most: int) -> bool:
    """Return whether what a unit of `most` rows adds fits a BIGINT, and its squares a HUGEINT."""
    length = measure.radius * most + 1
    return length < 2**62 and measure.size * length**2 < _HUGE


def _squares(name: str, places: range) -> str:
    return " + ".join(f"{name}_{k} * {name}_{k}" for k in places)


def _items(places: range, form: str) -> str:
    return ", ".join(form.format(k=k) for k in places)
