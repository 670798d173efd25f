"""SET [SESSION] epsilon = 0.5 and RESET epsilon: a session's own defaults, told apart before parsing."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TypeVar

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dp_sql.dataclass import dataclass
from dp_sql.errors import ParameterError, Position, QueryError, UnsupportedSQLError
from dp_sql.parser.dialect import Reading
from dp_sql.parser.text import nearest, place_of
from dp_sql.privacy.amount import show_down

SETTINGS = ("epsilon", "delta")
_Error = TypeVar("_Error", bound=QueryError)
_SCOPES = ("SESSION", "LOCAL", "GLOBAL")
_USUAL = {"epsilon": "0.5", "delta": "1e-9"}
_LONGEST = 2_000  # characters, with comments
_WORDS = re.compile(r"\b(?:RE)?SET\b", re.IGNORECASE)
_VALUES = (TokenType.NUMBER, TokenType.STRING)


@dataclass(frozen=True, slots=True)
class Setting:
    """A change of the session. name: one of SETTINGS. value: a number's text, None for the default.

    position: of the value, or of the name where there is none.
    """

    name: str
    value: str | None
    position: Position

    def refused(self, error: ParameterError, text: str, most: Fraction | None) -> ParameterError:
        """Return the error of the value with its place in `text`, and a value that is taken.

        most: the largest that is taken, None where any is.
        """
        usual = Fraction(_USUAL[self.name])
        value = _USUAL[self.name] if most is None or usual <= most else show_down(most)
        example = f"SET {self.name} = {value}"
        found = ParameterError(error.message, hint=example, text=text, position=self.position)
        return _trying(found, example)


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
    scope = tokens[0].text.upper() if tokens else ""
    if scope in _SCOPES and tokens[1:] and tokens[1].text.lower() in SETTINGS:
        if scope != "SESSION":
            raise _elsewhere(text, word, tokens)
        tokens = tokens[1:]
    if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        example = _example(word, "epsilon")
        raise _trying(QueryError(f"{word} needs a setting.", hint=example), example)
    name = tokens[0].text.lower()
    if name not in SETTINGS:
        example = _example(word, nearest(name, SETTINGS) or "epsilon")
        refused = UnsupportedSQLError(
            f"there is no setting {tokens[0].text!r} here; settings of the database belong to the engine.",
            hint=example,
            text=text,
            position=place_of(text, tokens[0]),
        )
        raise _trying(refused, example)
    if word == "RESET":
        if len(tokens) > 1:
            raise _misread(text, word, name, tokens[1])
        return Setting(name, None, place_of(text, tokens[0]))
    value = _value(text, name, tokens)
    return Setting(name, value, place_of(text, tokens[2]))


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
    refused = QueryError(
        f"this isn't how a setting is {'changed' if word == 'SET' else 'given back its default'}.",
        hint=_example(word, name),
        text=text,
        position=place_of(text, token),
    )
    return _trying(refused, _example(word, name))


def _elsewhere(text: str, word: str, tokens: list[Token]) -> QueryError:
    """Return the error for SET LOCAL and SET GLOBAL."""
    rest = text[tokens[1].start :].strip().removesuffix(";")
    refused = UnsupportedSQLError(
        f"{word} {tokens[0].text.upper()} isn't answered: a setting belongs to the session.",
        hint=f"{word} {rest}",
        text=text,
        position=place_of(text, tokens[0]),
    )
    return _trying(refused, f"{word} {rest}", _example(word, tokens[1].text.lower()))


def _trying(error: _Error, *tries: str) -> _Error:
    error.tries = tries
    return error


def _example(word: str, name: str) -> str:
    if word == "RESET":
        return f"RESET {name}"
    return f"SET {name} = {_USUAL[name]}"
