"""From text to one sqlglot tree, within limits, and from a node of it back to its place in the text."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterable, Sequence

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dp_sql.dataclass import dataclass
from dp_sql.errors import Position, QueryError, UnsupportedSQLError
from dp_sql.parser.dialect import (
    AnalystParser,
    GoogleParser,
    Reading,
    Unanswered,
    is_google,
    without,
)
from dp_sql.parser.dot_calls import MAX_DOTS, in_front, longest_chain
from dp_sql.parser.misread import misread

MAX_LENGTH = 100_000  # characters
MAX_DEPTH = 40  # nested parentheses, brackets and CASEs: the parser recurses
MAX_DIGITS = 400  # of a number: a DOUBLE ends at 309

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # its warnings would print the statement

OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_OTHER_STRINGS = {  # N'…', E'…' and the like: they end in another place for one reader than for another
    TokenType.BIT_STRING, TokenType.BYTE_STRING, TokenType.HEX_STRING, TokenType.NATIONAL_RAW_STRING,
    TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.UNICODE_STRING,
}  # fmt: skip
_QUOTED = {TokenType.STRING, TokenType.IDENTIFIER, TokenType.HEREDOC_STRING}
_ODD = re.compile(r"[^\t\n\r -_a-~]")  # a backtick, control characters, all beyond ASCII
_COMPLAINTS = (  # of the parser library, by their first words, and what they mean
    ("Required argument", ": a function has too few arguments"),
    ("The number of provided arguments", ": a function has too many arguments"),
    ("Expecting )", ": a parenthesis isn't closed before the caret"),
)
_CHAIN = {TokenType.NOT, TokenType.DASH, TokenType.TILDE, TokenType.PLUS}

BY_FILTER = (
    "the values by name: SELECT x, SUM(n) FILTER (WHERE k = 'a') AS a, SUM(n) FILTER (WHERE k = 'b') AS "
    "b FROM … GROUP BY x, or FROM (SELECT x, k, SUM(n) AS n … GROUP BY ALL) PIVOT (SUM(n) FOR k IN "
    "('a', 'b'))"
)
"""What is written instead of a PIVOT that isn't answered."""

_STATEMENTS = {
    exp.Summarize: "SUMMARIZE prints exact statistics of the rows",
    exp.Pivot: "PIVOT builds its columns from the rows",
    exp.Describe: "DESCRIBE isn't part of a query; \\d in the REPL shows the declared tables",
    exp.Create: "dp_sql only reads",
    exp.Drop: "dp_sql only reads",
    exp.Insert: "dp_sql only reads",
    exp.Update: "dp_sql only reads",
    exp.Delete: "dp_sql only reads",
    exp.Merge: "dp_sql only reads",
    exp.Copy: "dp_sql writes no files",
    exp.Attach: "the database is the one that the schema names",
    exp.Detach: "the database is the one that the schema names",
    exp.Set: "settings of the database belong to the engine",
    exp.Pragma: "settings and statistics of the database belong to the engine",
    exp.Command: "only queries are answered",
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A query's tree, its words, and its text with blanks for what DuckDB can't read, by character."""

    tree: exp.Query
    tokens: Sequence[Token]
    plain: str


def starts_with(text: str, word: str) -> str | None:
    """Return what follows when the statement's first word is `word` (upper case), else None."""
    stripped = text.lstrip()
    head, rest = stripped[: len(word)], stripped[len(word) :]
    return rest if head.upper() == word and rest[:1].isspace() else None


def explained_by(text: str) -> str | None:
    """Return the statement after EXPLAIN, None without it. Raises UnsupportedSQLError for options."""
    rest = starts_with(text, "EXPLAIN")
    first = rest.split(maxsplit=1)[0].upper() if rest is not None and rest.strip() else ""
    if first.startswith("("):
        raise UnsupportedSQLError("EXPLAIN takes no options.", hint="EXPLAIN SELECT …")
    if first == "ANALYZE":
        raise UnsupportedSQLError(
            "EXPLAIN ANALYZE prints how many rows the data have.", hint="EXPLAIN SELECT …"
        )
    return rest


def parse_text(text: str) -> Parsed:
    """Return the one query in `text`.

    Raises QueryError for text that is empty, too long, nested too deeply, no SQL or several
    statements, and UnsupportedSQLError for a statement that is not a query.
    """
    if not isinstance(text, str):
        raise QueryError(f"a statement is a text, not {type(text).__name__}.")
    if len(text) > MAX_LENGTH:
        raise QueryError(f"the statement is longer than {MAX_LENGTH:,} characters.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise QueryError("the statement holds half a character (a lone surrogate).")
    dialect = (
        Reading()
    )  # one for each text: its readers keep their place, and threads can't share it
    tokens = _tokens(text, dialect)
    parser = GoogleParser(dialect) if is_google(tokens) else AnalystParser(dialect)
    try:
        trees = [tree for tree in parser.parse(tokens, text) if tree is not None]
    except ParseError as error:
        raise _syntax(text, error, tokens) from None
    except Unanswered as found:
        refused = UnsupportedSQLError(
            found.message, hint=found.hint, text=text, position=position_of(text, found.node)
        )
        refused.tries = found.tries
        raise refused from None
    except RecursionError:
        raise _too_deep() from None
    except (ValueError, TypeError, AttributeError, IndexError, KeyError):  # bugs of the parser
        raise QueryError("this text can't be read as SQL.") from None
    trees = [tree for tree in trees if not isinstance(tree, exp.Semicolon)]
    if not trees:
        raise QueryError("there is no statement.", hint="SELECT COUNT(*) FROM …")
    if len(trees) > 1 or isinstance(trees[0], exp.Block):
        raise UnsupportedSQLError("one statement at a time.", hint="send them one by one")
    tree = trees[0]
    if longest_chain(tree) > MAX_DOTS:
        raise QueryError(
            f"the statement is nested too deeply: more than {MAX_DOTS} dots behind one another.",
            hint="f(x) for x.f(), and WITH for the inner parts",
        )
    try:
        in_front(tree, parser.FUNCTIONS, dialect)
    except (ValueError, TypeError, AttributeError, IndexError, KeyError):  # bugs of its builders
        raise QueryError("this text can't be read as SQL.") from None
    if isinstance(tree, exp.Subquery):
        tree = tree.unnest()
    if not isinstance(tree, exp.Select | exp.SetOperation):
        reason = next(
            (why for kind, why in _STATEMENTS.items() if isinstance(tree, kind)),
            "only SELECT and set operations are answered",
        )
        word = text.split(maxsplit=1)[0].upper()[:20]
        pivot = isinstance(tree, exp.Pivot)
        raise UnsupportedSQLError(
            f"{'PIVOT' if pivot else word} can't be answered: {reason}.",
            hint=BY_FILTER if pivot else "a SELECT with aggregates",
        )
    return Parsed(tree, tokens, without(text, parser.spans, tokens))


def _tokens(text: str, dialect: DuckDB) -> list[Token]:
    """Return the tokens, or refuse what they tell: bad characters, depth, words with two readings."""
    try:
        tokens: list[Token] = dialect.tokenize(text)
    except TokenError:
        raise QueryError(
            "this text can't be read as SQL: a quote or comment isn't closed."
        ) from None
    depth, chain = 0, 0
    previous: Token | None = None
    for token in tokens:
        kind = token.token_type
        if (
            previous is not None
            and previous.token_type == TokenType.NUMBER
            and kind == TokenType.VAR
            and token.start == previous.end + 1
        ):
            raise QueryError(
                "a number runs into a word here.",
                hint="write numbers in decimal, and a space before a word",
                text=text,
                position=_at(text, previous.start, token.end - previous.start + 1),
            )
        if kind == TokenType.NUMBER and len(token.text) > MAX_DIGITS:
            raise QueryError(
                f"a number has at most {MAX_DIGITS} characters.",
                hint="12 digits, and an exponent: 1e300",
                text=text,
                position=place_of(text, token),
            )
        previous = token
        if kind in _OTHER_STRINGS or (kind not in _QUOTED and _ODD.search(token.text)):
            raise QueryError(
                "this can't stand outside quotes."
                if kind not in _OTHER_STRINGS
                else "this form of text isn't answered.",
                hint="texts in '…', names in \"…\"",
                text=text,
                position=place_of(text, token),
            )
        depth += int(kind in OPENING) - int(kind in CLOSING)
        chain = chain + 1 if kind in _CHAIN else 0
        if depth > MAX_DEPTH or chain > MAX_DEPTH:
            raise _too_deep()
        if kind in (TokenType.PARAMETER, TokenType.PLACEHOLDER) or (
            kind not in _QUOTED and token.text in {"@", "#", "?"}
        ):
            raise UnsupportedSQLError(
                f"{token.text!r} isn't answered.",
                hint="write abs(x) for @x, a name for #1, and a value for a parameter",
                text=text,
                position=_at(text, token.start, 1),
            )
    return tokens


def _too_deep() -> QueryError:
    return QueryError(
        f"the statement is nested deeper than {MAX_DEPTH} levels.",
        hint="name the inner parts with WITH",
    )


def _syntax(text: str, error: ParseError, tokens: list[Token]) -> QueryError:
    details = error.errors[0] if error.errors else {}
    line, column = details.get("line"), details.get("col")
    highlight = details.get("highlight") or ""
    position = None
    if isinstance(line, int) and isinstance(column, int):
        position = Position(line, max(1, column - max(0, len(highlight) - 1)), len(highlight) or 1)
    found = misread(text, [token.text for token in tokens])
    why = next(
        (w for start, w in _COMPLAINTS if details.get("description", "").startswith(start)), ""
    )
    made = QueryError(
        f"this isn't SQL that can be read here{why}.",
        hint=found.hint or "a SELECT as DuckDB has it: check what stands before the caret",
        text=text,
        position=position,
    )
    made.tries = found.tries
    return made


def _at(text: str, start: int, length: int) -> Position:
    before = text[:start]
    return Position(before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1, length)


def place_of(text: str, token: Token) -> Position:
    """Return where a word stands in `text`."""
    return _at(text, token.start, token.end - token.start + 1)


def position_of(text: str, node: exp.Expr | None) -> Position | None:
    """Return where `node` stands in `text`: its own place or that of its first part that has one."""
    if node is None:
        return None
    best: tuple[int, int] | None = None
    for part in node.walk():
        start, end = part.meta.get("start"), part.meta.get("end")
        if isinstance(start, int) and isinstance(end, int) and (best is None or start < best[0]):
            best = (start, end)
    return None if best is None else _at(text, best[0], best[1] - best[0] + 1)


def nearest(name: str, names: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known name that `name` looks like, or None. likeness: from 0 to 1, how much at least."""
    known = {n.lower(): n for n in names}
    found = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=likeness)
    return known[found[0]] if found else None
