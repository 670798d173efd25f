r"""The shell without its terminal: takes text, runs statements and `\` commands, prints what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from dp_sql.cli.answer import ask
from dp_sql.cli.commands import run_command
from dp_sql.cli.failures import message_of
from dp_sql.cli.settings import Settings
from dp_sql.cli.statements import next_statement, skip_blanks

if TYPE_CHECKING:
    from dp_sql.connection import Connection


class Session:
    r"""One user's dialogue with a connection.

    Attributes:
        connection: whom it asks.
        settings: what `\set` says.
        ended: whether the user has left with `\q`.
        failed: whether any statement or command has failed.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        out: TextIO,
        err: TextIO,
        width: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Print answers to `out` and errors to `err`. width: of the terminal now, None for none."""
        self.connection = connection
        self.settings = Settings()
        self.ended = False
        self.failed = False
        self._out = out
        self._err = err
        self._width = width

    @property
    def width(self) -> int | None:
        """Columns that a table may take, None for no limit."""
        return self._width()

    def submit(self, text: str) -> str:
        """Run the commands and finished statements of `text`; return what isn't finished.

        Raises KeyboardInterrupt where Ctrl-C stopped one: those behind it aren't run.
        """
        while not self.ended:
            text = skip_blanks(text)
            if text.startswith("\\"):
                line, _, text = text.partition("\n")
                self._guarded(run_command, line)
                continue
            found = next_statement(text)
            if found is None:
                return text
            statement, text = found
            self.run(statement)
        return ""

    def run(self, statement: str) -> None:
        """Answer one statement and print its cost, or print why not. A blank one does nothing."""
        if skip_blanks(statement):
            self._guarded(_answer, statement)

    def print(self, text: str) -> None:
        """Print text that ends with a line break."""
        self._out.write(text)
        self._out.flush()

    def fail(self, message: str) -> None:
        """Print the message of a failure, and remember that there was one."""
        self.failed = True
        self._err.write(message + "\n")
        self._err.flush()

    def _guarded(self, work: Callable[[Session, str], None], text: str) -> None:
        try:
            work(self, text)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001  the shell outlives every error
            self.fail(message_of(error))


def _answer(session: Session, statement: str) -> None:
    shown = ask(session.connection, statement, session.settings, session.width)
    session.print(shown.text)
    session.print(shown.cost)
