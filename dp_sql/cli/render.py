"""An answer as text: a table for people, or csv, json and Markdown for what reads on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import assert_never

from dp_sql.cli.grid import table
from dp_sql.cli.values import exact_text, is_numeric_type, json_text, visible, with_interval
from dp_sql.result import Interval, Result

_MOST_INTERVALS = 1000  # rows; redrawn noise for more would take longer than the answer


class Format(StrEnum):
    """How answers are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    MARKDOWN = "md"


def render(
    result: Result, form: Format, *, intervals: bool = True, width: int | None = None
) -> str:
    """Return an answer as text that ends with a line break.

    intervals: put 95 % intervals beside the values of a table that is no longer than 1,000 rows.
    width: columns of the terminal that a table is folded to, None for no limit.
    """
    match form:
        case Format.TABLE:
            numeric = [is_numeric_type(kind) for kind in result.types]
            return table(result.columns, _cells(result, intervals=intervals), numeric, width)
        case Format.CSV:
            return _csv(result)
        case Format.JSON:
            return _json(result)
        case Format.MARKDOWN:
            return _markdown(result)
        case _:
            assert_never(form)


def _cells(result: Result, *, intervals: bool) -> list[list[str]]:
    rows = result.fetchall()
    if not intervals or len(rows) > _MOST_INTERVALS:
        return [[exact_text(value) for value in row] for row in rows]
    beside: list[tuple[Interval, ...]] = result.intervals()
    return [
        [with_interval(value, interval) for value, interval in zip(row, ends, strict=True)]
        for row, ends in zip(rows, beside, strict=True)
    ]


def _csv(result: Result) -> str:
    lines = [[_csv_cell(name) for name in result.columns]]
    lines += [["" if v is None else _csv_cell(exact_text(v)) for v in row] for row in result]
    return "".join(",".join(line) + "\n" for line in lines)


def _csv_cell(text: str) -> str:
    """Return a text as a CSV cell: an empty one stays apart from NULL, which is nothing at all."""
    quoted = not text or text != text.strip() or any(c in text for c in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if quoted else text


def _json(result: Result) -> str:
    names = [json.dumps(name, ensure_ascii=False) for name in _distinct(result.columns)]
    rows = [
        "{" + ", ".join(f"{n}: {json_text(v)}" for n, v in zip(names, row, strict=True)) + "}"
        for row in result
    ]
    return "[" + ",\n ".join(rows) + "]\n"


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names that an object can hold: a repeated one gets a number, as in DuckDB."""
    chosen: list[str] = []
    for name in names:
        number, unique = 0, name
        while unique in chosen:
            number += 1
            unique = f"{name}_{number}"
        chosen.append(unique)
    return chosen


def _markdown(result: Result) -> str:
    rule = ["---:" if is_numeric_type(kind) else "---" for kind in result.types]
    rows: list[Sequence[str]] = [
        [_markdown_cell(name) for name in result.columns],
        rule,
        *([_markdown_cell(exact_text(value)) for value in row] for row in result),
    ]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _markdown_cell(text: str) -> str:
    return visible(text).replace("\\", "\\\\").replace("|", "\\|")
