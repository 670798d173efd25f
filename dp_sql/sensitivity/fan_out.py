"""Why nothing bounds how often a join repeats a row, in the words of that join."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dp_sql.errors import NotPrivateError
from dp_sql.plan.expression import Call, columns_of
from dp_sql.plan.public import PublicFacts
from dp_sql.plan.relation import output
from dp_sql.plan.rows import Filter, Join, Mark, Rows, Scan, SetRows, Site, StageScan
from dp_sql.plan.sql_text import identifier
from dp_sql.privacy.unit import Level
from dp_sql.sensitivity.multiplicity import fixed_columns, partners, rows_per_unit
from dp_sql.sensitivity.ownership import conjuncts, is_protected

_JOIN = re.compile(r"\s+((INNER|LEFT|OUTER|CROSS)\s+)*JOIN\s*$", re.IGNORECASE)


def bounded_rows(rows: Rows, level: Level, public: PublicFacts) -> int:
    """Return how many rows of a relation a unit owns at most.

    Raises NotPrivateError where a join repeats a row any number of times, at the first such join.
    """
    found = rows_per_unit(rows, level, public)
    if found is not None:
        return found
    for join, other in _unbounded(rows, level, public):
        raise _refused(join, other)
    raise NotPrivateError(
        "this join can repeat a row any number of times, so one row's effect has no bound.",
        hint="join public tables on a column that is unique there, or declare its max_frequency",
    )


def _unbounded(rows: Rows, level: Level, public: PublicFacts) -> Iterator[tuple[Join, Rows]]:
    """Yield the joins with public rows that repeat a row without bound, the innermost first."""
    match rows:
        case Scan() | StageScan():
            return
        case Join(left=left, right=right):
            for side in (left, right):
                yield from _unbounded(side, level, public)
            if is_protected(left) is is_protected(right):
                return
            protected, other = (right, left) if is_protected(right) else (left, right)
            known = rows_per_unit(protected, level, public) is not None
            if known and partners(other, rows.condition, public) is None:
                yield rows, other
        case Mark(left=left):
            yield from _unbounded(left, level, public)
        case SetRows(left=left, right=right):
            yield from _unbounded(left, level, public)
            yield from _unbounded(right, level, public)
        case _:
            yield from _unbounded(rows.source, level, public)


def _refused(join: Join, other: Rows) -> NotPrivateError:
    site = join.site
    name = "this relation" if site is None else site.name
    own = {column.number for column in output(other)}
    fixed = fixed_columns(other, join.condition)
    keys = [column.name for column in output(other) if column.number in fixed]
    read = [
        part
        for part in conjuncts(join.condition)
        if isinstance(part, Call)
        and part.function == "="
        and any(c.number in own for c in columns_of(part))
    ]
    if keys:
        key = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
        why = f"several rows of {name} may have one value of {key}"
        hint = "declare the key's max_frequency in the schema" if len(keys) == 1 else None
    elif read:
        names = dict.fromkeys(c.name for part in read for c in columns_of(part) if c.number in own)
        several = f"several rows of {name} may give one value"
        why = f"it compares an expression of {', '.join(names)}, and {several}"
        hint = f"a column of {name} that is unique, as it is"
    else:
        why = f"no equality with a column of {name} is among its conditions"
        hint = f"AND {name}.column = …, where the column is unique"
    once = "each key joined once: JOIN (SELECT DISTINCT … FROM …), or a SEMI JOIN"
    error = NotPrivateError(
        f"the join with {name} can repeat a row any number of times: {why}. So one row's effect has "
        "no bound.",
        hint=f"{hint}, or {once}" if hint else once,
        text=None if site is None else site.text,
        position=None if site is None else site.position,
    )
    if site is not None:
        error.tries = tuple(_tries(site, other, fixed))
    return error


def _tries(site: Site, other: Rows, fixed: frozenset[int]) -> Iterator[str]:
    """Yield the statement with each key of the joined table once, and as a semi join."""
    if site.span is None:
        return
    start, end = site.span
    before, after = site.text[:start], site.text[end:]
    scan = other.source if isinstance(other, Filter) else other
    if isinstance(scan, Scan) and fixed:
        keys = ", ".join(_written(c.name) for c in scan.columns if c.number in fixed)
        others = [_written(c.name) for c in scan.columns if c.number not in fixed]
        largest = ", ".join([keys, *(f"MAX({name}) AS {name}" for name in others)])
        yield f"{before}(SELECT DISTINCT {keys} FROM {site.table}) AS {site.name}{after}"
        groups = f"SELECT {largest} FROM {site.table} GROUP BY {keys}"
        yield f"{before}({groups}) AS {site.name}{after}"
    if _JOIN.search(before) and after.lstrip()[:3].upper().startswith(("ON", "USI")):
        yield f"{_JOIN.sub(' SEMI JOIN ', before)}{site.text[start:]}"


def _written(name: str) -> str:
    plain = name.isascii() and name.isidentifier() and name.islower()
    return name if plain else identifier(name)
