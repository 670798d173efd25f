"""How long a text one call above the releases may make: memory limits don't hold for it."""

from __future__ import annotations

import re

from sqlglot import exp

from dp_sql.parser.scope import Statement

_LONGEST = 10_000
_WIDTHS = re.compile(r"[0-9]{5,}|\*|\{[^}]*\{")  # above 9,999, or taken from an argument


def check_text_size(statement: Statement, node: exp.Expr) -> None:
    """Raise UnsupportedSQLError for a call whose text is longer than the statement itself says."""
    called = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    match node:
        case exp.Repeat():
            small = _is_small(node.args.get("times"))
        case exp.Pad():
            small = _is_small(node.args.get("expression"))
        case exp.Format():
            small = _is_plain(node.this)
        case exp.Anonymous() if called == "printf":
            small = not node.expressions or _is_plain(node.expressions[0])
        case exp.Anonymous() if called in (
            "bar",
            "to_base",
        ):  # their last argument, where they have it
            most = 3 if called == "bar" else 2
            small = len(node.expressions) <= most or _is_small(node.expressions[most])
        case _:
            return
    if not small:
        raise statement.unsupported(
            f"a text is made at most {_LONGEST:,} times as long, by a number in the statement.",
            node,
        )


def _is_small(size: object) -> bool:
    return isinstance(size, exp.Literal) and size.is_int and int(size.name) <= _LONGEST


def _is_plain(form: object) -> bool:
    """Return whether a format is a text without large widths."""
    return isinstance(form, exp.Literal) and form.is_string and not _WIDTHS.search(form.name)
