"""`dpsql`: the commands of the command line and the way from an error to an exit status."""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dp_sql import __version__
from dp_sql.cli import owner
from dp_sql.cli.failures import message_of
from dp_sql.cli.runner import STOPPED
from dp_sql.errors import QueryError

if TYPE_CHECKING:
    from dp_sql.connection import Connection

_WELL, _FAILED, _WRONG_COMMAND_LINE = 0, 1, 2
_INTERRUPTED = 130  # 128 + SIGINT, as shells say it
_COMMANDS = frozenset("repl query check tune demo init audit budget ledger answers".split())


def program() -> NoReturn:
    """Run `dpsql` as the whole of a process, which then ends at once.

    By then the tables and the ledger are closed and no thread of ours runs. Taking the modules down
    one by one would take longer than a small query.
    """
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # numpy starts sooner; no matrix is multiplied
    try:
        main()
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else _FAILED
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = _FAILED
    os._exit(status)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `dpsql` and exit: 0 well, 1 an error, 2 a wrong command line, 130 stopped by Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # whatever a terminal can't show is written out
            stream.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and _is_schema(words[0]):
        words.insert(0, "repl")
    parser = _parser()
    if not words:
        parser.print_help(sys.stderr)
        sys.exit(_WRONG_COMMAND_LINE)
    options = parser.parse_args(words)
    gc.disable()  # until the tables are open: what modules make is kept, and looking at it takes time
    try:
        sys.exit(_status(options.run, options))
    finally:
        gc.enable()


def _is_schema(word: str) -> bool:
    """Return whether a first argument names a file rather than a command."""
    if word in _COMMANDS or word.startswith("-"):
        return False
    return "://" in word or word.lower().endswith((".yaml", ".yml")) or Path(word).is_file()


def _file(word: str) -> Path:
    """Return the path of a schema. A URL isn't shown in the error, since it may hold a password."""
    if "://" in word:
        raise argparse.ArgumentTypeError("the schema's file; the URL of a ledger is for --ledger")
    return Path(word)


def _status(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Return the exit status of a command; its failure becomes one message on standard error."""
    try:
        status = run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # whoever reads has left; the interpreter must not fail again when it flushes at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except Exception as error:  # noqa: BLE001  a traceback could show what a row holds
        print(message_of(error), file=sys.stderr)
        return _FAILED
    return status


def _parser() -> argparse.ArgumentParser:
    """Return the command line. argparse: it loads in 10 ms, where richer ones take 200."""
    parser = argparse.ArgumentParser(
        prog="dpsql",
        description="Ask SQL questions of protected tables: answers are noisy, and cost budget.",
        epilog="`dpsql SCHEMA` is short for `dpsql repl SCHEMA`.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"dpsql {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(
        name: str, run: Callable[[argparse.Namespace], int] | None, text: str
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        made.set_defaults(run=run)
        return made

    repl = command("repl", _repl, "open the shell on SCHEMA, or run what standard input holds")
    _add_places(repl)
    _add_analyst(repl)
    query = command("query", _query, "answer one statement; its cost goes to standard error")
    _add_places(query)
    _add_analyst(query)
    query.add_argument(
        "-c", "--command", dest="sql", metavar="SQL", required=True,
        help="the statement; - reads it from standard input",
    )  # fmt: skip
    query.add_argument("--format", default="table", metavar="NAME", help="table, csv, json or md")
    query.add_argument("--epsilon", metavar="NUMBER", help="of the statement")
    query.add_argument("--delta", metavar="NUMBER", help="of the statement")
    query.add_argument(
        "--within", metavar="NUMBER", help="the error of counts and sums, in place of --epsilon"
    )
    query.add_argument("--confidence", metavar="NUMBER", help="in which share of runs: 0.95")
    check = command("check", _check, "say what SCHEMA declares and what the data and ledger lack")
    _add_places(check)
    check.add_argument(
        "--data", action="store_true", help="count what the rows break; for the owner alone"
    )
    tune = command("tune", _tune, "propose limits and bounds for TABLE, from private quantiles")
    _add_places(tune, "TABLE")
    _add_analyst(tune)
    tune.add_argument("--epsilon", metavar="NUMBER", required=True, help="what it may cost in all")
    tune.add_argument(
        "--by", metavar="COLUMN", action="append", default=[], help="what statements will group by"
    )
    tune.add_argument(
        "--bounds", metavar="COLUMN[=LOW:HIGH]", action="append", default=[],
        help="a column, and wide bounds to look between, if not the declared ones",
    )  # fmt: skip
    owner.add_init(command("init", None, "write a first schema of DATABASE; reads no row"))
    owner.add_audit(
        command("audit", None, "try to tell neighbours apart by each mechanism's answers")
    )
    owner.add_budget(
        command("budget", None, "show the budget of each table, or raise one"), _add_places
    )
    owner.add_ledger(command("ledger", None, "show, verify or export what was asked"), _add_places)
    owner.add_answers(
        command("answers", None, "show what is free to ask again, or end that"), _add_places
    )
    demo = command("demo", _demo, "open the shell on the purchases in an online music shop")
    demo.add_argument("--fresh", action="store_true", help="forget what was spent in the demo")
    return parser


def _add_places(parser: argparse.ArgumentParser, table: str | None = None) -> None:
    parser.add_argument("schema", metavar="SCHEMA", type=_file, help="the data owner's schema file")
    if table is not None:
        parser.add_argument("table", metavar=table, help="a protected table")
    parser.add_argument("--data-dir", metavar="DIR", type=Path, help="the folder of the data files")
    parser.add_argument("--database", metavar="URL", help="where the tables are, if not in SCHEMA")
    parser.add_argument(
        "--ledger",
        metavar="PLACE",
        help='where the budget is kept: a file, postgresql://…, or ":memory:", which forgets it',
    )


def _add_analyst(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--analyst", metavar="NAME", help="who asks, for the ledger")


def _repl(options: argparse.Namespace) -> int:
    with _connected(options) as connection:
        names = ", ".join(table.name for table in connection.catalog.tables.values())
        return _shell(connection, f"Tables: {names}. \\? lists the commands, \\q leaves.")


def _query(options: argparse.Namespace) -> int:
    from dp_sql.cli.answer import ask  # noqa: PLC0415  `dpsql --help` needs no engine
    from dp_sql.cli.settings import Settings, format_named  # noqa: PLC0415

    form = format_named(options.format)
    settings = Settings(
        options.epsilon, options.delta, options.within, options.confidence, format=form
    )
    text = _standard_input() if options.sql == "-" else options.sql
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    with _connected(options) as connection:
        shown = ask(connection, text, settings, width)
    sys.stdout.write(shown.text)
    sys.stdout.flush()
    sys.stderr.write(shown.cost)
    return _WELL


def _check(options: argparse.Namespace) -> int:
    from dp_sql.cli.check import check_schema  # noqa: PLC0415

    report = check_schema(
        options.schema,
        database=options.database,
        data_dir=options.data_dir,
        ledger=options.ledger,
        data=options.data,
    )
    sys.stdout.write("".join(f"{line}\n" for line in report.lines))
    return _FAILED if report.errors else _WELL


def _tune(options: argparse.Namespace) -> int:
    from dp_sql.cli.answer import cost_text  # noqa: PLC0415  `dpsql --help` needs no engine
    from dp_sql.cli.tuning import read_bounds, tuning_text  # noqa: PLC0415

    bounds = read_bounds(options.bounds)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    with _connected(options) as connection:
        found = connection.tune(
            options.table, epsilon=options.epsilon, by=options.by, bounds=bounds
        )
        cost = cost_text(connection, found.result.cost)
    sys.stdout.write(tuning_text(found, options.table, width))
    sys.stdout.flush()
    sys.stderr.write(cost)
    return _WELL


def _demo(options: argparse.Namespace) -> int:
    from dp_sql.cli.places import forget, make_user_folder  # noqa: PLC0415
    from dp_sql.connection import connect  # noqa: PLC0415
    from dp_sql.demo import SCHEMA, WELCOME  # noqa: PLC0415
    from dp_sql.executor.spawn import prepare  # noqa: PLC0415

    prepare()
    ledger = make_user_folder() / "demo.ledger"
    if options.fresh:
        forget(ledger)
    with connect(SCHEMA, ledger=ledger) as connection:
        return _shell(connection, WELCOME)


@contextmanager
def _connected(options: argparse.Namespace) -> Iterator[Connection]:
    """Open what the command line names. From then on garbage is collected, the modules' never."""
    from dp_sql.executor.spawn import prepare  # noqa: PLC0415  `dpsql --help` needs no engine

    prepare()  # the worker loads while this process does
    from dp_sql.connection import connect  # noqa: PLC0415

    with connect(
        options.schema,
        database=options.database,
        data_dir=options.data_dir,
        ledger=options.ledger,
        analyst=options.analyst,
    ) as connection:
        gc.freeze()
        gc.enable()
        yield connection


def _shell(connection: Connection, welcome: str) -> int:
    from dp_sql.cli.shell import run_shell  # noqa: PLC0415

    gc.enable()
    well = run_shell(connection, f"dpsql {__version__}. {welcome}")
    return _WELL if well else _FAILED


def _standard_input() -> str:
    """Return the text of standard input. Raises QueryError where it isn't UTF-8."""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise QueryError("standard input isn't UTF-8 text.") from None


if __name__ == "__main__":
    program()
