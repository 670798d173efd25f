r"""The commands of the shell, those that begin with a backslash: one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dp_sql.cli.describe import table_text, tables_text
from dp_sql.cli.render import Format
from dp_sql.cli.runner import run_stoppable
from dp_sql.cli.settings import AMOUNTS, SETTING_NAMES, changed
from dp_sql.dataclass import dataclass
from dp_sql.errors import ParameterError
from dp_sql.schema.catalog import Catalog

if TYPE_CHECKING:
    from dp_sql.cli.session import Session


@dataclass(frozen=True, slots=True)
class Command:
    """One command. run: gets the session and what follows the command's name. words: completion."""

    usage: str
    meaning: str
    run: Callable[[Session, str], None]
    words: tuple[str, ...] = ()


def run_command(session: Session, line: str) -> None:
    """Run a line that begins with a backslash. Raises ParameterError for one that isn't a command."""
    name, _, argument = line.strip().rstrip(";").strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise ParameterError(f"there is no command {name}.", hint="\\? lists them")
    command.run(session, argument.strip())


def completions(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Return the words that may follow each command."""
    tables = tuple(table.name for table in catalog.tables.values())
    return {name: tables if name == "\\d" else c.words for name, c in COMMANDS.items()}


def _help(session: Session, _argument: str) -> None:
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        session.print(f"{command.usage:<{width}}  {command.meaning}\n")
    session.print("A statement ends with a semicolon and may have several lines.\n")


def _describe(session: Session, argument: str) -> None:
    catalog, width = session.connection.catalog, session.width
    session.print(table_text(catalog, argument, width) if argument else tables_text(catalog, width))


def _budget(session: Session, _argument: str) -> None:
    for table, state in session.connection.budget().items():
        session.print("".join(f"{line}\n" for line in (table, *(f"  {x}" for x in state.lines()))))


def _explain(session: Session, argument: str) -> None:
    if not argument:
        raise ParameterError("there is no statement.", hint="\\explain SELECT COUNT(*) FROM …")
    connection, settings = session.connection, session.settings
    text = run_stoppable(
        connection,
        lambda: connection.explain(argument, epsilon=settings.epsilon, delta=settings.delta),
    )
    session.print(text + "\n")


def _set(session: Session, argument: str) -> None:
    name, _, value = argument.replace("=", " ", 1).partition(" ")
    if not name:
        connection = session.connection
        for line in session.settings.lines(connection.session, connection.catalog.defaults):
            session.print(f"{line}\n")
        return
    if not value.strip():
        raise ParameterError(f"{name} needs a value.", hint="\\set epsilon 0.5")
    if name.lower() in AMOUNTS:
        session.connection.sql(f"SET {name} = {value}")
    else:
        session.settings = changed(session.settings, name, value.strip())


def _format(session: Session, argument: str) -> None:
    if argument:
        session.settings = changed(session.settings, "format", argument)
    else:
        session.print(f"{session.settings.format}\n")


def _quit(session: Session, _argument: str) -> None:
    session.ended = True


COMMANDS: Mapping[str, Command] = {
    "\\?": Command("\\?", "this list", _help),
    "\\d": Command("\\d [TABLE]", "the declared tables, or the columns of one", _describe),
    "\\budget": Command("\\budget", "what is left of each table's budget", _budget),
    "\\explain": Command("\\explain SQL", "what a statement would do and cost, for free", _explain),
    "\\set": Command(
        "\\set [NAME VALUE]",
        "show the settings, or change epsilon, delta, format or intervals (on, off)",
        _set,
        SETTING_NAMES,
    ),
    "\\format": Command("\\format [NAME]", "table, csv, json or md", _format, tuple(Format)),
    "\\q": Command("\\q", "leave, as Ctrl-D does", _quit),
}
