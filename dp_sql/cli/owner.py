"""The owner's commands on the command line: `init`, `audit`, `budget`, `ledger`, and what they take."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Adds = Callable[[str, str], argparse.ArgumentParser]


def add_init(parser: argparse.ArgumentParser) -> None:
    """Add what `dpsql init` takes."""
    parser.add_argument(
        "database", metavar="DATABASE", type=Path, help="a DuckDB file, a data file or a folder"
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="the schema file to write")
    parser.set_defaults(run=_init)


def add_audit(parser: argparse.ArgumentParser) -> None:
    """Add what `dpsql audit` takes."""
    parser.add_argument("schema", metavar="SCHEMA", type=Path, help="the data owner's schema file")
    parser.add_argument("--epsilon", metavar="NUMBER", default="1", help="of each statement: 1")
    parser.add_argument(
        "--runs", metavar="NUMBER", type=int, default=2000, help="on each neighbour, at most: 2000"
    )
    parser.add_argument(
        "--mechanism",
        metavar="NAME",
        action="append",
        default=[],
        help="this one; as often as wanted",
    )
    parser.set_defaults(run=_audit)


def add_budget(parser: argparse.ArgumentParser, places: Callable[[Any], None]) -> None:
    """Add `dpsql budget show` and `raise`. places: adds SCHEMA and where its data are."""
    command = _commands(parser)
    show = command("show", "say what is registered, used and left of each table's budget")
    places(show)
    show.add_argument(
        "--analyst", metavar="NAME", help="whose part and last statement are looked at"
    )
    show.add_argument("--block", metavar="VALUE", help="of tables with blocks, this one")
    show.set_defaults(run=_budget_show)
    more = command("raise", "raise a table's budget, for good, to what SCHEMA declares now")
    places(more)
    more.add_argument("table", metavar="TABLE", help="a protected table, or the unit")
    more.add_argument("--reason", metavar="TEXT", default="", help="why, for the ledger")
    more.add_argument("--analyst", metavar="NAME", help="who asks, if not the owner: refused")
    more.set_defaults(run=_budget_raise)


def add_ledger(parser: argparse.ArgumentParser, places: Callable[[Any], None]) -> None:
    """Add `dpsql ledger show`, `verify`, `export` and `grant`."""
    command = _commands(parser)
    show = command("show", "list what was asked; SCHEMA may be the ledger itself")
    places(show)
    show.add_argument("--table", metavar="TABLE", help="what this table was asked")
    show.add_argument("--analyst", metavar="NAME", help="what this analyst asked")
    show.add_argument("--since", metavar="TIME", help="2026-01-31 or 2026-01-31T12:00, in UTC")
    show.add_argument("--until", metavar="TIME", help="the first moment that isn't asked for")
    show.set_defaults(run=_ledger_show)
    verify = command("verify", "find what was changed; SCHEMA may be a ledger or its export")
    places(verify)
    verify.add_argument("--head", metavar="DIGEST", help="which an earlier verification printed")
    verify.set_defaults(run=_ledger_verify)
    export = command("export", "write the whole ledger as lines of JSON, which can be verified")
    places(export)
    export.add_argument("--output", metavar="FILE", type=Path, help="a new file, if not printed")
    export.set_defaults(run=_ledger_export)
    grant = command("grant", "let a PostgreSQL role ask as an analyst, and do nothing else")
    places(grant)
    grant.add_argument("role", metavar="ROLE", help="a role of the ledger's database")
    grant.add_argument("--analyst", metavar="NAME", help="whom it asks as; by default its own name")
    grant.set_defaults(run=_ledger_grant)


def add_answers(parser: argparse.ArgumentParser, places: Callable[[Any], None]) -> None:
    """Add `dpsql answers show`, `refresh` and `clear`."""
    command = _commands(parser)
    show = command("show", "say how much is kept of what was released, and of which data")
    places(show)
    show.set_defaults(run=_answers_show)
    anew = command("refresh", "draw and charge anew what is asked of TABLE, or of all: new data")
    places(anew)
    anew.add_argument("table", metavar="TABLE", nargs="?", help="a protected table")
    anew.add_argument("--analyst", metavar="NAME", help="who asks, if not the owner: refused")
    anew.set_defaults(run=_answers_refresh)
    clear = command("clear", "forget all that is kept, to make room; the ledger stays as it is")
    places(clear)
    clear.add_argument("--analyst", metavar="NAME", help="who asks, if not the owner: refused")
    clear.set_defaults(run=_answers_clear)


def _commands(parser: argparse.ArgumentParser) -> Adds:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, allow_abbrev=False)

    return command


def _init(options: argparse.Namespace) -> int:
    from dp_sql.cli.init import write_schema  # noqa: PLC0415  `dpsql --help` needs no engine

    return _print(write_schema(options.database, options.output))


def _audit(options: argparse.Namespace) -> int:
    from dp_sql.cli.audits import audit_text  # noqa: PLC0415

    text, kept = audit_text(
        options.schema,
        epsilon=options.epsilon,
        runs=options.runs,
        mechanisms=options.mechanism,
        width=shutil.get_terminal_size().columns if sys.stdout.isatty() else None,
    )
    return _print(text, well=kept)


def _budget_show(options: argparse.Namespace) -> int:
    from dp_sql.cli.budgets import budgets_text  # noqa: PLC0415

    return _print(budgets_text(_where(options), options.analyst, options.block))


def _budget_raise(options: argparse.Namespace) -> int:
    from dp_sql.cli.budgets import raise_budget  # noqa: PLC0415

    return _print(raise_budget(_where(options), options.table, _by(options), options.reason))


def _ledger_show(options: argparse.Namespace) -> int:
    from dp_sql.cli.ledgers import entries_text, moment  # noqa: PLC0415

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    span = moment(options.since), moment(options.until)
    text = entries_text(_where(options), options.table, options.analyst, span, width)
    return _print(text)


def _ledger_verify(options: argparse.Namespace) -> int:
    from dp_sql.cli.ledgers import verification_text  # noqa: PLC0415

    text, sound = verification_text(_where(options), options.head)
    return _print(text, well=sound)


def _ledger_export(options: argparse.Namespace) -> int:
    from dp_sql.cli.ledgers import export  # noqa: PLC0415

    return _print(export(_where(options), options.output))


def _ledger_grant(options: argparse.Namespace) -> int:
    from dp_sql.cli.ledgers import grant  # noqa: PLC0415

    analyst = options.role if options.analyst is None else options.analyst
    return _print(grant(_where(options), options.role, analyst))


def _answers_show(options: argparse.Namespace) -> int:
    from dp_sql.cli.answers import answers_text  # noqa: PLC0415

    return _print(answers_text(_where(options)))


def _answers_refresh(options: argparse.Namespace) -> int:
    from dp_sql.cli.answers import refresh  # noqa: PLC0415

    return _print(refresh(_where(options), options.table, _by(options)))


def _answers_clear(options: argparse.Namespace) -> int:
    from dp_sql.cli.answers import clear  # noqa: PLC0415

    return _print(clear(_where(options), _by(options)))


def _by(options: argparse.Namespace) -> str:
    """Return who asks for an act of the owner."""
    from dp_sql.budget.record import OWNER  # noqa: PLC0415  `dpsql --help` needs no ledger

    return OWNER if options.analyst is None else str(options.analyst)


def _where(options: argparse.Namespace) -> Any:
    from dp_sql.cli.ledgers import Where  # noqa: PLC0415

    return Where(options.schema, options.data_dir, options.database, options.ledger)


def _print(text: str, *, well: bool = True) -> int:
    sys.stdout.write(text)
    return 0 if well else 1
