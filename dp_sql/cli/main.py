"""`dpsql`: the commands of the command line and the way from an error to an exit status."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dp_sql import __version__
from dp_sql.cli.failures import message_of
from dp_sql.cli.runner import STOPPED
from dp_sql.errors import QueryError

_FAILED = 1
_INTERRUPTED = 130  # 128 + SIGINT, as shells say it
_COMMANDS = frozenset("repl query check demo".split())

app = typer.Typer(
    name="dpsql",
    help="Ask SQL questions of protected tables. Answers are noisy, and each costs budget.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Schema = Annotated[
    Path, typer.Argument(metavar="SCHEMA", help="The schema file of the data owner.")
]
Database = Annotated[
    str | None, typer.Option(metavar="URL", help="Where the tables are, if not where SCHEMA says.")
]
DataDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The folder of the files that SCHEMA names.")
]
Ledger = Annotated[
    str | None,
    typer.Option(metavar="FILE", help='Where the budget is kept; ":memory:" forgets it.'),
]
Analyst = Annotated[str | None, typer.Option(metavar="NAME", help="Who asks, for the ledger.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `dpsql` and exit: 0 well, 1 an error, 2 a wrong command line, 130 stopped by Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # whatever a terminal can't show is written out
            stream.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and _is_schema(words[0]):
        words.insert(0, "repl")
    gc.disable()  # until the tables are open: what modules make is kept, and looking at it takes time
    try:
        app(words, prog_name="dpsql")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        gc.enable()


def _is_schema(word: str) -> bool:
    """Return whether a first argument names a file rather than a command."""
    if word in _COMMANDS or word.startswith("-"):
        return False
    return word.lower().endswith((".yaml", ".yml")) or Path(word).is_file()


@contextmanager
def _reporting() -> Iterator[None]:
    """Turn an error into its message on standard error and an exit status."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(STOPPED, err=True)
        raise typer.Exit(_INTERRUPTED) from None
    except BrokenPipeError:
        # whoever reads has left; the interpreter must not fail again when it flushes at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(_FAILED) from None
    except typer.Exit:
        raise
    except Exception as error:  # noqa: BLE001  a traceback could show what a row holds
        typer.echo(message_of(error), err=True)
        raise typer.Exit(_FAILED) from None


@app.callback(invoke_without_command=True)
def _dpsql(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if version:
        typer.echo(f"dpsql {__version__}")
        raise typer.Exit


@app.command()
def repl(
    schema: Schema,
    database: Database = None,
    data_dir: DataDir = None,
    ledger: Ledger = None,
    analyst: Analyst = None,
) -> None:
    """Open the shell on SCHEMA, or run the statements of standard input; `dpsql SCHEMA` is short."""
    with _reporting():
        _open_shell(schema, database, data_dir, ledger, analyst)


@app.command()
def query(
    schema: Schema,
    command: Annotated[
        str,
        typer.Option(
            "--command", "-c", metavar="SQL", help="One statement; - reads it from standard input."
        ),
    ],
    form: Annotated[str, typer.Option("--format", metavar="table|csv|json|md")] = "table",
    epsilon: Annotated[str | None, typer.Option(metavar="NUMBER")] = None,
    delta: Annotated[str | None, typer.Option(metavar="NUMBER")] = None,
    database: Database = None,
    data_dir: DataDir = None,
    ledger: Ledger = None,
    analyst: Analyst = None,
) -> None:
    """Answer one statement. Its cost goes to standard error, the answer alone to standard output."""
    with _reporting():
        from dp_sql.cli.answer import ask  # noqa: PLC0415
        from dp_sql.cli.settings import Settings, format_named  # noqa: PLC0415
        from dp_sql.connection import connect  # noqa: PLC0415

        settings = Settings(epsilon=epsilon, delta=delta, format=format_named(form))
        text = _standard_input() if command == "-" else command
        with connect(
            schema, database=database, data_dir=data_dir, ledger=ledger, analyst=analyst
        ) as connection:
            _collect_garbage()
            shown = ask(connection, text, settings, _width())
        typer.echo(shown.text, nl=False)
        typer.echo(shown.cost, nl=False, err=True)


@app.command()
def check(
    schema: Schema,
    database: Database = None,
    data_dir: DataDir = None,
    ledger: Ledger = None,
) -> None:
    """Say what SCHEMA declares, what the data hold and what is missing. Exit status 1 on errors."""
    with _reporting():
        from dp_sql.cli.check import check_schema  # noqa: PLC0415

        report = check_schema(schema, database=database, data_dir=data_dir, ledger=ledger)
        typer.echo("\n".join(report.lines))
        if report.errors:
            raise typer.Exit(_FAILED)


@app.command()
def demo(
    *,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget what the demo's budget has spent.")
    ] = False,
) -> None:
    """Open the shell on purchases in an online music shop, 1997 and 1998."""
    with _reporting():
        from dp_sql.cli.places import forget, make_user_folder  # noqa: PLC0415
        from dp_sql.demo import SCHEMA, WELCOME  # noqa: PLC0415

        ledger = make_user_folder() / "demo.ledger"
        if fresh:
            forget(ledger)
        _open_shell(SCHEMA, None, SCHEMA.parent, str(ledger), None, WELCOME)


def _open_shell(
    schema: Path,
    database: str | None,
    data_dir: Path | None,
    ledger: str | None,
    analyst: str | None,
    welcome: str | None = None,
) -> None:
    """Run the shell; exit status 1 where statements of a pipe failed."""
    from dp_sql.cli.shell import run_shell  # noqa: PLC0415
    from dp_sql.connection import connect  # noqa: PLC0415

    with connect(
        schema, database=database, data_dir=data_dir, ledger=ledger, analyst=analyst
    ) as connection:
        _collect_garbage()
        if welcome is None:
            names = ", ".join(t.name for t in connection.catalog.tables.values())
            welcome = f"Tables: {names}. \\? lists the commands, \\q leaves."
        well = run_shell(connection, f"dpsql {__version__}. {welcome}")
    if not well:
        raise typer.Exit(_FAILED)


def _collect_garbage() -> None:
    """Begin to collect garbage, but never among what the modules have made."""
    gc.freeze()
    gc.enable()


def _standard_input() -> str:
    """Return the text of standard input. Raises QueryError where it isn't UTF-8."""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise QueryError("standard input isn't UTF-8 text.") from None


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


if __name__ == "__main__":
    main()
