"""SET epsilon = 0.5 and RESET epsilon: a session's own defaults, told apart before parsing."""

from __future__ import annotations

import re

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dp_sql.dataclass import dataclass
from dp_sql.errors import QueryError, UnsupportedSQLError
from dp_sql.parser.dialect import Reading
from dp_sql.parser.text import nearest, place_of

SETTINGS = ("epsilon", "delta")
_LONGEST = 2_000  # characters, with comments
_WORDS = re.compile(r"\b(?:RE)?SET\b", re.IGNORECASE)
_VALUES = (TokenType.NUMBER, TokenType.STRING)


@dataclass(frozen=True, slots=True)
class Setting:
    """A change of the session. name: one of SETTINGS. value: a number's text, None for the default."""

    name: str
    value: str | None


def read_setting(text: str) -> Setting | None:
    """Return the change that a SET or RESET statement makes, None for any other statement.

    Raises QueryError for a SET or RESET that isn't written as here, and UnsupportedSQLError for a
    setting that there isn't.
    """
    if len(text) > _LONGEST or not _WORDS.search(text):
        return None
    try:
        tokens = Reading().tokenize(text)
    except TokenError:
        return None  # `parse` says what is wrong
    word = tokens[0].text.upper() if tokens else ""
    if word not in ("SET", "RESET") or tokens[0].token_type == TokenType.IDENTIFIER:
        return None
    tokens = tokens[1:]
    if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise QueryError(f"{word} needs a setting.", hint=_example(word, "epsilon"))
    name = tokens[0].text.lower()
    if name not in SETTINGS:
        close = nearest(name, SETTINGS)
        raise UnsupportedSQLError(
            f"there is no setting {tokens[0].text!r} here; settings of the database belong to the engine.",
            hint=_example(word, close or "epsilon"),
            text=text,
            position=place_of(text, tokens[0]),
        )
    if word == "RESET":
        if len(tokens) > 1:
            raise _misread(text, word, name, tokens[1])
        return Setting(name, None)
    return Setting(name, _value(text, name, tokens))


def _value(text: str, name: str, tokens: list[Token]) -> str | None:
    if len(tokens) < 3 or (tokens[1].token_type != TokenType.EQ and tokens[1].text.upper() != "TO"):
        raise _misread(text, "SET", name, tokens[min(1, len(tokens) - 1)])
    negative = tokens[2].token_type == TokenType.DASH
    rest = tokens[2 + int(negative) :]
    if len(rest) == 1 and rest[0].token_type in _VALUES:
        return ("-" if negative else "") + rest[0].text
    if len(rest) == 1 and not negative and rest[0].text.upper() == "DEFAULT":
        return None
    raise _misread(text, "SET", name, tokens[2])


def _misread(text: str, word: str, name: str, token: Token) -> QueryError:
    return QueryError(
        f"this isn't how a setting is {'changed' if word == 'SET' else 'given back its default'}.",
        hint=_example(word, name),
        text=text,
        position=place_of(text, token),
    )


def _example(word: str, name: str) -> str:
    if word == "RESET":
        return f"RESET {name}"
    return f"SET {name} = {'0.5' if name == 'epsilon' else '1e-9'}"
