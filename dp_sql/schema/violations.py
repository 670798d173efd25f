"""What pydantic found wrong, in the words of a schema file and at its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dp_sql.dataclass import dataclass
from dp_sql.errors import SchemaError
from dp_sql.schema.document import (
    Document,
    ListNode,
    MappingNode,
    Where,
    describe,
    dotted,
    shorten,
    spot,
    suggestion,
)

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_OTHERS = 20

_WANTED = {  # pydantic's kind of error -> what stands there in a right file
    "int_type": "a whole number, such as 1",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list in square brackets",
    "dict_type": "a mapping of keys (`key: value`)",
    "model_type": "a mapping of keys (`key: value`)",
}


@dataclass(frozen=True, slots=True)
class _Violation:
    """One problem at one place."""

    where: Where
    message: str
    key: bool = False  # the key is meant, not its value


def as_schema_error(document: Document, errors: list[ErrorDetails]) -> SchemaError:
    """Return the error that tells pydantic's findings: the first of the file, then the others."""
    found = sorted(
        (_violation(document, error) for error in errors),
        key=lambda v: (_position_key(document, v), v.message),
    )
    first = found[0]
    others = tuple(
        f"{spot(document.position(v.where, key=v.key))}: {v.message}"
        for v in found[1 : MAX_OTHERS + 1]
    )
    return document.error(first.where, first.message, key=first.key, others=others)


def _position_key(document: Document, violation: _Violation) -> tuple[int, int]:
    position = document.position(violation.where, key=violation.key)
    return position.line, position.column


def _violation(document: Document, error: ErrorDetails) -> _Violation:
    """Return one of pydantic's errors in our words."""
    where = _in_document(document, error["loc"])
    context: Mapping[str, Any] = error.get("ctx", {})
    key = str(context.get("key", ""))
    name = dotted(where)
    match error["type"]:
        case "unknown_key":
            message = f"{name} has no key {shorten(key)}. {context['message']}"
            return _Violation((*where, key), message, key=True)
        case "empty_key":
            message = f"{name}: `{key}` has no value. Write one, or remove the key."
            return _Violation((*where, key), message, key=True)
        case "missing_key":
            return _Violation(where, f"{name} needs the key `{key}`: {context['message']}")
        case "wrong_value":
            return _Violation(where, f"{name} {context['message']}.")
        case "literal_error":
            words = re.findall(r"'([^']*)'", context["expected"])
            found = describe(error["input"])
            advice = (
                suggestion(error["input"], words)
                if isinstance(error["input"], str)
                else f"Known here: {', '.join(words)}."
            )
            return _Violation(where, f"{name} can't be {found}. {advice}")
        case "greater_than_equal":
            return _Violation(where, f"{name} must be at least {context['ge']}.")
        case "less_than_equal":
            return _Violation(where, f"{name} must be at most {context['le']}.")
        case "too_short" | "too_long":
            return _Violation(where, f"{name} {_wrong_length(where, context)}.")
        case "string_too_short":
            return _Violation(where, f"{name} must not be empty.")
        case "string_too_long":
            limit = context["max_length"]
            return _Violation(where, f"{name} must have at most {limit} characters.")
        case kind if kind in _WANTED:
            found = describe(error["input"])
            return _Violation(where, f"{name} must be {_WANTED[kind]}, not {found}.")
        case _:
            return _Violation(where, f"{name} is wrong: {error['msg']}.")


def _wrong_length(where: Where, context: Mapping[str, Any]) -> str:
    """Return what a list or mapping with too many or too few parts should have."""
    if where and where[-1] == "bounds":
        return "must be two values, [lowest, highest]"
    if "max_length" in context:
        return f"must have at most {context['max_length']:,} entries"
    return "must not be empty"


def _in_document(document: Document, location: tuple[int | str, ...]) -> Where:
    """Return pydantic's location without the tags of unions, which are no keys of the file."""
    node, where = document.root, list[int | str]()
    for step in location:
        match node:
            case MappingNode(entries=entries) if step in entries:
                node = entries[str(step)].node
            case ListNode(items=items) if isinstance(step, int) and step < len(items):
                node = items[step]
            case _:
                continue
        where.append(step)
    return tuple(where)
