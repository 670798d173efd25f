"""Asks one statement, shows its answer, says what it cost and what is left."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dp_sql.cli.render import Format, render
from dp_sql.cli.runner import run_stoppable
from dp_sql.cli.settings import Settings
from dp_sql.dataclass import dataclass
from dp_sql.errors import DPSQLError
from dp_sql.privacy.amount import show
from dp_sql.privacy.cost import Cost
from dp_sql.result import Result

if TYPE_CHECKING:
    from dp_sql.connection import Connection

_BEFORE = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_EXPLAIN = re.compile(_BEFORE + r"EXPLAIN\s", re.IGNORECASE | re.DOTALL)
_SETTING = re.compile(_BEFORE + r"(?:RE)?SET\s", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer as text, and its notes and what it cost as text: empty where it was free."""

    text: str
    cost: str


def ask(connection: Connection, sql: str, settings: Settings, width: int | None) -> Shown:
    """Return the answer to one statement, ready to print.

    Raises the errors of Connection.sql, and KeyboardInterrupt where Ctrl-C stopped the statement.
    """
    result = run_stoppable(
        connection,
        lambda: connection.sql(
            sql,
            epsilon=settings.epsilon,
            delta=settings.delta,
            within=settings.within,
            confidence=settings.confidence,
        ),
    )
    if _SETTING.match(sql):
        return Shown("", "")
    if _EXPLAIN.match(sql) and settings.format is Format.TABLE:
        return Shown("".join(f"{row[0]}\n" for row in result), "")
    text = _rendered(connection, result, settings, width)
    notes = "".join(f"Note: {note}\n" for note in result.notes)
    return Shown(text, notes + _repeated(result) + cost_text(connection, result.cost))


def _repeated(result: Result) -> str:
    if not result.repeated:
        return ""
    part = "Part of it was" if result.cost else "It was"
    return f"{part} released before, and is free.\n"


def _rendered(connection: Connection, result: Result, settings: Settings, width: int | None) -> str:
    """Return the text of an answer; one that is paid for is shown even where its intervals fail."""
    form = settings.format
    if settings.intervals and form is Format.TABLE:
        try:
            return run_stoppable(connection, lambda: render(result, form, width=width))
        except (DPSQLError, KeyboardInterrupt):
            pass
    return render(result, form, intervals=False, width=width)


def cost_text(connection: Connection, costs: Mapping[str, Cost]) -> str:
    """Return what an answer cost and what is left; the first alone where the ledger fails now."""
    try:
        states = connection.budget() if costs else {}
    except DPSQLError:
        states = {}
    lines = []
    for table, cost in costs.items():
        delta = f", delta {show(cost.delta)}" if cost.delta else ""
        left = f" Left: {states[table].left()}." if table in states else ""
        lines.append(f"Cost to {table}: epsilon {show(cost.epsilon)}{delta}.{left}\n")
    return "".join(lines)
