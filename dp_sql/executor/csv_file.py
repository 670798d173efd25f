"""How a CSV file is read: its first line says the columns and with which separator, nothing is guessed."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from dp_sql.dataclass import dataclass
from dp_sql.errors import EngineError, SchemaError
from dp_sql.plan.sql_text import text_literal
from dp_sql.schema.catalog import TableSpec, ascii_lower

_SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A CSV file with a header. width: its columns; `source` calls them c0, c1 and so on.

    places: the place of each declared column, by its lower-cased name.
    """

    path: Path
    separator: str
    width: int
    places: dict[str, int]

    @property
    def source(self) -> str:
        """What stands in FROM: every value a text, NULL where it is empty.

        Claim:   which rows there are doesn't depend on a guess that one row could turn.
        Why:     the separator and the columns are those of the first line, quotes are double, and a
                 line with more or fewer values is an error, not the end of a table. Names of folders
                 like c0=7 aren't values.
        Assumes: the first line names the columns, and the path is no pattern of several
                 (`sources.read_as_written`).
        Source:  [Dwork2006b]
        """
        columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(self.width))
        return (
            f"read_csv({text_literal(str(self.path))}, auto_detect = false, header = true, "
            f"delim = {text_literal(self.separator)}, quote = '\"', escape = '\"', "
            f"columns = {{{columns}}}, hive_partitioning = false)"
        )

    def malformed(self) -> EngineError:
        """Return the error for a file whose other lines aren't like the first."""
        shown = "a tab" if self.separator == "\t" else repr(self.separator)
        return EngineError(
            f"{self.path.name!r} can't be read as CSV: not every line has {self.width} values in "
            f"UTF-8, separated by {shown}.",
            hint="mend the file; texts that hold the separator, quotes or line breaks stand in double "
            "quotes, and a quote in them is doubled",
        )


def read_header(path: Path, spec: TableSpec) -> CsvFile:
    """Return how the CSV file of a declared table is read. Only its first line is looked at.

    Raises SchemaError where no separator makes every declared column a name of that line, or makes
    one of them two, and EngineError where the line isn't UTF-8 text. What the line holds is not told:
    without a header it is a row.
    """
    headers = {separator: _names(path, separator) for separator in _SEPARATORS}
    wanted = list(spec.columns)
    best = max(headers, key=lambda s: sum(name in headers[s] for name in wanted))
    names = headers[best]
    for key, column in spec.columns.items():
        if key not in names:
            raise SchemaError(
                f"the table {spec.name!r} has no column {column.name!r}: the first line of "
                f"{path.name!r} doesn't name it.",
                hint="a header whose names are separated by a comma, semicolon, tab or |",
            )
        if names.count(key) > 1:
            raise SchemaError(
                f"the table {spec.name!r} has two columns {column.name!r}.",
                hint=f"give each column of {path.name!r} its own name",
            )
    return CsvFile(path, best, len(names), {key: names.index(key) for key in wanted})


def column_names(path: Path) -> list[str]:
    """Return the names of the first line, separated as it gives most of them.

    Raises EngineError where the line isn't UTF-8 text.
    """
    return max((_words(path, separator) for separator in _SEPARATORS), key=len)


def _names(path: Path, separator: str) -> list[str]:
    return [ascii_lower(name) for name in _words(path, separator)]


def _words(path: Path, separator: str) -> list[str]:
    try:
        with path.open("rb") as file:
            first = next(csv.reader(_texts(file), delimiter=separator), [])
    except (UnicodeDecodeError, csv.Error, OSError):
        raise EngineError(
            f"{path.name!r} can't be read as CSV: its first line isn't UTF-8."
        ) from None
    return [name.strip() for name in first]


def _texts(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield lines as text, one by one: what comes after the header isn't read."""
    for number, line in enumerate(lines):
        yield line.decode("utf-8-sig" if number == 0 else "utf-8")
