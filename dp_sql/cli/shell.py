"""`dpsql repl`: the shell in a terminal, or statements from a pipe."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from dp_sql.cli.commands import completions
from dp_sql.cli.places import make_user_folder, private_file
from dp_sql.cli.runner import STOPPED
from dp_sql.cli.session import Session
from dp_sql.cli.statements import is_complete
from dp_sql.errors import EngineError, QueryError
from dp_sql.schema.catalog import Catalog

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

    from dp_sql.connection import Connection

_PROMPT = "dpsql> "
_HISTORY = "history"


def run_shell(connection: Connection, welcome: str) -> bool:
    """Talk with the user until they leave, or run what standard input holds.

    Returns whether everything went well; in a terminal, errors were seen and are forgotten.
    """
    if not sys.stdin.isatty():
        session = Session(connection, out=sys.stdout, err=sys.stderr)
        _run_script(session, sys.stdin.buffer)
        return not session.failed
    width = _terminal_width if sys.stdout.isatty() else _no_limit
    session = Session(connection, out=sys.stdout, err=sys.stderr, width=width)
    session.print(welcome + "\n")
    _converse(session, _prompt(connection.catalog).prompt)
    return True


def _run_script(session: Session, source: BinaryIO) -> None:
    """Run statements as they arrive; the last may lack its semicolon.

    Raises QueryError for bytes that aren't UTF-8.
    """
    waiting = ""
    for number, line in enumerate(source, start=1):
        try:
            waiting = session.submit(waiting + line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError:
            raise QueryError(f"line {number} of the input isn't UTF-8 text.") from None
        if session.ended:
            return
    session.run(waiting)


def _converse(session: Session, read: Callable[[], str]) -> None:
    """Run what the user types. Ctrl-C clears the line, Ctrl-D at an empty one leaves."""
    while not session.ended:
        try:
            text = read()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        try:
            session.run(session.submit(text))
        except KeyboardInterrupt:
            session.fail(STOPPED)


def _prompt(catalog: Catalog) -> PromptSession[str]:
    from prompt_toolkit import PromptSession  # noqa: PLC0415  0.2 s, and only the terminal needs it
    from prompt_toolkit.lexers import PygmentsLexer  # noqa: PLC0415
    from pygments.lexers.sql import SqlLexer  # noqa: PLC0415

    from dp_sql.cli.complete import ShellCompleter  # noqa: PLC0415
    from dp_sql.cli.keys import key_bindings  # noqa: PLC0415

    return PromptSession(
        _PROMPT,
        multiline=True,
        prompt_continuation=lambda width, _line, _wrapped: "...> ".rjust(width),
        history=_history(),
        lexer=PygmentsLexer(SqlLexer),
        completer=ShellCompleter(catalog, completions(catalog)),
        complete_while_typing=True,
        key_bindings=key_bindings(is_complete),
    )


def _history() -> History:
    """Return the history of earlier sessions, or one of this session where no file can be kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory  # noqa: PLC0415

    try:
        return FileHistory(str(private_file(make_user_folder() / _HISTORY)))
    except (EngineError, OSError):
        return InMemoryHistory()


def _terminal_width() -> int | None:
    return shutil.get_terminal_size().columns


def _no_limit() -> int | None:
    return None
