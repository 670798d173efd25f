"""What the rows of a table break of what its schema declares. For the owner's eyes: it reads them all."""

from __future__ import annotations

from collections.abc import Iterator

from dp_sql.dataclass import dataclass
from dp_sql.executor.database import DATA
from dp_sql.plan.sql_text import identifier, literal
from dp_sql.schema.catalog import Catalog, ColumnSpec, OwnerThrough, TableSpec


@dataclass(frozen=True, slots=True)
class Question:
    """What is counted, in words, and the SQL that counts it."""

    words: str
    sql: str


def questions(catalog: Catalog, table: str) -> Iterator[Question]:
    """Yield what is to be counted of a table; where all counts are 0 the data keep what is declared.

    table: lower-cased. Values that aren't of their declared type are NULL by then.
    """
    spec = catalog.tables[table]
    for key, column in spec.columns.items():
        yield from _of_column(table, key, column)
    yield from _of_owner(table, spec)
    singles = [(key,) for key, column in spec.columns.items() if column.unique]
    for columns in (*singles, *spec.unique):
        names = ", ".join(spec.columns[key].name for key in columns)
        yield Question(
            f"values of {names} in more than one row, and declared unique",
            _often(table, columns, 1),
        )
    for key, column in spec.columns.items():
        if column.max_frequency is not None:
            most = column.max_frequency
            words = f"values of {column.name} in more than {most} rows"
            yield Question(words, _often(table, (key,), most))


def _of_column(table: str, key: str, column: ColumnSpec) -> Iterator[Question]:
    text = identifier(key)
    if column.low is not None and column.high is not None:
        low, high = literal(column.low, column.type), literal(column.high, column.type)
        words = f"rows with {column.name} outside of its bounds, which count as the nearest one"
        outside = f"({text} < {low} OR {text} > {high})"
        if column.type.is_float:
            yield _rows(table, f"rows where {column.name} is NaN, read as NULL", f"isnan({text})")
            outside += f" AND NOT isnan({text})"
        yield _rows(table, words, outside)
    if column.values is not None:
        listed = ", ".join(literal(value, column.type) for value in column.values)
        words = f"rows with {column.name} outside of its values, which groups by it leave out"
        yield _rows(table, words, f"{text} NOT IN ({listed})")
    if not column.nullable:
        yield _rows(
            table, f"rows without {column.name}, which is declared never NULL", f"{text} IS NULL"
        )
    if column.max_length is not None:
        words = f"rows with {column.name} longer than {column.max_length} characters, which is cut"
        yield _rows(table, words, f"length({text}) > {column.max_length}")


def _of_owner(table: str, spec: TableSpec) -> Iterator[Question]:
    match spec.owner:
        case None:
            return
        case str():
            name, text = spec.columns[spec.owner].name, identifier(spec.owner)
            words = f"rows without an owner ({name} is NULL), which are left out"
            yield _rows(table, words, f"{text} IS NULL")
        case OwnerThrough():
            parent = f"{DATA}.{identifier(spec.owner.table)} AS parent_"
            same = " AND ".join(
                f"parent_.{identifier(there)} = child_.{identifier(here)}"
                for here, there in spec.owner.pairs
            )
            words = (
                f"rows without an owner ({spec.owner.table} has no such row), which are left out"
            )
            yield Question(
                words,
                f"SELECT count(*) FROM {DATA}.{identifier(table)} AS child_ "
                f"WHERE NOT EXISTS (SELECT 1 FROM {parent} WHERE {same})",
            )


def _rows(table: str, words: str, condition: str) -> Question:
    return Question(words, f"SELECT count(*) FROM {DATA}.{identifier(table)} WHERE {condition}")


def _often(table: str, columns: tuple[str, ...], most: int) -> str:
    """Return the SQL that counts the values, without NULL, that more than `most` rows have."""
    names = [identifier(key) for key in columns]
    there = " AND ".join(f"{name} IS NOT NULL" for name in names)
    return (
        f"SELECT count(*) FROM (SELECT 1 FROM {DATA}.{identifier(table)} WHERE {there} "
        f"GROUP BY {', '.join(names)} HAVING count(*) > {most})"
    )
