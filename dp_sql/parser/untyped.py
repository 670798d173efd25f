"""Columns of a stage that are NULL alone, such as those of SELECT NULL: they go with every type."""

from __future__ import annotations

from collections.abc import Sequence

from dp_sql.parser.scope import Named, Statement
from dp_sql.plan.expression import Expression, Literal, Ref
from dp_sql.plan.rows import Project, Rows, StageScan
from dp_sql.schema import sqltype

NULL_TYPE = '"NULL"'  # as DuckDB describes it


def untyped(
    statement: Statement, scan: StageScan, nulls: Sequence[bool]
) -> tuple[Rows, tuple[Named, ...]]:
    """Return the rows of a stage with NULL itself for the columns that are NULL alone, and the names.

    nulls: aligned with the stage's columns; such a column is kept as an INTEGER.
    """
    if not any(nulls):
        return scan, tuple(Named(c.name, c) for c in scan.columns)
    columns = tuple(
        statement.column(c.name, sqltype.NULL) if null else c
        for c, null in zip(scan.columns, nulls, strict=True)
    )
    values: tuple[Expression, ...] = tuple(
        Literal(None, sqltype.NULL) if null else Ref(c)
        for c, null in zip(scan.columns, nulls, strict=True)
    )
    return Project(scan, columns, values), tuple(Named(c.name, c) for c in columns)
