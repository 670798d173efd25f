"""What an analyst gets: rows with names and types, an interval beside every noisy number, the cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dp_sql.errors import EngineError, ParameterError
from dp_sql.postprocess.released import Answer
from dp_sql.privacy.cost import Cost

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Interval = tuple[float, float] | None

_ARROW = {
    "BOOLEAN": "bool_", "TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32",
    "BIGINT": "int64", "UTINYINT": "uint8", "USMALLINT": "uint16", "UINTEGER": "uint32",
    "UBIGINT": "uint64", "FLOAT": "float32", "DOUBLE": "float64", "VARCHAR": "string",
    "DATE": "date32",
}  # fmt: skip


class Result:
    """The answer to one statement. Iterating gives its rows as tuples.

    Attributes:
        columns: the column names, as DuckDB would name them.
        types: the SQL types of the columns, aligned.
        cost: what the statement cost each protected table, by its name in the schema; empty when it
            was free.
        notes: sentences about options that were answered in another way than they are written.
        repeated: whether something of it was released before and is shown again at no cost.
    """

    def __init__(
        self,
        answer: Answer,
        cost: Mapping[str, Cost],
        spread: Callable[[float], list[tuple[Interval, ...]]],
        notes: tuple[str, ...] = (),
        *,
        repeated: bool = False,
    ) -> None:
        self.columns = list(answer.columns)
        self.types = list(answer.types)
        self.cost = dict(cost)
        self.notes = notes
        self.repeated = repeated
        self._rows = answer.rows
        self._spread = spread

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows. Every call returns the same rows."""
        return list(self._rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def intervals(self, level: float = 0.95) -> list[tuple[Interval, ...]]:
        """Return, for every row and column, an interval that the noise leaves for the exact value.

        level: the share of runs in which the interval holds the value, above 0 and below 1. The
        interval covers the noise alone: not what clamping and limits cut off, and not sampling.
        None for keys, for values that are chosen by their rank (quantiles, MIN, MAX, MODE) and what is
        computed with them, for lists and maps as a whole (`HISTOGRAM(x)['a']` has one), and for columns
        whose rows aren't single groups of one release. A group of a private key is shown only when its
        noisy size passes the threshold: just above it, intervals cover less often. Where totals were
        adjusted to their parts, the interval is that of the noise before, around the value after it.
        Raises ParameterError for a level out of range.
        """
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
            raise ParameterError("level must be above 0 and below 1.", hint="level=0.95")
        return self._spread(float(level))

    def df(self) -> pd.DataFrame:
        """Return the answer as a pandas DataFrame. A column's name that stands twice becomes `a_1`."""
        _installed("pandas")
        return self.arrow().to_pandas()

    def pl(self) -> pl.DataFrame:
        """Return the answer as a Polars DataFrame. A column's name that stands twice becomes `a_1`."""
        _installed("polars")
        import polars as pl  # noqa: PLC0415  only where the user has it

        frame = pl.from_arrow(self.arrow())
        if not isinstance(frame, pl.DataFrame):
            raise TypeError("an Arrow table becomes a data frame")
        return frame

    def arrow(self) -> pa.Table:
        """Return the answer as an Arrow table. A column's name that stands twice becomes `a_1`."""
        _installed("pyarrow")
        import pyarrow as pa  # noqa: PLC0415  only where the user has it

        columns = list(zip(*self._rows, strict=True)) or [() for _ in self.columns]
        arrays = [
            pa.array(list(values), type=_arrow_type(pa, kind))
            for values, kind in zip(columns, self.types, strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=_distinct(self.columns))

    def __repr__(self) -> str:
        return f"<dp_sql.Result {len(self._rows)} rows: {', '.join(self.columns)}>"


def _installed(package: str) -> None:
    """Raise EngineError where a package that only some users have isn't there."""
    if find_spec(package) is None:
        raise EngineError(
            f"this form of an answer needs {package}, which isn't installed.",
            hint=f"pip install {package}, or result.fetchall()",
        )


def _distinct(names: list[str]) -> list[str]:
    """Return the names, each its own without regard to case, as DuckDB makes them for a data frame."""
    taken: set[str] = set()
    result = []
    for name in names:
        chosen, number = name, 0
        while chosen.lower() in taken:
            number += 1
            chosen = f"{name}_{number}"
        taken.add(chosen.lower())
        result.append(chosen)
    return result


def _arrow_type(pyarrow: Any, kind: str) -> Any:
    """Return the Arrow type of a DuckDB type, None where Arrow may choose."""
    if kind == "TIMESTAMP":
        return pyarrow.timestamp("us")
    if kind.startswith("DECIMAL("):
        precision, scale = kind[8:-1].split(",")
        return pyarrow.decimal128(int(precision), int(scale))
    name = _ARROW.get(kind)
    return None if name is None else getattr(pyarrow, name)()
